//! The allocator proper, on the systems that `os` fully supports: how [`Pagewise`] works there.
//!
//! Blocks come from *heaps*, each an engine in a slot of the address space, behind a lock. Each
//! thread has lists of free blocks, and takes the lock only to refill or flush them. The largest
//! blocks are mappings of their own.
//!
//! The files, in the order they build on each other:
//!
//! | files | |
//! |---|---|
//! | **Ground** | |
//! | `apart` | statics in cache lines of their own |
//! | `sealed` | statics in OS pages of their own, read-only in hardened mode |
//! | `sync`, `lock`, `gate` | atomics, barriers; the lock; the gate to a thread's own data |
//! | `text` | text for standard error |
//! | `mode` | whether the process runs hardened |
//! | `sizes` | which list serves which size |
//! | `visit` | bounds the time that a thread spends on maintenance |
//! | `sampler` | which blocks are sampled |
//! | `settings` | settings from the environment, and complaints about ignored ones |
//! | **Addresses and memory** | |
//! | `huge` | which memory may be huge pages |
//! | `space` | the addresses of all heaps, cut into slots |
//! | `fault` | the line that reports a misuse |
//! | `refused` | memory whose addresses the system did not take back |
//! | `zero` | which free memory is known to be zeros |
//! | `runs` | runs of free OS pages that go back by one call |
//! | `purge` | which memory goes back to the system, and when |
//! | **Heaps and mappings** | |
//! | `state`, `deferred`, `heap` | a heap: its state; blocks that wait for its lock; its lock |
//! | `heaps` | all heaps, and which thread gets which |
//! | `kept` | freed mappings, kept for blocks that grow |
//! | `mapping` | the largest blocks, each a mapping of its own |
//! | `relief` | gives free memory back before the process grows |
//! | `background` | a thread that gives memory back while the program is idle |
//! | **Threads' lists** | |
//! | `countdown` | pops until something is due |
//! | `quick`, `current` | each thread's lists of small blocks; the pointer to them |
//! | `medium` | each thread's lists of medium blocks |
//! | `ended` | the lists of threads that have ended |
//! | `registry` | the tuning in force, the lists of all threads |
//! | `idle` | puts medium blocks back that were on a list for a while |
//! | `sorting`, `exchange` | sorts blocks by heap; moves batches of blocks across a heap's lock |
//! | **Process** | |
//! | `fork` | a fork at any moment |
//! | `statistics` | bytes in use and held |
//! | **Requests** | |
//! | `thread` | how a thread begins and ends |
//! | `blocks` | allocates blocks from heaps and mappings, and frees them |
//! | `usual` | serves requests that quick lists do not, in the usual mode |
//! | `paths` | the paths of a request through all of these |
//! | `by_address` | measures and resizes blocks whose size the caller does not remember |
//! | `api` | the interfaces for programs |
//! | **Extras**, off by default | used by requests, and in part built on them |
//! | `guarded` | sampled blocks at the end of an OS page of their own |
//! | `profile`, `unprofiled` | which call stacks allocated the bytes in use, by samples; its stand-in without it |
//! | `hardened` | checks every block: `own` comes before `thread`, `paths` after `blocks` |
//!
//! A file uses only those above it, and extras; a test checks that. `statics` and `on_a_heap` are for tests.

mod apart;
mod api;
mod background;
mod blocks;
mod by_address;
mod countdown;
mod current;
mod deferred;
mod ended;
mod exchange;
mod fault;
mod fork;
mod gate;
mod guarded;
mod hardened;
mod heap;
mod heaps;
mod huge;
mod idle;
mod kept;
mod lock;
mod mapping;
mod medium;
mod mode;
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod on_a_heap;
mod paths;
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(super) mod profile;
mod purge;
mod quick;
mod refused;
mod registry;
mod relief;
mod runs;
#[cfg_attr(
    not(all(feature = "profiler", target_os = "linux")),
    allow(dead_code, reason = "nothing is sampled without the profiler")
)]
mod sampler;
mod sealed;
mod settings;
mod sizes;
mod sorting;
mod space;
mod state;
#[cfg(test)]
mod statics;
mod statistics;
mod sync;
mod text;
mod thread;
#[cfg(not(all(feature = "profiler", target_os = "linux")))]
mod unprofiled;
mod usual;
mod visit;
mod zero;

#[cfg(not(all(feature = "profiler", target_os = "linux")))]
use unprofiled as profile;

use super::{ClassStats, Pagewise, Stats, tuning};
