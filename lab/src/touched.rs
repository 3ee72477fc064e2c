//! Which OS pages a run touches: a sparse set of page numbers, cheap enough to mark at every item.
//!
//! ```text
//!  address ──/page──► page number = | chunk | 9 bits |     chunk ──HashMap──► 512-bit map
//! ```
//! The last chunk and the last marked page are cached, since bookkeeping visits the same few pages
//! repeatedly.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pagewise::meter::{Counter, Meter, Part};
use pagewise_replay::unwinding::end_on_panic;

/// Pages per chunk; a chunk's map fills one cache line.
const CHUNK: usize = 512;

/// Returns the size of the operating system's pages, in bytes.
pub(crate) fn os_page_size() -> usize {
    // SAFETY: a plain query.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// A set of OS pages.
#[derive(Debug)]
pub(crate) struct PageSet {
    /// Binary logarithm of the page size in bytes.
    shift: u32,
    chunks: Vec<[u64; CHUNK / 64]>,
    index: HashMap<usize, usize>,
    /// Number and index of the last chunk.
    last: (usize, usize),
    count: u64,
}

impl PageSet {
    /// Returns an empty set of pages of `page_size` bytes, a power of two.
    pub(crate) fn new(page_size: usize) -> Self {
        Self {
            shift: page_size.trailing_zeros(),
            chunks: Vec::new(),
            index: HashMap::new(),
            last: (usize::MAX, 0),
            count: 0,
        }
    }

    /// Marks the page of this address.
    pub(crate) fn mark(&mut self, address: usize) {
        self.mark_page(address >> self.shift);
    }

    /// Marks every page that `len` bytes at `address` cover. O(pages).
    pub(crate) fn mark_range(&mut self, address: usize, len: usize) {
        if len > 0 {
            let last = address.saturating_add(len - 1) >> self.shift;
            (address >> self.shift..=last).for_each(|page| self.mark_page(page));
        }
    }

    /// Returns the number of marked pages.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn mark_page(&mut self, page: usize) {
        let chunk = page / CHUNK;
        if self.last.0 != chunk {
            let chunks = &mut self.chunks;
            let index = *self.index.entry(chunk).or_insert_with(|| {
                chunks.push([0; CHUNK / 64]);
                chunks.len() - 1
            });
            self.last = (chunk, index);
        }
        let word = &mut self.chunks[self.last.1][page % CHUNK / 64];
        let bit = 1 << (page % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

/// A meter that counts items and marks their OS pages.
#[derive(Debug)]
pub(crate) struct PageMeter {
    pub(crate) counter: Counter,
    pages: RefCell<PageSet>,
    /// Number of the last marked page.
    last: Cell<usize>,
    shift: u32,
}

impl PageMeter {
    pub(crate) fn new(page_size: usize) -> Self {
        Self {
            counter: Counter::new(),
            pages: RefCell::new(PageSet::new(page_size)),
            last: Cell::new(usize::MAX),
            shift: page_size.trailing_zeros(),
        }
    }

    /// Marks the OS pages that a block covers.
    pub(crate) fn mark_range(&self, address: usize, len: usize) {
        self.pages.borrow_mut().mark_range(address, len);
    }

    /// Returns the number of OS pages touched, by bookkeeping and by blocks.
    pub(crate) fn pages_touched(&self) -> u64 {
        self.pages.borrow().count()
    }
}

// SAFETY: a panic of the set of pages ends the process; it uses addresses as numbers only.
unsafe impl Meter for PageMeter {
    fn item(&self, address: usize, weight: u32) {
        self.counter.item(address, weight);
        let page = address >> self.shift;
        if self.last.replace(page) != page {
            end_on_panic(|| self.pages.borrow_mut().mark(address));
        }
    }

    fn served(&self, part: Part) {
        self.counter.served(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_counts_once() {
        let mut set = PageSet::new(4096);
        set.mark(0);
        set.mark(4095);
        set.mark(4096);
        set.mark(usize::MAX);
        set.mark(0);
        assert_eq!(set.count(), 3);
    }

    #[test]
    fn a_range_covers_the_pages_of_its_first_and_last_byte() {
        let mut set = PageSet::new(4096);
        set.mark_range(4095, 2);
        assert_eq!(set.count(), 2);
        set.mark_range(8192, 0);
        assert_eq!(set.count(), 2);
        set.mark_range(4096 * 500, 4096 * 1000);
        assert_eq!(set.count(), 1002);
    }

    #[test]
    fn items_and_blocks_share_the_pages() {
        let meter = PageMeter::new(4096);
        meter.item(10, 2);
        meter.item(20, 1);
        meter.served(Part::Pages);
        meter.mark_range(0, 5000);
        assert_eq!((meter.pages_touched(), meter.counter.paged_items()), (2, 3));
    }
}
