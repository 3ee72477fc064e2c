//! The slots of the live blocks, by address: [`Blocks`].

use crate::hash::Numbers;

/// Blocks by page, and pages by region: adjacent addresses are used at about the same time, so
/// lookups rarely miss the cache of regions, and neighbouring entries are in the CPU's cache. A
/// page takes as much memory as is counted for one block, a region as four.
///
/// ```text
///  address   region │ page │ entry │ 0000        others than multiples of 16: in a table of their own
///  cache     by the region's low bits
/// ```
pub(super) struct Blocks {
    cache: [Cached; CACHED],
    /// The index of each region.
    known: Numbers<u64, u32>,
    /// The indices of a region's pages.
    regions: Vec<[u32; PAGES]>,
    /// Unused regions, which stand for no addresses.
    spare_regions: Vec<u32>,
    pages: Vec<[u32; ENTRIES]>,
    /// Empty pages, which belong to no region.
    spare: Vec<u32>,
    /// Number of pages in use at which empty pages are collected.
    most: usize,
    odd: Numbers<u64, u32>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Cached {
    region: u64,
    index: u32,
}

const CACHED: usize = 256;
/// log2 of the distance between addresses with an entry.
const UNIT: u32 = 4;
const ENTRIES: usize = 32;
/// log2 of the bytes that a page covers.
const PAGE: u32 = UNIT + ENTRIES.ilog2();
/// Pages per region.
const PAGES: usize = 128;
/// Stands for no block or no page. There are always fewer.
const NONE: u32 = u32::MAX;
/// No region has this number.
const NOTHING: Cached = Cached { region: u64::MAX, index: 0 };

impl Default for Blocks {
    fn default() -> Self {
        Self {
            cache: [NOTHING; CACHED],
            known: Numbers::default(),
            regions: Vec::new(),
            spare_regions: Vec::new(),
            pages: Vec::new(),
            spare: Vec::new(),
            most: CACHED,
            odd: Numbers::default(),
            len: 0,
        }
    }
}

impl core::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Blocks").field("len", &self.len).finish_non_exhaustive()
    }
}

fn is_odd(address: u64) -> bool {
    !address.is_multiple_of(1 << UNIT)
}

impl Blocks {
    /// Returns the number of blocks, plus the pages and regions that take extra memory.
    pub(super) fn remembered(&self) -> usize {
        self.len + self.pages_in_use() + PAGES / ENTRIES * self.known.len()
    }

    fn pages_in_use(&self) -> usize {
        self.pages.len() - self.spare.len()
    }

    /// Adds the block at an address.
    #[inline]
    pub(super) fn insert(&mut self, address: u64, slot: u32) {
        let before = if is_odd(address) {
            self.odd.insert(address, slot).unwrap_or(NONE)
        } else {
            let index = match self.find(address >> PAGE) {
                Some(index) => index,
                None => self.add(address >> PAGE),
            };
            core::mem::replace(&mut self.pages[index][Self::entry(address)], slot)
        };
        self.len += usize::from(before == NONE);
    }

