//! Serves the program's requests with the help of all folders above it. The way in from outside is
//! `api`, which implements [`Pagewise`](crate::global::Pagewise).
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `thread` | how a thread begins and ends |
//! | `blocks` | allocates blocks from heaps, and puts them back |
//! | `mapped` | allocates, resizes and frees blocks in no heap |
//! | `usual` | serves requests that quick lists do not, in the default mode |
//! | `sampled` | serves requests while blocks are sampled for a profile |
//! | `paths` | the paths of a request through all of these |
//! | `by_address` | measures and resizes blocks whose size the caller does not remember |
//! | `api` | the interfaces for programs |

mod api;
pub(super) mod blocks;
mod by_address;
pub(super) mod mapped;
pub(super) mod paths;
mod sampled;
pub(super) mod thread;
mod usual;
