//! Code shared by Linux, macOS and FreeBSD, the Unixes on which `Pagewise` is an allocator of its
//! own.

#[cfg(any(feature = "guarded", all(feature = "profiler", target_os = "linux")))]
mod actions;
#[cfg(any(feature = "guarded", all(feature = "profiler", target_os = "linux")))]
mod call_stack;
mod clock;
mod environment;
#[cfg(feature = "guarded")]
mod faults;
#[cfg(not(miri))]
mod memory;
mod process;
mod thread_end;
mod threads;
#[cfg(not(any(miri, target_os = "macos")))]
mod unload;

#[cfg(any(feature = "guarded", all(feature = "profiler", target_os = "linux")))]
pub(in crate::os) use actions::*;
#[cfg(any(feature = "guarded", all(feature = "profiler", target_os = "linux")))]
pub(crate) use call_stack::*;
pub(crate) use clock::*;
pub(crate) use environment::*;
#[cfg(feature = "guarded")]
pub(crate) use faults::*;
#[cfg(not(miri))]
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use thread_end::*;
pub(crate) use threads::*;
