//! What concerns the heaps and the lists of all threads at once. Uses the folders before it; requests
//! use it when the first thread starts and when memory runs out.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `fork` | a fork at any moment |
//! | `statistics` | bytes in use and held |

pub(super) mod fork;
pub(super) mod statistics;