    /// Removes the block at an address, if there is one.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<u32> {
        let slot = if is_odd(address) {
            self.odd.remove(&address)?
        } else {
            let index = self.find(address >> PAGE)?;
            core::mem::replace(&mut self.pages[index][Self::entry(address)], NONE)
        };
        if slot == NONE {
            return None;
        }
        self.len -= 1;
        Some(slot)
    }

    fn entry(address: u64) -> usize {
        (address >> UNIT) as usize % ENTRIES
    }

    /// Returns the index of a page, if it exists.
    #[inline]
    fn find(&mut self, page: u64) -> Option<usize> {
        let region = self.find_region(page / PAGES as u64)?;
        let index = self.regions[region][page as usize % PAGES];
        (index != NONE).then_some(index as usize)
    }

    /// Returns the index of a region, if it exists.
    #[inline]
    fn find_region(&mut self, region: u64) -> Option<usize> {
        let cached = self.cache[region as usize % CACHED];
        if cached.region == region { Some(cached.index as usize) } else { self.look_up(region) }
    }

    #[cold]
    fn look_up(&mut self, region: u64) -> Option<usize> {
        let index = *self.known.get(&region)?;
        self.cache[region as usize % CACHED] = Cached { region, index };
        Some(index as usize)
    }

    /// Adds a missing page.
    #[cold]
    fn add(&mut self, page: u64) -> usize {
        if self.pages_in_use() >= self.most {
            self.sweep();
        }
        let number = page / PAGES as u64;
        let region = self.find_region(number).unwrap_or_else(|| self.add_region(number));
        let index = self.spare.pop().unwrap_or_else(|| {
            self.pages.push([NONE; ENTRIES]);
            (self.pages.len() - 1) as u32
        });
        self.regions[region][page as usize % PAGES] = index;
        index as usize
    }

    fn add_region(&mut self, region: u64) -> usize {
        let index = self.spare_regions.pop().unwrap_or_else(|| {
            self.regions.push([NONE; PAGES]);
            (self.regions.len() - 1) as u32
        });
        self.known.insert(region, index);
        self.cache[region as usize % CACHED] = Cached { region, index };
        index as usize
    }

    /// Collects empty pages, and regions without others. Then as many pages as remain can be added
    /// before the next collection.
    fn sweep(&mut self) {
        self.cache = [NOTHING; CACHED];
        let Self { known, regions, spare_regions, pages, spare, .. } = self;
        known.retain(|_, index| {
            let region = &mut regions[*index as usize];
            for page in region.iter_mut().filter(|page| **page != NONE) {
                if pages[*page as usize].iter().all(|&slot| slot == NONE) {
                    spare.push(core::mem::replace(page, NONE));
                }
            }
            let is_empty = region.iter().all(|&page| page == NONE);
            if is_empty {
                spare_regions.push(*index);
            }
            !is_empty
        });
        self.most = CACHED.max(2 * self.pages_in_use());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Compares with a plain map, at near and distant addresses of any alignment.
    #[test]
    fn blocks_are_found_where_they_were_put() {
        let (mut blocks, mut plain) = (Blocks::default(), HashMap::new());
        let mut random = 1_u64;
        for step in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bits = random >> 33;
            let spread = [4, 3, 12, 20, 40][step / 10_000 % 5];
            let address = (bits % 5000) << spread;
            let slot = (bits % 1000) as u32;
            assert_eq!(blocks.remove(address), plain.remove(&address), "{address:x}");
            if !bits.is_multiple_of(3) {
                for slot in [slot + 1, slot].into_iter().skip((bits % 2) as usize) {
                    blocks.insert(address, slot);
                    plain.insert(address, slot);
                }
            }
            assert_eq!(blocks.len, plain.len());
        }
        for (&address, &slot) in &plain {
            assert_eq!(blocks.remove(address), Some(slot));
        }
        assert_eq!(blocks.len, 0);
        assert_eq!(blocks.remove(u64::MAX), None);
        assert_eq!(blocks.remove(u64::MAX << UNIT), None);
    }

    #[test]
    fn pages_and_regions_count_as_memory() {
        let mut blocks = Blocks::default();
        let mut after = |address| {
            blocks.insert(address, 7);
            blocks.remembered()
        };
        // The first block has a page and a region, the second neither; then another page, another
        // region, and an address that is in no page.
        let addresses = [0, 16, 1 << PAGE, (PAGES as u64) << PAGE, 17];
        assert_eq!(addresses.map(&mut after), [1 + 1 + 4, 7, 7 + 2, 9 + 6, 16]);
    }

    /// One block at a time, anywhere, takes no more memory than the first ones.
    #[test]
    fn empty_pages_are_used_again() {
        for apart in [1, 7, PAGES as u64, 10_000] {
            let mut blocks = Blocks::default();
            for page in 0..100_000 {
                blocks.insert((page * apart) << PAGE, 7);
                assert_eq!(blocks.remove((page * apart) << PAGE), Some(7));
            }
            assert!(blocks.pages.len() <= CACHED && blocks.regions.len() <= CACHED);
            assert!(blocks.remembered() <= 5 * CACHED);
        }
    }
}
