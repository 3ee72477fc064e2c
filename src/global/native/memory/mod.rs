//! The addresses of the heaps, and the system's memory there: which of it may be huge pages, is
//! known to be zeros, or goes back. Uses `base`. Used by all folders below it.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `huge` | which memory may be huge pages |
//! | `space` | the addresses of all heaps, cut into slots |
//! | `slot` | the memory of a slot |
//! | `misuse` | the line that reports a misuse |
//! | `refused` | memory whose addresses the system did not take back |
//! | `outside` | new addresses outside all heaps |
//! | `zero` | which free memory is known to be zeros |
//! | `runs` | runs of free OS pages that go back by one call |
//! | `purge` | which memory goes back to the system, and when |

pub(super) mod huge;
pub(super) mod misuse;
pub(super) mod outside;
pub(super) mod purge;
pub(super) mod refused;
mod runs;
pub(super) mod slot;
pub(super) mod space;
pub(super) mod zero;
