//! The sampling heap profiler: which call stacks the bytes in use were allocated by, and all bytes ever.
//!
//! ```text
//!  allocate ──▶ slow path ──▶ sampler: hit? ──▶ stack of calls ──▶ book: stacks │ live blocks │ granules
//!                                                                   ▲ block's address
//!  free ──▶ granule's list is a shadow ──▶ slow path ──▶ presence ──┘
//! ```
//! **Which blocks.** A [sampler](super::sampler) of each thread says. It needs none of the fast path's instructions: a
//! thread counts its pops anyway, for the clock.
//!
//! **Their frees.** A sampled block is a block like others, on a page like others. Invariants, while there is a profile and
//! not in hardened mode, of every block in the book:
//! - It is small, and the entry of its granule names the [shadow](super::quick::shadow) of its list, onto which no block can
//!   be pushed. Pages with blocks in use keep their class, so nobody writes that entry meanwhile but under the book's lock.
//! - Or it is not small; then frees of it take the slow path anyway.
//! - Frees with a size, which look at no address, [take the slow path](super::sizes::see_blocks), all of them.
//!
//! In hardened mode every free is slow. The slow path asks the [presence](presence), one load mostly; what may be in
//! the book is looked up there and taken out before the block is anybody else's. So who frees it never waits for more
//! than the lock; where that cannot be had, the address waits for the next who has it.
//!
//! **What is kept** ([`book`]) lies in mappings of its own. Where there is no memory for it, or too much is asked for, samples
//! are dropped and counted. No lock is held while a stack is walked or a file written.
//!
//! | file | |
//! |---|---|
//! | `grown` | arrays in mappings |
//! | `presence` | whether a block may have been sampled |
//! | `book` | stacks, and live blocks |
//! | `sampling` | what is done with a request; on, off, forks |
//! | `modules` | which files the code is of, and their build ids |
//! | `gzip`, `pprof` | a profile as a file |
//! | `dump` | when files are written |

mod book;
mod dump;
mod grown;
mod gzip;
mod modules;
mod pprof;
mod presence;
mod sampling;

pub(in super::super) use book::{Site, Snapshot};
pub(super) use dump::{dump_if_wanted, opened};
pub(in super::super) use dump::{write, write_to_path};
pub(in super::super) use sampling::{Refused, snapshot, start, stop};
pub(super) use sampling::{
    after_fork, after_fork_in_child, forget, restore, sampled, take, take_for_fork, wants,
};
