//! The allocator proper, on Linux: what [`Pagewise`] does there.
//!
//! Files, in the order they build on each other:
//!
//! | files | |
//! |---|---|
//! | `os`, `sync`, `lock` | the kernel's calls; the lock over them |
//! | `text` | text for standard error |
//! | `settings` | what the environment sets, and what of it is ignored |
//! | `huge` | which memory is to be of huge pages |
//! | `space` | the addresses of all heaps, cut into slots |
//! | `zero` | which free memory is zeros |
//! | `purge` | what goes back to the system, and when |
//! | `heap`, `deferred` | what stands behind a lock; blocks freed while that could not be waited for |
//! | `quick` | the lists of free blocks that each thread has |
//! | `thread`, `registry` | which thread has which lists and heap |
//! | `fork` | a fork at any moment |
//! | `relief` | what goes back before the process grows |
//! | `mapping` | the largest blocks, each a mapping of its own |
//! | `background` | the thread that gives memory back while the program stands still |
//! | `front` | the paths of a request through all of these |
//! | `gather` | the statistics |
//! | `face` | what a program sees |

mod background;
mod deferred;
mod face;
mod fork;
mod front;
mod gather;
mod heap;
mod huge;
mod lock;
mod mapping;
mod os;
mod purge;
mod quick;
mod registry;
mod relief;
mod settings;
mod space;
mod sync;
mod text;
mod thread;
mod zero;

use super::{ClassStats, Pagewise, Stats, tuning};
