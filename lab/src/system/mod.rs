//! What is asked of the operating system: what its allocator holds, another's in its place, signals.

pub(crate) mod gauge;
pub(crate) mod library;
pub(crate) mod signals;
