//! Guarded blocks: one allocation in *n* is placed at the end of an OS page of its own, before a
//! closed page, which is inaccessible. When the block is freed, its own page is closed as well.
//! This is the method of GWP-ASan (Serebryany, Kennelly, Phillips et al. 2023, *Sampling-based
//! detection of memory safety bugs in production*).
//!
//! ```text
//!  | closed | … block | | closed | (freed) | closed | … block | | closed |
//!            place 0             place 1             place 2
//! ```
//! A thread that accesses memory beyond such a block, or after it was freed, gets SIGSEGV at that
//! very instruction. [`report`] then writes which block it was, and where it was allocated and
//! freed. Freed places are reused in the order in which they were freed.
//!
//! Whether an allocation is guarded is decided only where a thread does its [periodic
//! work](crate::global::native::lists::quick::Lists::do_periodic_work) anyway, so all other
//! allocations pay nothing.

mod paths;
mod pool;
mod report;
mod stack;

pub(super) use paths::{allocate, free, len, may_be_outside, open, shorten};
pub(super) use pool::{after_fork, after_fork_in_child, contains, take_for_fork};
