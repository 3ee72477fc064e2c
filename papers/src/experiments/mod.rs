//! What papers experimented on, rebuilt: programs, demands and memories. The tables that come of them
//! are in the modules named after the papers.

pub(crate) mod brent;
pub(crate) mod nielsen;
