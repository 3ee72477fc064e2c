//! The memory of headers with their bits.
//!
//! ```text
//! dedicated memory:  | H(P) | word 0 | word 1 | … | H(P′) | word 0 | …
//! ```
//! A header has as many words as its page's class needs, rounded up to a power of two above 16. A
//! spare header serves the next page that needs the same number, or fewer if there is no memory.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::page::{Header, KINDS, Page, kind_for, words_of};
use crate::error::AllocError;
use crate::source::Source;

/// Bytes of dedicated memory taken at a time.
const CHUNK: usize = 2048;

/// Where headers come from. Invariant: the `left` bytes from `chunk` on are zero, unused, and
/// aligned for a header; the spare headers are linked through `next`.
#[derive(Debug)]
pub(super) struct Chunks {
    /// For each kind, the header on top of the stack of spare ones.
    spare: [Option<Page>; KINDS],
    /// Where the memory for new headers starts; they are cut off its end.
    chunk: *mut u8,
    /// Bytes of that memory.
    left: usize,
}

impl Chunks {
    /// Makes a supply without memory.
    pub(super) const fn new() -> Self {
        Self { spare: [None; KINDS], chunk: core::ptr::null_mut(), left: 0 }
    }

    /// Makes a header with words for this many blocks.
    pub(super) fn make<S: Source>(
        &mut self,
        capacity: u32,
        source: &mut S,
    ) -> Result<Page, AllocError> {
        let kind = kind_for(capacity);
        let spare = &mut self.spare[kind];
        if let Some(page) = *spare {
            *spare = page.next.take();
            return Ok(page);
        }
        let bytes = size_of::<Header>() + size_of::<u64>() * words_of(kind) as usize;
        if bytes > self.left {
            let align = align_of::<Header>();
            // A whole chunk if possible, else only the bytes needed now.
            let take = |bytes, source: &mut S| {
                let layout = Layout::from_size_align(bytes, align);
                source.dedicate(layout.map_err(|_| AllocError::Exhausted)?).map(|at| (at, bytes))
            };
            let taken = take(bytes.max(CHUNK), source).or_else(|_| take(bytes, source));
            let (chunk, left) = match taken {
                Ok(taken) => taken,
                Err(error) => return self.longer_spare(kind).ok_or(error),
            };
            // Chunks often adjoin: the next chunk is below the one before.
            let adjoins = chunk.as_ptr().wrapping_add(left) == self.chunk;
            self.left = if adjoins { left + self.left } else { left };
            self.chunk = chunk.as_ptr();
        }
        self.left -= bytes;
        // SAFETY: by the invariant these bytes are ours, zero and aligned; dedicated memory is not
        // at address 0, and stays as long as the heap.
        Ok(unsafe {
            Page::new(NonNull::new_unchecked(self.chunk.wrapping_add(self.left).cast()), kind)
        })
    }

    /// Takes a spare header with more words than one of this kind. All its words are zeros.
    #[cold]
    fn longer_spare(&mut self, kind: usize) -> Option<Page> {
        let spare = self.spare[kind + 1..].iter_mut().find(|spare| spare.is_some())?;
        let page = (*spare)?;
        *spare = page.next.take();
        (0..words_of(page.kind())).for_each(|index| page.word(index).set(0));
        Some(page)
    }

    /// Takes back a header that no page has.
    pub(super) fn recycle(&mut self, page: Page) {
        let top = &mut self.spare[page.kind()];
        page.next.set(top.replace(page));
    }

