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
//! | `guarded`, `unguarded` | sampled blocks at the end of an OS page of their own; the stand-in without the feature |
//! | `profile`, `unprofiled` | which call stacks allocated the bytes in use, by samples; the stand-in without the profiler |
//! | [`hardened`] | checks every block: `own` comes before `thread`, `paths` after `blocks` |
//!
//! Terms used throughout:
//!
//! | term | meaning |
//! |---|---|
//! | unit | 16 bytes, the usual alignment |
//! | half unit | 8 bytes, the least alignment |
//! | granule | 16 KiB, for which the tables beside the heaps have an entry (in [`small`](crate::small), one word) |
//! | window | the addresses of all heaps (in [`pages`](crate::pages), the free blocks that a class serves next) |
//! | slot | the addresses of one heap. A block in no slot is a mapping or a guarded block |
//! | engine | here a whole [`PageHeap`](crate::PageHeap): in the crate's words a `Heap` around a `PageEngine` |
//! | small | a block up to FFCROSSOVER, which quick lists serve |
//! | tagged | a larger block in a heap, with a boundary tag before it: neither small nor a mapping |
//! | medium | a tagged block of up to 1 MiB, which [`lists::medium`] may keep |
//! | large | a tagged block above that |
//! | extent, dedicated memory | the parts of a slot: blocks, from below; bookkeeping, from above (see [`source`](crate::source)) |
//! | face | stands in for the lists of a thread in hardened mode: every push and pop on it fails |
//! | shadow | stands in for one list, in granules with sampled blocks: every push and pop on it fails |
//! | run | what is adjacent and handled as one: OS pages, or blocks of one size |
//! | batch | the blocks that cross a heap's lock at once |
//! | fast path, slow path | a pop or a push on a list; everything else |
//! | `asked` | the tuning of the `Pagewise` that is called; it counts only if no other was used before |
//! | sample | of memory: what tells whether more like it will be written ([`memory::huge`]); of blocks: what a profile records ([`base::sampler`]) |
//! | purge | a walk through a heap that gives its free OS pages back to the system |
//! | visit | the time that a thread on its slow path spends on giving memory back |
//! | token | a number that names a running thread |
//! | stayed behind | said of a thread that exists in the parent of a fork, but not in the child |
//! | interposed function | a function of the program that replaces one of the C library, such as `mmap`. It may allocate: then a request begins within another one of the same thread, perhaps while that holds a lock |
//!
//! Each folder's `mod.rs` lists its files. A file uses only the folders above its own, the files
//! above it there, and extras; a test checks that. `statics` and `on_a_heap` are for tests.
//!
//! [`Pagewise`]: super::Pagewise

mod base;
#[cfg(feature = "guarded")]
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
#[cfg(not(feature = "guarded"))]
mod unguarded;
#[cfg(not(all(feature = "profiler", target_os = "linux")))]
mod unprofiled;

#[cfg(not(feature = "guarded"))]
use unguarded as guarded;
#[cfg(not(all(feature = "profiler", target_os = "linux")))]
use unprofiled as profile;
