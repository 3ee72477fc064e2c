//! Linux, with every C library.
//!
//! Miri, which interprets the allocator's tests, knows few of the calls for memory: `interpreted` fulfils
//! the same contracts there.

#[cfg(miri)]
mod interpreted;
#[cfg(not(miri))]
mod memory;
mod process;
mod quota;
mod threads;
mod wait;

#[cfg(miri)]
pub(crate) use interpreted::*;
#[cfg(not(miri))]
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use quota::*;
pub(crate) use threads::*;
pub(crate) use wait::*;
