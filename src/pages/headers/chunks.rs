//! The memory that headers with their bits are made of.
//!
//! ```text
//! dedicated memory:  | H(P) | word 0 | word 1 | … | H(P′) | word 0 | …
//! ```
//! A header has as many words as its page's class needs, rounded up to a power of two above 16: a
//! spare header serves the next page that needs as many.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::page::{Header, KINDS, Page, kind_for, words_of};
use crate::error::AllocError;
use crate::source::Source;

/// Bytes of dedicated memory taken at a time.
const CHUNK: usize = 2048;

/// Where headers come from. Invariant: the `left` bytes from `chunk` on are zero, aligned to a
/// header's alignment, and used by nobody; the spare headers are linked through `next`.
#[derive(Debug)]
pub(super) struct Chunks {
    spare: [Option<Page>; KINDS],
    chunk: *mut u8,
    left: usize,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self { spare: [None; KINDS], chunk: core::ptr::null_mut(), left: 0 }
    }

    /// A header with words for this many blocks.
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
            // A chunk if there is one, else only what is needed now.
            let take = |bytes, source: &mut S| {
                let layout = Layout::from_size_align(bytes, align);
                source.dedicate(layout.map_err(|_| AllocError::Exhausted)?).map(|at| (at, bytes))
            };
            let taken = take(bytes.max(CHUNK), source).or_else(|_| take(bytes, source));
            let (chunk, left) = taken?;
            // Chunks often adjoin: the next lies below the one before.
            let adjoins = chunk.as_ptr().wrapping_add(left) == self.chunk;
            self.left = if adjoins { left + self.left } else { left };
            self.chunk = chunk.as_ptr();
        }
        self.left -= bytes;
        // SAFETY: by the invariant these bytes are ours, zero and aligned; dedicated memory is not at
        // address 0, and stays as long as the heap.
        Ok(unsafe {
            Page::new(NonNull::new_unchecked(self.chunk.wrapping_add(self.left).cast()), kind)
        })
    }

    /// Takes back a header no page has.
    pub(super) fn recycle(&mut self, page: Page) {
        let top = &mut self.spare[page.kind()];
        page.next.set(top.replace(page));
    }

    /// Takes memory that nobody uses any more, aligned as a header, for headers.
    pub(super) fn donate(&mut self, memory: *mut u8, bytes: usize) {
        if bytes > self.left {
            // SAFETY: the caller gives these bytes up.
            unsafe { memory.write_bytes(0, bytes) };
            (self.chunk, self.left) = (memory, bytes);
        }
    }
}
