//! The allocator proper, on the systems that `os` fully supports: how [`Pagewise`] works there.
//!
//! Blocks come from *heaps*, each an engine in a slot of the address space, behind a lock. Each
//! thread has lists of free blocks, and takes the lock only to refill or flush them. The largest
//! blocks are mappings of their own.
//!
//! | folders, in the order they build on each other | |
//! |---|---|
//! | [`base`] | statics, the lock, settings, size classes |
//! | [`memory`] | the addresses of the heaps, and the system's memory there |
//! | [`heaps`] | heaps, and the mappings of the largest blocks |
//! | [`lists`] | each thread's lists of free blocks |
//! | [`process`] | forks, statistics |
//! | [`requests`] | allocates, resizes and frees the program's blocks |
//! | **Extras**, off by default | used by requests, and in part built on them |
//! | [`guarded`] | sampled blocks at the end of an OS page of their own |
//! | [`profile`], `unprofiled` | which call stacks allocated the bytes in use, by samples; its stand-in without it |
//! | [`hardened`] | checks every block: `own` comes before `thread`, `paths` after `blocks` |
//!
//! Each folder's `mod.rs` lists its files. A file uses only the folders above its own, the files
//! above it there, and extras; a test checks that. `statics` and `on_a_heap` are for tests.
//!
//! [`Pagewise`]: super::Pagewise

mod base;
mod guarded;
mod hardened;
mod heaps;
mod lists;
mod memory;
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod on_a_heap;
mod process;
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(super) mod profile;
mod requests;
#[cfg(test)]
mod statics;
#[cfg(not(all(feature = "profiler", target_os = "linux")))]
mod unprofiled;

#[cfg(not(all(feature = "profiler", target_os = "linux")))]
use unprofiled as profile;
