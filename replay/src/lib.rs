//! Code shared by the workbench and the papers' experiments: it reads traces within limits and
//! replays them, simulates paging, and prints results.
//!
//! | modules, in order of dependency | what |
//! |---|---|
//! | [`usage`], [`units`], [`printable`], [`text`], [`unwinding`] | errors of the command line; numbers, names and paragraphs for people |
//! | [`system`] | calls of the operating system |
//! | [`input`], [`output`], [`progress`], [`sheet`], [`charts`] | traces, within limits; output for people: files, tables, charts |
//! | [`workload`], [`timing`], [`lea`] | a trace ready for replay; runs that take turns; a rival |
//! | [`paging`] | simulated page faults |
//! | [`statistics`], [`generator`], [`bundled`] | a trace's requests; generated traces; the project's own traces |
//!
//! Other programs should not use this crate: it changes with its two users.

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
