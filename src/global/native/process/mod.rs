//! What concerns all threads and heaps of the process at once. Uses the folders above it. Used by
//! `requests`.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `fork` | a fork at any moment |
//! | `statistics` | bytes in use and held |

pub(super) mod fork;
pub(super) mod statistics;
