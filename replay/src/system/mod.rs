//! What is asked of the operating system: one CPU, and what it charges.

pub mod affinity;
pub mod charged;
