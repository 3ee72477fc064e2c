//! The papers' experiments, rebuilt: programs, demands and memories. The tables made from them are
//! in the modules named after the papers.

pub(crate) mod brent;
pub(crate) mod nielsen;
