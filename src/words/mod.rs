//! Plain words in dedicated memory, apart from the blocks: growable arrays whose records never
//! move, words of bits, and where a key lies in a table.

pub(crate) mod bits;
#[cfg(feature = "strategies")]
mod pools;
#[cfg(any(feature = "os", feature = "strategies"))]
pub(crate) mod scatter;
#[cfg(feature = "strategies")]
mod table;

#[cfg(feature = "strategies")]
pub(crate) use pools::Pools;
#[cfg(feature = "strategies")]
pub(crate) use table::{Plain, Table};
