//! What macOS and FreeBSD do otherwise than Linux, and alike. With `--cfg pagewise_portable_os` Linux does so, too, for
//! a test of these files on a system that is at hand.

mod memory;
#[cfg(not(target_os = "freebsd"))]
mod poll;
#[cfg(not(target_os = "linux"))]
mod process;

pub(crate) use memory::*;
#[cfg(not(target_os = "freebsd"))]
pub(crate) use poll::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use process::*;
