//! The strategies of Brent's §2.12, which leaves their details open: they know which pages are
//! resident.
//!
//! ```text
//! program ──references──▶ SimulatedMemory ──▶ strict LRU, which counts faults
//!    │                         └──▶ Recent: the pages which it holds ◀──queries── ResidencyAware
//!    └──touches──▶ Pager: memory of the machine, first in, first out ◀──queries── ResidencyAware
//! ```
//! A small allocator of equal blocks, as in §2.7 to §2.13: blocks come from a current page; the
//! next one is the most recently freed into, or the one with the most free blocks, among the pages
//! of S3 with φ ≥ φ0. If it queries residency, it prefers resident pages as long as there are any.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use anyhow::Context;
use pagewise::source::Source;
use pagewise_replay::paging::{Lru, Paging};

use super::memory::Blocks;
use super::pager::Pager;

/// Knows which pages of a heap are resident.
pub(crate) trait Residency {
    /// Returns for each of the heap's first `pages` pages whether it is resident.
    ///
    /// # Errors
    /// If the residency cannot be determined.
    fn held(&self, pages: usize) -> anyhow::Result<Vec<bool>>;
}

/// The pages resident in a memory of limited size under strict LRU, most recently referenced first.
#[derive(Debug)]
pub(crate) struct Recent {
    pages: Vec<u64>,
    working_set: usize,
}

impl Recent {
    pub(crate) fn new(working_set: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { pages: Vec::with_capacity(working_set + 1), working_set }))
    }

    fn reference(&mut self, page: u64) {
        match self.pages.iter().position(|&held| held == page) {
            Some(place) => self.pages[..=place].rotate_right(1),
            None => {
                self.pages.insert(0, page);
                self.pages.truncate(self.working_set);
            }
        }
    }
}

impl Residency for RefCell<Recent> {
    /// The program numbers its pages from 1.
    fn held(&self, pages: usize) -> anyhow::Result<Vec<bool>> {
        let recent = self.borrow();
        Ok((1..=pages as u64).map(|page| recent.pages.contains(&page)).collect())
    }
}

impl Residency for Pager {
    fn held(&self, pages: usize) -> anyhow::Result<Vec<bool>> {
        self.resident(pages).context("the system does not report which pages are in memory")
    }
}

/// A simulation of paging that can be queried for resident pages.
#[derive(Debug)]
pub(crate) struct SimulatedMemory {
    pub(crate) lru: Lru,
    pub(crate) recent: Rc<RefCell<Recent>>,
}

impl Paging for SimulatedMemory {
    fn reference(&mut self, page: u64) {
        self.lru.reference(page);
        self.recent.borrow_mut().reference(page);
    }

    fn start_counting(&mut self) {
        self.lru.start_counting();
    }
}

/// Real memory, in which a pager keeps a limited number of pages: it counts the faults itself.
pub(crate) struct RealMemory {
    pub(crate) pager: Rc<Pager>,
    /// Faults and queries before counting began.
    before: [u64; 2],
}

impl RealMemory {
    pub(crate) fn new(pager: Rc<Pager>) -> Self {
        Self { pager, before: [0; 2] }
    }

    /// Returns the faults and residency queries since counting began.
    pub(crate) fn counted(&self) -> [u64; 2] {
        [self.pager.faults() - self.before[0], self.pager.queries() - self.before[1]]
    }
}

impl Paging for RealMemory {
    /// The program itself touches the page.
    fn reference(&mut self, _: u64) {}

    fn start_counting(&mut self) {
        self.before = [self.pager.faults(), self.pager.queries()];
    }
}

/// Which page of S3 becomes the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The page most recently freed into: MRU.
    MostRecent,
    /// The one with the most free blocks: MOST-FREE.
    MostFree,
}

#[derive(Debug, Default)]
struct Page {
    /// Its free blocks, most recently freed last.
    free: Vec<usize>,
    freed: u64,
}

/// The allocator.
pub(crate) struct ResidencyAware<S> {
    rule: Rule,
    tolerance: usize,
    /// What to query for residency, if anything.
    resident: Option<Rc<dyn Residency>>,
    block_size: usize,
    page_size: usize,
    memory: NonNull<u8>,
    /// Keeps the memory alive.
    _source: S,
    pages: Vec<Page>,
    current: Option<usize>,
    /// S2: wholly free pages, the latest one last.
    empty: Vec<usize>,
    clock: u64,
}

/// Number of pages that the source must provide.
pub(crate) const MOST_PAGES: usize = 1 << 14;

