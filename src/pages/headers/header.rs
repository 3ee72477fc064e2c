//! H(P): the header of a page, out of the page (Brent §4).

use crate::words::Plain;

/// H(P). Headers are named by their number in the table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PageHeader {
    /// The page behind this one on its list or stack; `NIL` if it is the last.
    pub(crate) next: u32,
    /// The page before this one on its list; `NIL` if it is the first.
    pub(crate) prev: u32,
    /// "leftmost": the left header of that list, or the page's place in a pool.
    pub(crate) left: u32,
    /// Top of the stack of free blocks within the page ([`InBand`](super::in_page::InBand)).
    pub(crate) free_list: u32,
    /// Blocks from this one on have never been used since the page was put to use.
    pub(crate) fresh: u32,
    /// φ(P), "freekt": the number of free blocks.
    pub(crate) free_count: u32,
    /// The size class.
    pub(crate) class: u32,
    /// Which frame of the extent the page is, or `NIL` for a spare header.
    pub(crate) frame: u32,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for PageHeader {}
