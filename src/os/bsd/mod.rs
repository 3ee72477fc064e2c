//! Code that macOS and FreeBSD share and Linux does differently. With `--cfg pagewise_portable_os`
//! Linux uses it as well, so that these files can be tested there.

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