impl<S: Source> ResidencyAware<S> {
    /// # Errors
    /// If the source does not provide [`MOST_PAGES`].
    pub(crate) fn new(
        rule: Rule,
        tolerance: usize,
        resident: Option<Rc<dyn Residency>>,
        (block_size, page_size): (usize, usize),
        mut source: S,
    ) -> anyhow::Result<Self> {
        let memory = source.extend(MOST_PAGES * page_size, page_size)?;
        Ok(Self {
            rule,
            tolerance,
            resident,
            block_size,
            page_size,
            memory,
            _source: source,
            pages: Vec::new(),
            current: None,
            empty: Vec::new(),
            clock: 0,
        })
    }

    /// Returns the next current page: from S3, else S2, else S1.
    fn choose(&mut self) -> anyhow::Result<usize> {
        let capacity = self.page_size / self.block_size;
        let in_s3 = |page: &usize| {
            let free = self.pages[*page].free.len();
            free >= self.tolerance.max(1) && free < capacity
        };
        let held = self.resident.as_ref().map(|resident| resident.held(self.pages.len()));
        let held = held.transpose()?;
        let key = |page: &usize| {
            let Page { free, freed } = &self.pages[*page];
            let by_rule = match self.rule {
                Rule::MostRecent => 0,
                Rule::MostFree => free.len(),
            };
            let is_held = held.as_ref().is_some_and(|held| held[*page]);
            (is_held, by_rule, *freed)
        };
        if let Some(page) = (0..self.pages.len()).filter(in_s3).max_by_key(key) {
            return Ok(page);
        }
        if let Some(page) = self.empty.pop() {
            return Ok(page);
        }
        anyhow::ensure!(self.pages.len() < MOST_PAGES, "no memory");
        self.pages.push(Page { free: (0..capacity).rev().collect(), freed: 0 });
        Ok(self.pages.len() - 1)
    }
}

impl<S: Source> Blocks for ResidencyAware<S> {
    fn allocate(&mut self) -> anyhow::Result<NonNull<u8>> {
        let current = self.current.filter(|&page| !self.pages[page].free.is_empty());
        let page = match current {
            Some(page) => page,
            None => self.choose()?,
        };
        self.current = Some(page);
        let block = self.pages[page].free.pop().context("a current page has a free block")?;
        // SAFETY: page and block are within the memory.
        Ok(unsafe { self.memory.add(page * self.page_size + block * self.block_size) })
    }

    unsafe fn free(&mut self, block: NonNull<u8>) {
        let offset = block.addr().get() - self.memory.addr().get();
        let (page, within) = (offset / self.page_size, offset % self.page_size);
        self.clock += 1;
        let state = &mut self.pages[page];
        state.freed = self.clock;
        state.free.push(within / self.block_size);
        if state.free.len() == self.page_size / self.block_size && self.current != Some(page) {
            self.empty.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use pagewise::source::Reserved;

    use super::*;

    #[test]
    fn a_resident_page_is_preferred_when_residency_is_queried() {
        for queries in [false, true] {
            let recent = Recent::new(2);
            let resident = queries.then(|| Rc::clone(&recent) as Rc<dyn Residency>);
            let source = Reserved::new(MOST_PAGES * 512);
            let mut heap =
                ResidencyAware::new(Rule::MostRecent, 1, resident, (128, 512), source).unwrap();
            let blocks: Vec<_> = (0..16).map(|_| heap.allocate().unwrap()).collect();
            let page = |block: NonNull<u8>| {
                (block.addr().get() - heap.memory.addr().get()) / heap.page_size
            };
            assert_eq!(blocks.iter().map(|&block| page(block)).max(), Some(3));
            // Pages 0 and 1, numbered 1 and 2, are resident; page 2 was the last freed into.
            [1, 2].into_iter().for_each(|page| recent.borrow_mut().reference(page));
            for block in [1, 5, 9] {
                // SAFETY: each is in use, and freed once.
                unsafe { heap.free(blocks[block]) };
            }
            let again = heap.allocate().unwrap();
            assert_eq!(again, blocks[if queries { 5 } else { 9 }]);
        }
    }

    #[test]
    fn memory_holds_the_pages_referenced_last() {
        let recent = Recent::new(3);
        [1, 2, 3, 1, 4].into_iter().for_each(|page| recent.borrow_mut().reference(page));
        assert_eq!(recent.borrow().pages, [4, 1, 3]);
    }
}
