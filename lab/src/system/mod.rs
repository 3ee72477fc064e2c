//! What is asked of the operating system: what its allocator holds, and another's in its place.

pub(crate) mod gauge;
pub(crate) mod library;
