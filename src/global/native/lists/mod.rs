//! Each thread's lists of free blocks, in front of the heaps. Uses `base`, `memory` and `heaps`.
//! Used by `process` and `requests`, which look here first.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `countdown`, `listed` | pops until something is due; what is on lists |
//! | `quick`, `current` | each thread's lists of small blocks; the pointer to them |
//! | `medium` | each thread's lists of medium blocks |
//! | `ended` | the lists of threads that have ended |
//! | `registry` | the tuning in force, the lists of all threads |
//! | `idle` | puts medium blocks back that were on a list for a while |
//! | `sorting`, `exchange` | sorts blocks by heap; moves batches of blocks across a heap's lock |
//! | `growth` | lists make way before a heap grows |

pub(super) mod countdown;
pub(super) mod current;
pub(super) mod ended;
mod exchange;
mod growth;
pub(super) mod idle;
pub(super) mod listed;
pub(super) mod medium;
pub(super) mod quick;
pub(super) mod registry;
mod sorting;
