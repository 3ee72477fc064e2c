//! Calls of the operating system: pinning to a CPU, and the resources charged to a process.

pub mod affinity;
pub mod charged;
