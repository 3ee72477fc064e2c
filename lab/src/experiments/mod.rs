//! What papers experimented on, rebuilt: programs, demands and memories. The tables that come of them
//! are in [`tables`](crate::tables).

pub(crate) mod brent;
pub(crate) mod nielsen;
