//! H(P): the headers of pages, kept out of the pages (Brent §4), and the search for the page of an
//! address.
//!
//! | headers | named by | size | for |
//! |---|---|---|---|
//! | [`Numbered`](numbered::Numbered) | number in a table | 32 bytes, and [the free blocks](in_page) | the paper's strategies, as in the paper |
//! | [`Linked`](linked::Linked) | address | 56 bytes, and a bit for each block | PAGEWISE: no table, no class to look up |

mod chunks;
#[cfg(feature = "strategies")]
pub(super) mod header;
#[cfg(feature = "strategies")]
pub(super) mod in_page;
pub(super) mod linked;
mod map;
#[cfg(feature = "strategies")]
pub(super) mod numbered;
pub(super) mod page;

use core::fmt::Debug;

use crate::error::AllocError;
use crate::pages::class::Class;
use crate::source::Source;

/// Blocks looked at together when a page is walked.
pub(super) const AT_ONCE: u32 = 4096;

/// A bit for each of [`AT_ONCE`] blocks, set if it is free.
pub(super) type Free = [u64; AT_ONCE as usize / 64];

/// The headers of all pages. Headers stay in place as long as the heap's source.
pub trait Headers: Debug {
    /// A page, known by its header.
    type Page: Copy + Eq + Debug;

    /// No page.
    const EMPTY: Self;

    /// Returns the smallest size in bytes of blocks that pages of `page_size` bytes can be carved
    /// into.
    fn least_block(page_size: usize) -> usize;

    /// Prepares for pages of this size (bytes) with at most `most_blocks` blocks. No page exists
    /// yet.
    fn open(&mut self, page_size: usize, most_blocks: u32);

    /// Returns the page that contains this address, if one does. Any address may be passed. O(1).
    fn at(&self, address: usize) -> Option<Self::Page>;

    /// Makes a header for a page of `capacity` blocks. It has no page yet.
    fn make<S: Source>(&mut self, capacity: u32, source: &mut S) -> Result<Self::Page, AllocError>;

    /// Returns whether a header suits a page of `capacity` blocks.
    fn suits(&self, _page: Self::Page, _capacity: u32) -> bool {
        true
    }

    /// Gives a header to the page that starts at `base`. Frames are counted from `origin`, rounded
    /// down to p.
    fn place<S: Source>(
        &mut self,
        page: Self::Page,
        base: *mut u8,
        origin: usize,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Takes a page out of its frame.
    fn remove(&mut self, page: Self::Page);

    /// Takes back a header that has no page.
    fn recycle(&mut self, page: Self::Page);

    /// Puts a page to use for a class: all its blocks are free.
    fn assign(&mut self, page: Self::Page, number: u32, class: &Class);

    /// Returns where a page starts.
    fn base(&self, page: Self::Page) -> *mut u8;

    /// Returns the number of the page's class.
    fn class(&self, page: Self::Page) -> u32;

    /// Returns φ, the free blocks that the header counts.
    fn free_count(&self, page: Self::Page) -> u32;

    /// Returns which of the [`AT_ONCE`] blocks of `size` bytes from `from` on, a multiple of
    /// `AT_ONCE`, are free according to the header. Numbers beyond the last block may count as
    /// free.
    fn free_blocks(&self, page: Self::Page, size: u32, from: u32) -> Free;

    /// Returns whether a block of `size` bytes is free according to the header: O(1) if it has a
    /// bit for each block.
    fn is_free(&self, page: Self::Page, size: u32, block: u32) -> bool;

    /// Checks the invariants of the header alone, for a page of `capacity` blocks.
    fn audit(&self, _page: Self::Page, _capacity: u32) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns the next page on its list or stack.
    fn next(&self, page: Self::Page) -> Option<Self::Page>;

    /// Links a page to another.
    fn set_next(&mut self, page: Self::Page, next: Option<Self::Page>);

    /// Returns the address of a header, for a meter.
    fn address(&self, page: Self::Page) -> *const u8;

    /// Calls `visit` for every page.
    fn for_each(&self, visit: &mut dyn FnMut(Self::Page));
}