    /// Takes over `bytes` bytes of unused memory, to make headers of. Bytes before and behind whole
    /// units of a header's alignment are left unused.
    ///
    /// # Safety
    /// The memory stays valid as long as the heap, and nobody else uses it any more.
    pub(super) unsafe fn donate(&mut self, memory: *mut u8, bytes: usize) {
        const ALIGN: usize = align_of::<Header>();
        let skipped = memory.align_offset(ALIGN);
        let bytes = bytes.saturating_sub(skipped) & !(ALIGN - 1);
        if bytes > self.left {
            let chunk = memory.wrapping_add(skipped);
            // SAFETY: the caller guarantees that the memory is valid and unused; these bytes are
            // within it.
            unsafe { chunk.write_bytes(0, bytes) };
            (self.chunk, self.left) = (chunk, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::source::Region;

    /// Blocks of a header with one word.
    const SHORT: u32 = 64;

    fn len(capacity: u32) -> usize {
        size_of::<Header>() + size_of::<u64>() * words_of(kind_for(capacity)) as usize
    }

    fn region(memory: &mut [MaybeUninit<u64>]) -> Region {
        // SAFETY: only the region uses the memory, which outlives it.
        unsafe { Region::new(memory.as_mut_ptr().cast(), size_of_val(memory)) }
    }

    /// A chunk holds as many headers as fit; a header may span two adjoining chunks.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn headers_lie_close_together() {
        /// Blocks of a header with three words.
        const LONG: u32 = 192;
        let mut memory = vec![MaybeUninit::uninit(); 4096];
        let mut source = region(&mut memory);
        let mut chunks = Chunks::new();
        let mut all: Vec<core::ops::Range<usize>> = Vec::new();
        let mut make = |chunks: &mut Chunks, source: &mut Region, capacity| {
            let page = chunks.make(capacity, source).expect("there is memory");
            let start = page.header().addr();
            all.push(start..start + len(capacity));
            page
        };
        let in_chunk = CHUNK / len(SHORT);
        assert_eq!(in_chunk * len(SHORT), CHUNK);
        let page = make(&mut chunks, &mut source, SHORT);
        (1..in_chunk).for_each(|_| _ = make(&mut chunks, &mut source, SHORT));
        assert_eq!(source.dedicated().len(), CHUNK, "to the last byte");
        let in_two = 2 * CHUNK / len(LONG);
        assert!(in_two > 2 * (CHUNK / len(LONG)));
        (0..in_two).for_each(|_| _ = make(&mut chunks, &mut source, LONG));
        assert_eq!(source.dedicated().len(), 3 * CHUNK, "nothing is left over between them");
        all.sort_by_key(|bytes| bytes.start);
        assert!(all.is_sorted_by(|below, above| below.end <= above.start), "they are disjoint");
        let dedicated = source.dedicated();
        assert!(dedicated.start <= all[0].start && all[all.len() - 1].end <= dedicated.end);
        // A header that was taken back serves again, but only where it has the right length.
        chunks.recycle(page);
        let longer = chunks.make(LONG, &mut source).expect("there is memory");
        assert!(longer != page);
        assert_eq!(chunks.make(SHORT, &mut source).ok(), Some(page));
        assert!(chunks.make(SHORT, &mut source).is_ok_and(|other| other != page));
    }

    /// If there is no room for a chunk, a header can still be made.
    #[test]
    fn little_memory_is_enough_for_a_header() {
        let mut memory = vec![MaybeUninit::uninit(); 3 * len(SHORT) / 8];
        let mut source = region(&mut memory);
        let mut chunks = Chunks::new();
        let made = (0..5).map_while(|_| chunks.make(SHORT, &mut source).ok()).count();
        assert_eq!(made, 3);
    }

    /// If there is no memory, a page gets a longer spare header than it needs. (Regression: blocks
    /// of 8 bytes that were all freed left no memory for the headers of other pages.)
    #[test]
    fn a_longer_header_serves_if_there_is_no_memory() {
        const LONG: u32 = 192;
        let mut memory = vec![MaybeUninit::uninit(); len(LONG) / 8];
        let mut source = region(&mut memory);
        let mut chunks = Chunks::new();
        let long = chunks.make(LONG, &mut source).expect("there is memory for one");
        assert!(chunks.make(SHORT, &mut source).is_err());
        (0..3).for_each(|index| long.word(index).set(!0));
        for capacity in [SHORT, LONG, SHORT] {
            chunks.recycle(long);
            assert_eq!(chunks.make(capacity, &mut source).ok(), Some(long));
            assert!(chunks.make(capacity, &mut source).is_err(), "there is only one");
        }
        assert!((0..3).all(|index| long.word(index).get() == 0), "words in excess are zeros");
    }

    /// Donated memory replaces the current chunk if it is larger than the chunk's rest.
    #[test]
    fn donated_memory_becomes_headers() {
        let mut memory = vec![MaybeUninit::uninit(); 1024];
        let mut source = region(&mut memory);
        let mut chunks = Chunks::new();
        let mut donated = [u64::MAX; 512];
        let most = size_of_val(&donated);
        let at: *mut u8 = donated.as_mut_ptr().cast();
        let lies_there = |page: Page| (at.addr()..at.addr() + most).contains(&page.header().addr());
        let first = chunks.make(SHORT, &mut source).expect("there is memory");
        // SAFETY: the test uses the memory no more, except for what the chunks make of it.
        unsafe { chunks.donate(at, CHUNK / 2) };
        let second = chunks.make(SHORT, &mut source).expect("there is memory");
        assert!(!lies_there(first) && !lies_there(second), "more is left of the chunk");
        // SAFETY: as above; the chunks did not take it.
        unsafe { chunks.donate(at, most) };
        let third = chunks.make(SHORT, &mut source).expect("there is memory");
        assert!(lies_there(third));
        assert_eq!((third.free(), third.summary.get(), third.word(0).get()), (0, 0, 0), "zeros");
    }

    /// The map of pages has entries of four bytes on small machines, where a header is aligned to
    /// eight.
    #[test]
    fn headers_in_donated_memory_are_aligned() {
        for (skipped, cut) in [(4, 0), (0, 4), (4, 4), (4, 8)] {
            let mut memory = vec![MaybeUninit::uninit(); 1024];
            let mut source = region(&mut memory);
            let mut chunks = Chunks::new();
            let mut donated = [u64::MAX; 512];
            let range = donated.as_mut_ptr_range();
            let at = range.start.cast::<u8>().wrapping_add(skipped);
            // SAFETY: the test uses the memory no more.
            unsafe { chunks.donate(at, size_of::<[u64; 512]>() - skipped - cut) };
            let page = chunks.make(SHORT, &mut source).expect("there is memory");
            assert!(page.header().is_aligned(), "{skipped} {cut}");
            assert!((at.addr()..range.end.addr()).contains(&page.header().addr()));
        }
    }
}
