//! Calls of the operating system: pinning to one CPU, and the resources that it charges.

pub mod affinity;
pub mod charged;
