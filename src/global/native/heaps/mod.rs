//! Where blocks come from, shared by all threads: heaps, each behind a lock, and mappings for the
//! largest blocks. Uses `base` and `memory`. Used by `lists`, which refill from here and flush to
//! here, and by the folders below it.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `rest` | how long lists rest after they were asked to make way before a heap grows |
//! | `state`, `deferred`, `heap` | a heap: its state; blocks that wait for its lock; its lock |
//! | `pool` | all heaps, and which thread gets which |
//! | `kept` | freed mappings, kept for later blocks |
//! | `mapping` | blocks that are mappings of their own |
//! | `relief` | gives free memory back before the process grows |
//! | `background` | a thread that gives memory back while the program is idle |

pub(super) mod background;
mod deferred;
pub(super) mod heap;
pub(super) mod kept;
pub(super) mod mapping;
pub(super) mod pool;
pub(super) mod relief;
mod rest;
pub(super) mod state;
