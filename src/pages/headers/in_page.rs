//! The free blocks within a page. The paper leaves open which of them serves the next request
//! (Brent §4: "STACK, or any other reasonable strategy"), and where they are kept.
//!
//! | type | kept | order | is a block free? |
//! |---|---|---|---|
//! | [`InBand`] | linked through the blocks themselves, as in the paper | last in, first out | O(c) |
//! | [`Bitmap`] | a bit for each block behind the page's header, with a summary | lowest address | O(1) |
//!
//! Neither influences which pages are chosen.

use super::header::PageHeader;
use super::{AT_ONCE, Free};
use crate::meter::Meter;

/// What a free-block policy sees of a page.
pub struct PageView<'a> {
    /// The page's header.
    pub(crate) header: &'a mut PageHeader,
    /// The words behind the header.
    pub(crate) words: &'a mut [u64],
    /// Where the page starts.
    pub(crate) base: *mut u8,
    /// Block size, bytes.
    pub(crate) size: u32,
}

/// Keeps the free blocks of a page.
pub trait InPage: core::fmt::Debug {
    /// The smallest block size in bytes that can be kept.
    const LEAST_BLOCK: usize;

    /// Returns the words kept behind the header of a page of at most `capacity` blocks.
    fn words(capacity: usize) -> usize;

    /// Makes all `capacity` blocks of a page free. The header's `fresh` is 0.
    fn format(header: &mut PageHeader, words: &mut [u64], capacity: u32);

    /// Takes a free block; there is one. O(1).
    fn take<M: Meter>(page: PageView<'_>, meter: &M) -> u32;

    /// Puts a block in use back. O(1).
    fn put<M: Meter>(page: PageView<'_>, block: u32, meter: &M);

    /// Returns the free blocks among the [`AT_ONCE`] from `from` on. Numbers beyond the last block
    /// may count as free.
    fn free_blocks(
        header: &PageHeader,
        words: &[u64],
        base: *const u8,
        size: u32,
        from: u32,
    ) -> Free;

    /// Returns whether a block is free: O(1) where a bit says so, else O(c).
    fn is_free(header: &PageHeader, words: &[u64], base: *const u8, size: u32, block: u32) -> bool {
        let free = Self::free_blocks(header, words, base, size, block / AT_ONCE * AT_ONCE);
        crate::words::bits::get(&free, (block % AT_ONCE) as usize)
    }
}

/// Free blocks linked through their first four bytes. Blocks that were never used are bumped off
/// the page's end, so that a new page is not touched as a whole.
///
/// Links are block numbers plus 1; 0 ends the list.
#[derive(Debug)]
pub struct InBand;

impl InPage for InBand {
    const LEAST_BLOCK: usize = 4;

    fn words(_: usize) -> usize {
        0
    }

    fn format(header: &mut PageHeader, _: &mut [u64], _: u32) {
        header.free_list = 0;
    }

    fn take<M: Meter>(page: PageView<'_>, meter: &M) -> u32 {
        let Some(block) = page.header.free_list.checked_sub(1) else {
            page.header.fresh += 1;
            return page.header.fresh - 1;
        };
        let link = link(page.base, page.size, block);
        meter.visit(link);
        // SAFETY: the block is free, so its first bytes hold the link written when it was freed.
        page.header.free_list = unsafe { link.read_unaligned() };
        block
    }

    fn put<M: Meter>(page: PageView<'_>, block: u32, meter: &M) {
        let link = link(page.base, page.size, block);
        meter.link(link);
        // SAFETY: the block was just freed, so its bytes are ours; it has at least four of them.
        unsafe { link.write_unaligned(page.header.free_list) };
        page.header.free_list = block + 1;
    }

    fn free_blocks(header: &PageHeader, _: &[u64], base: *const u8, size: u32, from: u32) -> Free {
        let mut free = [0; AT_ONCE as usize / 64];
        let mut mark = |block: u32| {
            if let Some(offset) = block.checked_sub(from).filter(|&offset| offset < AT_ONCE) {
                crate::words::bits::set(&mut free, offset as usize);
            }
        };
        (header.fresh.max(from)..from + AT_ONCE).for_each(&mut mark);
        let mut next = header.free_list;
        // A list as long as the page's free count ends, even if its links were overwritten.
        for _ in 0..header.free_count {
            let Some(block) = next.checked_sub(1).filter(|&block| block < header.fresh) else {
                break;
            };
            mark(block);
            // SAFETY: the block lies in the page (below `fresh`) and has at least four bytes.
            next = unsafe { link(base.cast_mut(), size, block).read_unaligned() };
        }
        free
    }
}

/// Returns where a free block keeps its link.
fn link(base: *mut u8, size: u32, block: u32) -> *mut u32 {
    base.wrapping_add(block as usize * size as usize).cast()
}

/// Free blocks as set bits behind the page header, lowest address first. Nothing is ever written
/// into free memory.
///
/// ```text
/// | summary                                  | words                                         |
/// | bit g set iff a word of group g is not 0 | bit b of word w set iff block 64w + b is free |
/// ```
/// A group is one word in pages of up to 4096 blocks, and at most 256 words in any page: a page of
/// 1 MiB may have blocks of 1 byte.
#[derive(Debug)]
pub struct Bitmap;

/// The words behind a page's header, which make up its bitmap.
struct BitmapWords<'a> {
    /// Bit g is set iff a word of group g is not 0.
    summary: &'a mut u64,
    /// Bit b of word w is set iff block 64w + b is free.
    words: &'a mut [u64],
    /// log₂ of the words in a group.
    group_shift: u32,
}

impl<'a> BitmapWords<'a> {
    /// Divides the words behind a page's header.
    #[inline(always)]
    fn of(words: &'a mut [u64]) -> Self {
        let (summary, words) = words.split_first_mut().expect("a summary comes first");
        let group_shift = usize::BITS - ((words.len() - 1) / 64).leading_zeros();
        Self { summary, words, group_shift }
    }

