//! Calls of the operating system: the bytes that its allocator holds, preloading another allocator,
//! signals.

pub(crate) mod gauge;
pub(crate) mod library;
pub(crate) mod signals;
