//! What is asked of the operating system: one CPU, a process of its own, what it charges and what its
//! allocator holds.

pub(crate) mod affinity;
pub(crate) mod charged;
pub(crate) mod child;
pub(crate) mod gauge;
pub(crate) mod library;
