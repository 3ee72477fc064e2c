//! The sampling heap profiler: estimates which call stacks allocated the bytes in use, and all
//! bytes ever allocated.
//!
//! ```text
//!  allocate ──▶ slow path ──▶ sampler: hit? ──▶ stack of calls ──▶ book: stacks │ live blocks │ granules
//!                                                                   ▲ block's address
//!  free ──▶ granule's list is a shadow ──▶ slow path ──▶ presence ──┘
//! ```
//! **Which blocks are sampled.** Each thread's [sampler](crate::global::native::base::sampler)
//! decides. It adds no instructions to the fast path, because a thread counts its pops anyway, to
//! know when to read the clock.
//!
//! **How their frees are seen.** A sampled block is an ordinary block on an ordinary page. While
//! there is a profile, and outside hardened mode, these invariants hold for the blocks in the book:
//! - If the block is small, the table entry of its granule names the
//!   [shadow](crate::global::native::lists::quick::shadow) of its list. No block can be pushed onto
//!   a shadow, so frees by address in this granule take the slow path. A page with blocks in use
//!   keeps its class, so only the book's lock holder writes the entry.
//! - If the block is not small, frees of it take the slow path anyway.
//! - All frees with a size, which do not look at the address, [take the slow
//!   path](crate::global::native::base::sizes::disable_fast_paths).
//!
//! In hardened mode every free takes the slow path. The slow path asks [`presence`], mostly with
//! one load, whether the block may be in the book. If it may be, the block is looked up there and
//! taken out before anyone else can get it. The freeing thread waits for at most the book's lock;
//! if it cannot wait for that, it leaves the address for the next thread that takes the lock.
//!
//! **Where the data is kept.** The [`book`] uses mappings of its own. If there is no memory, or a
//! limit is reached, samples are dropped and counted. No lock is held while a stack is walked or a
//! file is written.
//!
//! | file | |
//! |---|---|
//! | `grown` | growable arrays in mappings |
//! | `presence` | whether a block may have been sampled |
//! | `book` | stacks and live blocks |
//! | `sampling` | taking samples; start and stop; forks |
//! | `modules` | the files that the process's code is from, and their build ids |
//! | `gzip`, `pprof` | the file format |
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
#[cfg(feature = "std")]
pub(in super::super) use dump::write;
pub(in super::super) use dump::write_to_path;
pub(super) use dump::{dump_if_wanted, start_if_set};
pub(super) use sampling::{
    add_sample, after_fork, after_fork_in_child, decide_sample, forget, restore, take,
    take_for_fork,
};
pub(in super::super) use sampling::{snapshot, start, stop};
