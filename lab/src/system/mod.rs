//! Calls of the operating system: the bytes that its allocator holds, another allocator in its
//! place, signals.

pub(crate) mod gauge;
pub(crate) mod library;
pub(crate) mod signals;
