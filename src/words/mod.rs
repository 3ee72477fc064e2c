//! Plain words in dedicated memory, apart from the blocks: growable arrays whose records never
//! move, and words of bits.

pub(crate) mod bits;
#[cfg(feature = "strategies")]
mod pools;
#[cfg(feature = "strategies")]
mod table;

#[cfg(feature = "strategies")]
pub(crate) use pools::Pools;
#[cfg(feature = "strategies")]
pub(crate) use table::{Plain, Table};
