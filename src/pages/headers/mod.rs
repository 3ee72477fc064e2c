//! H(P): the headers of pages, out of the pages (Brent §4), and which page an address lies in.
//!
//! | headers | named by | size | for |
//! |---|---|---|---|
//! | [`Numbered`](numbered::Numbered) | number in a table | 32 bytes, and [what keeps the free blocks](in_page) | the paper's strategies, as in the paper |
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

/// Blocks looked at in one go when a page is walked.
pub(super) const WINDOW: u32 = 4096;

/// A bit for each of [`WINDOW`] blocks, set if it is free.
pub(super) type Free = [u64; WINDOW as usize / 64];

/// The headers of all pages. Headers stay where they are as long as the heap's source.
pub trait Headers: Debug {
    /// A page, known by its header.
    type Page: Copy + Eq + Debug;

    /// No page.
    const EMPTY: Self;

    /// The least blocks that pages of this size (bytes) can be carved into, bytes.
    fn least_block(page_size: usize) -> usize;

    /// Prepares for pages of this size (bytes) with at most `most_blocks` blocks. No page exists yet.
    fn open(&mut self, page_size: usize, most_blocks: u32);

    /// The page in which this address lies, if it lies in one. Any address may be asked for. O(1).
    fn at(&self, address: usize) -> Option<Self::Page>;

    /// Makes a header for a page of `capacity` blocks. It has no page yet.
    fn make<S: Source>(&mut self, capacity: u32, source: &mut S) -> Result<Self::Page, AllocError>;

    /// Whether a header will do for a page of `capacity` blocks.
    fn suits(&self, _page: Self::Page, _capacity: u32) -> bool {
        true
    }

    /// Gives a header to the page that starts at `base`. Slots are counted from
    /// `origin`, rounded down to p.
    fn place<S: Source>(
        &mut self,
        page: Self::Page,
        base: *mut u8,
        origin: usize,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Takes a page out of its slot.
    fn remove(&mut self, page: Self::Page);

    /// Takes back a header that has no page.
    fn recycle(&mut self, page: Self::Page);

    /// Puts a page to use for a class: all its blocks are free.
    fn assign(&mut self, page: Self::Page, number: u32, class: &Class);

    /// Where a page starts.
    fn base(&self, page: Self::Page) -> *mut u8;

    /// The number of its class.
    fn class(&self, page: Self::Page) -> u32;

    /// φ: the free blocks that its header knows of.
    fn free_count(&self, page: Self::Page) -> u32;

    /// Which of the [`WINDOW`] blocks of `size` bytes from `from` on, a multiple of that, are free as
    /// far as the header knows. Numbers beyond the last block may be said to be free.
    fn free_blocks(&self, page: Self::Page, size: u32, from: u32) -> Free;

    /// Whether a block of `size` bytes is free as far as the header knows: O(1) where a bit says so.
    fn is_free(&self, page: Self::Page, size: u32, block: u32) -> bool;

    /// Checks what the header alone tells of a page of `capacity` blocks.
    fn audit(&self, _page: Self::Page, _capacity: u32) -> Result<(), &'static str> {
        Ok(())
    }

    /// The next page on its list or stack.
    fn next(&self, page: Self::Page) -> Option<Self::Page>;

    /// Links a page to another.
    fn set_next(&mut self, page: Self::Page, next: Option<Self::Page>);

    /// Address of a header, for a meter.
    fn address(&self, page: Self::Page) -> *const u8;

    /// Calls `visit` for every page.
    fn for_each(&self, visit: &mut dyn FnMut(Self::Page));
}
