//! Plain words in dedicated memory, apart from the blocks: growable arrays whose records never move, and
//! words of bits.

pub(crate) mod bits;
mod pools;
mod table;

pub(crate) use pools::Pools;
pub(crate) use table::{Plain, Table};
