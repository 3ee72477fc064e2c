//! H(P): what is known of a page, out of the page (Brent §4).

use crate::words::Plain;

/// H(P). Headers are named by their number in the table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PageHeader {
    /// Neighbours on the list the page is on.
    pub(super) next: u32,
    pub(super) prev: u32,
    /// "leftmost": the left header of that list, or the page's place in a pool.
    pub(super) left: u32,
    /// Top of the stack of free blocks within the page ([`InBand`](super::in_page::InBand)).
    pub(super) free_list: u32,
    /// Blocks from this one on were never used since the page was put to use.
    pub(super) fresh: u32,
    /// φ(P), "freekt": the number of free blocks.
    pub(super) free_count: u32,
    /// The size class.
    pub(super) class: u32,
    /// Which slot of the extent the page is, or `NIL` for a spare header.
    pub(super) slot: u32,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for PageHeader {}
