//! Linux, with any C library.
//!
//! Miri knows few of the memory calls. Under Miri, `interpreted` fulfils the contracts of `memory`
//! and of `posix`'s memory calls. With `--cfg pagewise_portable_os`, memory and waiting come from
//! `bsd`, to test that code on Linux.

#[cfg(not(any(miri, pagewise_portable_os)))]
mod barrier;
#[cfg(all(target_pointer_width = "64", not(miri)))]
mod clock;
#[cfg(feature = "profiler")]
mod files;
#[cfg(not(any(miri, pagewise_portable_os)))]
mod huge;
#[cfg(all(miri, not(pagewise_portable_os)))]
mod interpreted;
#[cfg(not(any(miri, pagewise_portable_os)))]
mod memory;
#[cfg(not(any(miri, pagewise_portable_os)))]
mod moves;
mod quota;
mod sandbox;
#[cfg(feature = "profiler")]
mod signals;
mod system;
#[cfg(not(pagewise_portable_os))]
mod wait;

#[cfg(not(any(miri, pagewise_portable_os)))]
pub(crate) use barrier::*;
#[cfg(all(target_pointer_width = "64", not(miri)))]
pub(crate) use clock::*;
#[cfg(feature = "profiler")]
pub(crate) use files::*;
#[cfg(not(any(miri, pagewise_portable_os)))]
pub(crate) use huge::*;
#[cfg(all(miri, not(pagewise_portable_os)))]
pub(crate) use interpreted::*;
#[cfg(not(any(miri, pagewise_portable_os)))]
pub(crate) use memory::*;
#[cfg(not(any(miri, pagewise_portable_os)))]
pub(crate) use moves::*;
pub(crate) use quota::*;
pub(crate) use sandbox::*;
#[cfg(feature = "profiler")]
pub(crate) use signals::*;
pub(crate) use system::*;
#[cfg(not(pagewise_portable_os))]
pub(crate) use wait::*;