    /// Records that a word has become 0.
    #[inline(always)]
    fn emptied(&mut self, word: usize) {
        let group = word >> self.group_shift;
        if self.group_shift > 0 {
            let first = group << self.group_shift;
            let end = self.words.len().min(first + (1 << self.group_shift));
            if self.words[first..end].iter().any(|&word| word != 0) {
                return;
            }
        }
        *self.summary &= !(1 << group);
    }
}

impl Bitmap {
    /// Takes this block, which is free. O(1).
    #[inline(always)]
    pub(crate) fn claim(words: &mut [u64], block: u32) {
        let mut map = BitmapWords::of(words);
        let word = block as usize / 64;
        debug_assert!(map.words[word] >> (block % 64) & 1 == 1, "the block is free");
        map.words[word] &= !(1 << (block % 64));
        if map.words[word] == 0 {
            map.emptied(word);
        }
    }
}

impl InPage for Bitmap {
    const LEAST_BLOCK: usize = 1;

    fn words(capacity: usize) -> usize {
        1 + capacity.div_ceil(64)
    }

    fn format(_: &mut PageHeader, words: &mut [u64], capacity: u32) {
        let map = BitmapWords::of(words);
        let mut rest = capacity as usize;
        *map.summary = 0;
        for (index, word) in map.words.iter_mut().enumerate() {
            if rest == 0 {
                break;
            }
            *word = if rest >= 64 { !0 } else { (1 << rest) - 1 };
            *map.summary |= 1 << (index >> map.group_shift);
            rest = rest.saturating_sub(64);
        }
    }

    #[inline(always)]
    fn take<M: Meter>(page: PageView<'_>, _: &M) -> u32 {
        let mut map = BitmapWords::of(page.words);
        let mut word = (map.summary.trailing_zeros() as usize) << map.group_shift;
        while map.words[word] == 0 {
            word += 1;
        }
        let bit = map.words[word].trailing_zeros();
        map.words[word] &= map.words[word] - 1;
        if map.words[word] == 0 {
            map.emptied(word);
        }
        word as u32 * 64 + bit
    }

    #[inline(always)]
    fn put<M: Meter>(page: PageView<'_>, block: u32, _: &M) {
        let map = BitmapWords::of(page.words);
        let word = block as usize / 64;
        debug_assert!(map.words[word] >> (block % 64) & 1 == 0, "the block is in use");
        map.words[word] |= 1 << (block % 64);
        *map.summary |= 1 << (word >> map.group_shift);
    }

    fn is_free(_: &PageHeader, words: &[u64], _: *const u8, _: u32, block: u32) -> bool {
        words[1 + block as usize / 64] >> (block % 64) & 1 == 1
    }

