//! The free blocks within a page: which of them serves the next request is open (Brent §4: "STACK,
//! or any other reasonable strategy"), and so is where they are kept.
//!
//! | type | kept | order | is a block free? |
//! |---|---|---|---|
//! | [`InBand`] | linked through the blocks themselves, as in the paper | last in, first out | O(c) |
//! | [`Bitmap`] | a bit for each block behind the page's header, with a summary | lowest address | O(1) |
//!
//! Neither influences which pages are chosen.

use super::pages::PageHeader;
use crate::meter::Meter;

/// Blocks looked at in one go when a page is walked.
pub(super) const WINDOW: usize = 4096;

/// A page as its free-block policy sees it: its header, the words behind the header, its memory,
/// and its class's block size (bytes).
pub(super) struct Page<'a, M> {
    pub(super) header: &'a mut PageHeader,
    pub(super) words: &'a mut [u64],
    pub(super) base: *mut u8,
    pub(super) size: u32,
    pub(super) meter: &'a M,
}

/// Keeps the free blocks of a page.
#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
pub trait InPage: super::sealed::Sealed {
    /// The least block size in bytes that can be kept.
    #[doc(hidden)]
    const LEAST_BLOCK: usize;

    /// Words kept behind the header of a page of at most `capacity` blocks.
    #[doc(hidden)]
    fn words(capacity: usize) -> usize;

    /// Makes all `capacity` blocks of a page free.
    #[doc(hidden)]
    fn format<M: Meter>(page: Page<'_, M>, capacity: u32);

    /// Takes a free block; there is one. O(1).
    #[doc(hidden)]
    fn take<M: Meter>(page: Page<'_, M>) -> u32;

    /// Puts a block in use back. O(1).
    #[doc(hidden)]
    fn put<M: Meter>(page: Page<'_, M>, block: u32);

    /// Sets the bits of the free blocks among the [`WINDOW`] from `from` on.
    #[doc(hidden)]
    fn mark_free(
        header: &PageHeader,
        words: &[u64],
        base: *const u8,
        size: u32,
        from: u32,
        window: &mut [u64; WINDOW / 64],
    );
}

/// Free blocks linked through their first four bytes; blocks never used yet are bumped off the
/// page's end ([`PageHeader::fresh`]), so that a new page is not touched as a whole.
///
/// Links are block numbers plus 1; 0 ends the list.
#[derive(Debug)]
pub struct InBand;

impl super::sealed::Sealed for InBand {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl InPage for InBand {
    const LEAST_BLOCK: usize = 4;

    fn words(_: usize) -> usize {
        0
    }

    fn format<M: Meter>(page: Page<'_, M>, _: u32) {
        page.header.free_list = 0;
        page.header.fresh = 0;
    }

    fn take<M: Meter>(page: Page<'_, M>) -> u32 {
        let Some(block) = page.header.free_list.checked_sub(1) else {
            page.header.fresh += 1;
            return page.header.fresh - 1;
        };
        let link = link(page.base, page.size, block);
        page.meter.visit(link);
        // SAFETY: the block is free, so its first bytes hold the link written when it was freed.
        page.header.free_list = unsafe { link.read_unaligned() };
        block
    }

    fn put<M: Meter>(page: Page<'_, M>, block: u32) {
        let link = link(page.base, page.size, block);
        page.meter.link(link);
        // SAFETY: the block was just freed, so its bytes are ours; it has at least four of them.
        unsafe { link.write_unaligned(page.header.free_list) };
        page.header.free_list = block + 1;
    }

    fn mark_free(
        header: &PageHeader,
        _: &[u64],
        base: *const u8,
        size: u32,
        from: u32,
        window: &mut [u64; WINDOW / 64],
    ) {
        window.fill(0);
        let mut mark = |block: u32| {
            if let Some(offset) = block.checked_sub(from).filter(|&o| (o as usize) < WINDOW) {
                window[offset as usize / 64] |= 1 << (offset % 64);
            }
        };
        (header.fresh.max(from)..from + WINDOW as u32).for_each(&mut mark);
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
    }
}

/// Where a free block keeps its link.
fn link(base: *mut u8, size: u32, block: u32) -> *mut u32 {
    base.wrapping_add(block as usize * size as usize).cast()
}

/// Free blocks as set bits behind the page header, lowest address first. Nothing is ever written
/// into free memory.
///
/// ```text
/// | summary: bit w set iff word w ≠ 0 | words: bit b of word w set iff block 64w + b is free |
/// ```
#[derive(Debug)]
pub struct Bitmap;

impl Bitmap {
    /// Summary words and block words.
    fn split(words: &mut [u64]) -> (&mut [u64], &mut [u64]) {
        words.split_at_mut(words.len().div_ceil(65))
    }

    /// Takes this block, which is free. O(1).
    pub(super) fn claim(words: &mut [u64], block: u32) {
        let (summary, words) = Self::split(words);
        let word = block as usize / 64;
        debug_assert!(words[word] >> (block % 64) & 1 == 1, "the block is free");
        words[word] &= !(1 << (block % 64));
        if words[word] == 0 {
            summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// Whether this block is free. O(1).
    pub(super) fn is_free(words: &[u64], block: u32) -> bool {
        let summary = words.len().div_ceil(65);
        words[summary + block as usize / 64] >> (block % 64) & 1 == 1
    }
}

impl super::sealed::Sealed for Bitmap {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl InPage for Bitmap {
    const LEAST_BLOCK: usize = 1;

    fn words(capacity: usize) -> usize {
        let words = capacity.div_ceil(64);
        words + words.div_ceil(64)
    }

    fn format<M: Meter>(page: Page<'_, M>, capacity: u32) {
        fn set_first(words: &mut [u64], mut bits: usize) {
            for word in words {
                *word = if bits >= 64 { !0 } else { (1 << bits) - 1 };
                bits = bits.saturating_sub(64);
            }
        }
        let (summary, words) = Self::split(page.words);
        set_first(words, capacity as usize);
        set_first(summary, (capacity as usize).div_ceil(64));
    }

    fn take<M: Meter>(page: Page<'_, M>) -> u32 {
        let (summary, words) = Self::split(page.words);
        for (index, group) in summary.iter_mut().enumerate() {
            if *group != 0 {
                let word = index * 64 + group.trailing_zeros() as usize;
                let bit = words[word].trailing_zeros();
                words[word] &= words[word] - 1;
                if words[word] == 0 {
                    *group &= *group - 1;
                }
                return word as u32 * 64 + bit;
            }
        }
        unreachable!("a page whose free count is positive has a free block");
    }

    fn put<M: Meter>(page: Page<'_, M>, block: u32) {
        let (summary, words) = Self::split(page.words);
        let word = block as usize / 64;
        debug_assert!(words[word] >> (block % 64) & 1 == 0, "the block is in use");
        words[word] |= 1 << (block % 64);
        summary[word / 64] |= 1 << (word % 64);
    }

    fn mark_free(
        _: &PageHeader,
        words: &[u64],
        _: *const u8,
        _: u32,
        from: u32,
        window: &mut [u64; WINDOW / 64],
    ) {
        let words = &words[words.len().div_ceil(65) + from as usize / 64..];
        let len = words.len().min(window.len());
        window.fill(0);
        window[..len].copy_from_slice(&words[..len]);
    }
}
