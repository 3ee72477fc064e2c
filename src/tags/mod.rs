//! Boundary tags: a heap of adjoining blocks keeps each block's size and state beside the block
//! itself (Knuth 1973, §2.5; Hasan & Chang 2006, §3.1).
//!
//! Memory is counted in *cells* of 16 bytes. A block of n cells is named by the cell where its
//! contents start, its *start*. Its header is the last word of the cell before, so contents are
//! aligned to a cell and a block costs 4 bytes; only a free block has a footer and links:
//!
//! ```text
//!            start − 1         start                        start + n − 1
//!  in use   | …     …    [H] |  contents            …        …       …  [H'] |
//!  free     | …     …    [H] | [link 0][link 1]     …        …   [ F ]  [H'] |
//!  byte                 −4      0       4                   16n−8 16n−4
//! ```
//! H: size in cells and the flags IN_USE, PREV_IN_USE; F: size in cells; H' is the header of the
//! next block. A link is the start of another block, or [`NONE`]. Tags and links do not overlap, so
//! tags may be rewritten while links still have to be read. In a block of one cell only these four
//! words are written; a longer free block may hold two more links, and an index may use the cells
//! below the first block. A heap whose blocks have an owner keeps it where F would be, and hands
//! out 4 bytes less.
//!
//! The 30 bits of a size bound a heap to 16 GiB. In return the least block takes 16 bytes, free or
//! not, where pointers and words of 64 bits would take 32.

mod append;
#[cfg(test)]
pub(crate) mod attack;
mod audit;
mod by_word;
mod cells;
pub(crate) mod header;
mod layout;
mod read;
mod size;
mod walk;
mod write;

pub(crate) use cells::Cells;
pub(crate) use header::MAX_CELLS;
pub(crate) use layout::Block;
pub(crate) use layout::{CELL, Link, NONE, TAG, WORDS};
pub(crate) use size::Sizes;
