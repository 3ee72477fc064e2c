//! Calls of the operating system: the bytes that its allocator holds, preloading another allocator,
//! signals, what the process was started with.

pub(crate) mod gauge;
pub(crate) mod inherited;
pub(crate) mod library;
pub(crate) mod signals;
