//! What is asked of the operating system: one CPU, what it charges, what its allocator holds, and
//! another's in its place.

pub(crate) mod affinity;
pub(crate) mod charged;
pub(crate) mod gauge;
pub(crate) mod library;
