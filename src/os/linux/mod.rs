//! Linux, with every C library.
//!
//! Miri, which interprets the allocator's tests, knows few of the calls for memory: `interpreted` fulfils
//! the same contracts there.

mod call_stack;
mod environment;
mod faults;
#[cfg(miri)]
mod interpreted;
#[cfg(not(miri))]
mod memory;
mod process;
mod quota;
mod thread_end;
mod threads;
mod wait;

pub(crate) use call_stack::*;
pub(crate) use environment::*;
pub(crate) use faults::*;
#[cfg(miri)]
pub(crate) use interpreted::*;
#[cfg(not(miri))]
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use quota::*;
pub(crate) use thread_end::*;
pub(crate) use threads::*;
pub(crate) use wait::*;
