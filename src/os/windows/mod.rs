//! Windows.
//!
//! Memory is reserved and committed, and a reservation goes back only as a whole: [`release`] of a
//! part decommits it, and releases the reservation once no part of it is committed.

#[cfg(feature = "guarded")]
mod call_stack;
mod environment;
#[cfg(feature = "guarded")]
mod faults;
mod lazily;
mod memory;
mod process;
mod thread_end;
mod threads;
mod wait;

#[cfg(feature = "guarded")]
pub(crate) use call_stack::*;
pub(crate) use environment::*;
#[cfg(feature = "guarded")]
pub(crate) use faults::*;
pub(crate) use lazily::*;
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use thread_end::*;
pub(crate) use threads::*;
pub(crate) use wait::*;
