//! The papers' experiments, reconstructed: programs, loads and memories. The modules named after
//! the papers make the tables from them.

pub(crate) mod brent;
pub(crate) mod nielsen;
