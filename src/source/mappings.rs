//! Memory mapped for single blocks, apart from a source's other memory. The list of mappings is
//! stored in the mappings themselves.
//!
//! ```text
//!  mapping                       block
//!  | slack … | head | 16 bytes  | … the block …                       |
//!             ▲  ▼   the strategy's
//!             other mappings, in address order
//! ```

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::{self, NonNull};

use super::OWNERS;
use crate::error::AllocError;
use crate::os;

/// The description of a mapping, stored just below the strategy's bytes.
#[derive(Debug)]
struct Head {
    base: NonNull<u8>,
    len: usize,
    next: *mut Head,
    prev: *mut Head,
}

/// The distance from a mapping's head to its block, in bytes.
const OFFSET: usize = size_of::<Head>() + OWNERS;

/// The mappings. Invariant: the list contains every mapping, in address order, and `held` is the
/// sum of their lengths.
#[derive(Debug)]
pub(super) struct Mappings {
    first: *mut Head,
    held: usize,
}

// SAFETY: mappings are not tied to a thread.
unsafe impl Send for Mappings {}

impl Mappings {
    pub(super) const fn new() -> Self {
        Self { first: ptr::null_mut(), held: 0 }
    }

    /// Returns the number of bytes mapped.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Maps memory for a block; see [`Source::map`](super::Source::map).
    pub(super) fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let page = os::page_size();
        let align = layout.align().max(OWNERS);
        // The system aligns mappings to pages; for a larger alignment there is a gap below the
        // head.
        let head = if align <= page { OFFSET.next_multiple_of(align) } else { OFFSET + align };
        let len =
            layout.size().checked_add(head).and_then(|len| len.checked_next_multiple_of(page));
        let len = len.filter(|&len| len <= isize::MAX as usize).ok_or(AllocError::Exhausted)?;
        let base = os::map_lazily(len).ok_or(AllocError::Exhausted)?;
        let mut backed = os::Backed::NONE;
        // SAFETY: the mapping was made just now.
        if unsafe { !backed.reach(base.as_ptr(), len, len, len) } {
            // SAFETY: the mapping was made just now, and nothing uses it.
            unsafe { os::unmap(base, len) };
            return Err(AllocError::Exhausted);
        }
        let first = base.addr().get() + OFFSET;
        let offset = first.next_multiple_of(align) - base.addr().get();
        // SAFETY: `OFFSET` ≤ `offset` ≤ `head` ≤ `len`, so head and block are within the new
        // mapping.
        let (head, block) = unsafe { (base.add(offset - OFFSET).cast(), base.add(offset)) };
        self.link(head.as_ptr(), base, len);
        Ok(NonNull::slice_from_raw_parts(block, len - offset))
    }

    /// Writes the head and inserts it into the list.
    fn link(&mut self, head: *mut Head, base: NonNull<u8>, len: usize) {
        let (mut prev, mut next) = (ptr::null_mut::<Head>(), self.first);
        // SAFETY: the list contains only heads of existing mappings; `head` is space for one in a
        // new mapping.
        unsafe {
            while !next.is_null() && next < head {
                prev = next;
                next = (*next).next;
            }
            head.write(Head { base, len, next, prev });
            if prev.is_null() {
                self.first = head;
            } else {
                (*prev).next = head;
            }
            if !next.is_null() {
                (*next).prev = head;
            }
        }
        self.held += len;
    }

    /// Unmaps a block; see [`Source::unmap`](super::Source::unmap).
    ///
    /// # Safety
    /// As for `Source::unmap`.
    pub(super) unsafe fn unmap(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that this is a mapped block, so its head is in front of it
        // and on the list; nothing uses the mapping afterwards.
        unsafe {
            let Head { base, len, next, prev } = block.sub(OFFSET).cast::<Head>().read();
            if prev.is_null() {
                self.first = next;
            } else {
                (*prev).next = next;
            }
            if !next.is_null() {
                (*next).prev = prev;
            }
            self.held -= len;
            os::unmap(base, len);
        }
    }

    /// Visits every mapping; see [`Source::mapped`](super::Source::mapped).
    pub(super) fn each(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        let mut head = self.first;
        while !head.is_null() {
            // SAFETY: the list contains only heads of existing mappings.
            let Head { base, len, next, .. } = unsafe { &*head };
            let start = base.addr().get();
            visit(start..start + len, head.addr() + OFFSET);
            head = *next;
        }
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        while !self.first.is_null() {
            // SAFETY: the first mapping exists, and its block is behind its head. A block that is
            // still used violates the contract of the strategy that owned the source.
            unsafe { self.unmap(NonNull::new_unchecked(self.first.cast::<u8>().add(OFFSET))) };
        }
    }
}
