//! Guarded blocks: one allocation in so many lies at the end of an OS page of its own, before a page that
//! nobody may touch, and its page is closed when it is freed (as GWP-ASan does: Serebryany, Kennelly, Phillips et
//! al. 2023, *Sampling-based detection of memory safety bugs in production*).
//!
//! ```text
//!  | closed | … block | | closed | (freed) | closed | … block | | closed |
//!            place 0             place 1             place 2
//! ```
//! Whoever writes beyond such a block, or uses it after it was freed, gets SIGSEGV at that very instruction;
//! [`report`] then says which block it was, and where it was allocated and freed. Freed places are used again
//! in turn, the one that was freed first.
//!
//! Nobody asks whether an allocation is to be guarded but who [looks](super::quick::Lists::look) at the clock
//! anyway, so there is no cost where none is.

mod paths;
mod pool;
mod report;
mod stack;

pub(super) use paths::{allocate, free, known_len, len_of, may_be_outside, open};
pub(super) use pool::has;