    fn free_blocks(_: &PageHeader, words: &[u64], _: *const u8, _: u32, from: u32) -> Free {
        let mut free = [0; AT_ONCE as usize / 64];
        let words = &words[1 + from as usize / 64..];
        let len = words.len().min(free.len());
        free[..len].copy_from_slice(&words[..len]);
        free
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const HEADER: PageHeader = PageHeader {
        next: 0,
        prev: 0,
        left: 0,
        free_list: 0,
        fresh: 0,
        free_count: 0,
        class: 0,
        frame: 0,
    };

    fn page<'a>(header: &'a mut PageHeader, words: &'a mut [u64]) -> PageView<'a> {
        PageView { header, words, base: core::ptr::null_mut(), size: 1 }
    }

    /// Takes, puts back and claims blocks at random, initially all of them, and compares with a set
    /// of the free ones.
    fn agrees_with_a_set(capacity: u32, random: &mut StdRng) {
        let mut header = HEADER;
        let mut words = vec![0; Bitmap::words(capacity as usize)];
        Bitmap::format(&mut header, &mut words, capacity);
        let mut free: BTreeSet<u32> = (0..capacity).collect();
        while let Some(lowest) = free.pop_first() {
            assert_eq!(Bitmap::take(page(&mut header, &mut words), &()), lowest, "of {capacity}");
        }
        for step in 0..if cfg!(miri) { 100 } else { 2_000 } {
            let block = random.random_range(0..capacity);
            match random.random_range(0..4) {
                0 => {
                    if let Some(lowest) = free.pop_first() {
                        assert_eq!(Bitmap::take(page(&mut header, &mut words), &()), lowest);
                    }
                }
                1 if free.remove(&block) => Bitmap::claim(&mut words, block),
                _ if free.insert(block) => {
                    Bitmap::put(page(&mut header, &mut words), block, &());
                }
                _ => {}
            }
            let said = Bitmap::is_free(&header, &words, core::ptr::null(), 1, block);
            assert_eq!(said, free.contains(&block), "block {block} of {capacity}");
            if step % 64 == 0 {
                let map = BitmapWords::of(&mut words);
                let groups = free.iter().fold(0, |groups, block| {
                    groups | 1 << ((*block as usize / 64) >> map.group_shift)
                });
                assert_eq!(*map.summary, groups, "the summary has the groups, of {capacity}");
                for from in (0..capacity).step_by(AT_ONCE as usize) {
                    let bits = Bitmap::free_blocks(&header, &words, core::ptr::null(), 1, from);
                    for block in from..capacity.min(from + AT_ONCE) {
                        let said = crate::words::bits::get(&bits, (block - from) as usize);
                        assert_eq!(said, free.contains(&block), "block {block} of {capacity}");
                    }
                }
            }
        }
    }

    /// In pages of one word, of one group, and of groups of more than a word.
    #[test]
    fn the_lowest_free_block_of_a_bitmap_is_taken() {
        let mut random = StdRng::seed_from_u64(1);
        for capacity in [1, 63, 64, 65, 200, 4096] {
            agrees_with_a_set(capacity, &mut random);
        }
        if !cfg!(miri) {
            for capacity in [4097, 8192, 8193, 20_000, 1 << 18] {
                agrees_with_a_set(capacity, &mut random);
            }
        }
    }
    /// The free blocks are those that were freed and those never used, in pages with more blocks
    /// than are looked at in one go; links that were overwritten lead nowhere.
    #[test]
    fn a_list_within_a_page_has_the_free_blocks() {
        const CAPACITY: u32 = 2 * AT_ONCE + 100;
        const STEP: u32 = if cfg!(miri) { 4096 } else { 64 };
        let mut memory = vec![0u32; CAPACITY as usize];
        let base: *mut u8 = memory.as_mut_ptr().cast();
        let mut header = PageHeader { free_count: CAPACITY, ..HEADER };
        InBand::format(&mut header, &mut [], CAPACITY);
        let used = AT_ONCE + 50;
        for block in 0..used {
            let page = PageView { header: &mut header, words: &mut [], base, size: 4 };
            assert_eq!(InBand::take(page, &()), block);
            header.free_count -= 1;
        }
        let mut is_free: Vec<bool> = (0..CAPACITY).map(|block| block >= used).collect();
        for block in [0, 7, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, used - 1] {
            let page = PageView { header: &mut header, words: &mut [], base, size: 4 };
            InBand::put(page, block, &());
            header.free_count += 1;
            is_free[block as usize] = true;
            for from in (0..CAPACITY).step_by(AT_ONCE as usize) {
                let bits = InBand::free_blocks(&header, &[], base, 4, from);
                for block in from..CAPACITY.min(from + AT_ONCE) {
                    let said = crate::words::bits::get(&bits, (block - from) as usize);
                    assert_eq!(said, is_free[block as usize], "block {block}");
                    if block % STEP == 1 {
                        assert_eq!(InBand::is_free(&header, &[], base, 4, block), said, "{block}");
                    }
                }
            }
        }
        let page = PageView { header: &mut header, words: &mut [], base, size: 4 };
        assert_eq!(InBand::take(page, &()), used - 1, "the last freed is the first taken");
        header.free_count -= 1;
        // Block AT_ONCE + 1 is the first of the list now: it leads to no block, to one never used,
        // and to itself.
        for link in [u32::MAX, used + 1, CAPACITY, AT_ONCE + 2] {
            // SAFETY: the block is free, its bytes are the list's.
            unsafe { base.cast::<u32>().add(AT_ONCE as usize + 1).write(link) };
            let bits = InBand::free_blocks(&header, &[], base, 4, 0);
            assert!(bits.iter().all(|&word| word == 0), "no way on leads to the others");
        }
    }
}
