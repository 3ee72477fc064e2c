//! Code shared by Linux, macOS and FreeBSD, the Unixes on which `Pagewise` is an allocator of its
//! own.

mod actions;
mod call_stack;
mod clock;
mod environment;
mod faults;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod frames;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
#[path = "system_frames.rs"]
mod frames;
#[cfg(not(miri))]
mod memory;
mod process;
mod thread_end;
mod threads;
#[cfg(not(any(miri, target_os = "macos")))]
mod unload;

pub(in crate::os) use actions::*;
pub(crate) use call_stack::*;
pub(crate) use clock::*;
pub(crate) use environment::*;
pub(crate) use faults::*;
#[cfg(not(miri))]
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use thread_end::*;
pub(crate) use threads::*;
