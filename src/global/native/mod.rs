//! The allocator proper, on the systems that `os` serves whole: what [`Pagewise`] does there.
//!
//! Files, in the order they build on each other:
//!
//! | files | |
//! |---|---|
//! | `apart` | statics in cache lines of their own |
//! | `sealed` | statics in OS pages of their own, read-only in hardened mode |
//! | `sync`, `lock`, `gate` | the lock; what is one thread's, and others visit |
//! | `text` | text for standard error |
//! | `mode` | whether the process runs hardened |
//! | `sizes` | which list serves which size |
//! | `settings` | what the environment sets, and what of it is ignored |
//! | `huge` | which memory is to be of huge pages |
//! | `space` | the addresses of all heaps, cut into slots |
//! | `fault` | the line that reports a misuse |
//! | `zero` | which free memory is zeros |
//! | `visit` | how long whoever comes by looks after that |
//! | `refused` | memory that the system did not take back with its addresses |
//! | `runs` | runs of free OS pages that go back by one call |
//! | `purge` | what goes back to the system, and when |
//! | `state`, `deferred`, `heap` | what a heap is; blocks freed while somebody else had its lock |
//! | `heaps` | which heaps there are |
//! | `kept` | mappings that were freed, for blocks that grow |
//! | `mapping` | the largest blocks, each a mapping of its own |
//! | `relief` | what goes back before the process grows |
//! | `background` | the thread that gives memory back while the program stands still |
//! | `countdown`, `sampler` | what is due after so many blocks; which of them are sampled |
//! | `sorting`, `exchange` | blocks sorted by their heaps; blocks that cross a heap's lock |
//! | `quick`, `current` | the lists of free blocks that each thread has, and where they are found |
//! | `medium` | such lists of medium blocks |
//! | `ended` | the lists of threads that have ended |
//! | `registry` | the tuning in force, the lists of all threads |
//! | `idle` | medium blocks that lay on a list for a while |
//! | `fork` | a fork at any moment |
//! | `statistics` | what is in use and held |
//! | `guarded` | blocks at the end of a page of their own |
//! | `profile` | who allocated what is in use, by samples |
//! | `hardened` | every block checked: what its files say; `own` before `thread`, `paths` after `blocks` |
//! | `thread` | how a thread begins and ends |
//! | `blocks` | blocks from heaps and mappings, and back |
//! | `usual` | what the usual mode does where quick lists do not serve |
//! | `paths` | the paths of a request through all of these |
//! | `by_address` | blocks measured and resized, whose size the caller does not remember |
//! | `api` | what a program sees |

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
