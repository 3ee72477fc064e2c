//! What the workbench and the papers' experiments share: traces read within limits and replayed, paging
//! simulated, and what people see of it.
//!
//! | modules, in the order they build on each other | what |
//! |---|---|
//! | [`usage`], [`units`], [`printable`], [`text`], [`unwinding`] | errors of the command line; numbers, names and paragraphs for people |
//! | [`system`] | what is asked of the operating system |
//! | [`input`], [`output`], [`progress`], [`sheet`], [`charts`] | traces, within limits; what people see: files, tables, charts |
//! | [`workload`], [`timing`], [`lea`] | a trace as it is replayed; runs in turns; a rival |
//! | [`paging`] | page faults simulated |
//! | [`statistics`], [`generator`], [`bundled`] | what a trace asks for; traces made; those that come with the project |
//!
//! Not for other programs: it changes with its two users.

pub mod bundled;
pub mod charts;
pub mod generator;
pub mod input;
pub mod lea;
pub mod output;
pub mod paging;
pub mod printable;
pub mod progress;
pub mod sheet;
pub mod statistics;
pub mod system;
pub mod text;
pub mod timing;
pub mod units;
pub mod unwinding;
pub mod usage;
pub mod workload;
