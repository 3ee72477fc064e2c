//! The tests that take longest: guides and README are followed, and a browser draws reports. They
//! are one program, since cargo runs programs one after the other: while one test waits, or uses
//! one core, another runs.

mod browser;
#[path = "../common/mod.rs"]
mod common;
mod guide;
mod readme;
mod report;
