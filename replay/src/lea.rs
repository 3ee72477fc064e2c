//! LEA: Doug Lea's allocator, as implemented by the crate `dlmalloc`, over its own memory.
//!
//! Hasan & Chang compare with version 2.7; the crate is a port of 2.8: one bitmap of bins for small
//! blocks, tries for large ones, no caching of freed blocks except a *designated victim*, no
//! separate mappings for large requests. It takes its memory from one reservation that grows
//! upwards, as from `sbrk`, in multiples of the hybrid's growth unit, and gives back the free end
//! of it when that is more than 2 MiB.

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::{NonNull, null_mut};

use dlmalloc::{Allocator, Dlmalloc};
use pagewise::hybrid;
use pagewise::source::{Reserved, Source};

use crate::workload::Target;

/// The unit in which it takes memory, bytes: the same as the hybrid's.
pub const GROWTH: usize = hybrid::Settings::generic().growth;

/// Doug Lea's allocator.
pub struct Lea(Dlmalloc<Memory>);

/// A [`Source`] as the crate's backend, and the peak of the bytes held.
struct Memory(RefCell<Held>);

struct Held {
    source: Reserved,
    peak: usize,
}

impl Lea {
    /// Returns the allocator over at most `capacity` bytes of address space.
    pub fn new(capacity: usize) -> Self {
        Self::growing_by(GROWTH, capacity)
    }

    /// Like [`new`](Self::new), growing by multiples of `growth` bytes, a power of two.
    pub fn growing_by(growth: usize, capacity: usize) -> Self {
        let held = Held { source: Reserved::new(capacity), peak: 0 };
        let mut lea = Dlmalloc::new_with_allocator(Memory(RefCell::new(held)));
        let accepted = lea.set_granularity(growth);
        debug_assert!(accepted, "a power of two");
        Self(lea)
    }

    /// Returns the bytes held.
    pub fn held(&self) -> usize {
        self.0.allocator().0.borrow().source.held()
    }

    /// Returns the peak of the bytes held.
    pub fn peak_held(&self) -> usize {
        self.0.allocator().0.borrow().peak
    }
}

// SAFETY: the memory comes from the source, whose contract is stricter; retracted memory was given
// back, so no memory is handed out twice.
unsafe impl Allocator for Memory {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let Held { source, peak } = &mut *self.0.borrow_mut();
        let Ok(memory) = source.extend(size, self.page_size()) else { return (null_mut(), 0, 0) };
        *peak = source.held().max(*peak);
        (memory.as_ptr(), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, base: *mut u8, old: usize, new: usize) -> bool {
        let source = &mut self.0.borrow_mut().source;
        let is_last = source.extent().end == base.addr() + old;
        if is_last {
            // SAFETY: the extent ends with this memory, and the caller gives its end back.
            unsafe { source.retract(old - new) };
        }
        is_last
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        // Memory that was given back may be handed out again.
        false
    }

    fn page_size(&self) -> usize {
        4096
    }
}

// SAFETY: the allocator keeps the contract of `malloc`.
unsafe impl Target for Lea {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout is valid, and its size not 0.
        NonNull::new(unsafe { self.0.malloc(layout.size(), layout.align()) })
    }

    #[inline]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller guarantees that the block is in use with this layout.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), size, align, new_size) })
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        // Use C's `free`: the other function would check the size.
        // SAFETY: the caller guarantees that the block is in use, and does not use it any more.
        unsafe { self.0.c_free(block.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_end_is_given_back() {
        let mut lea = Lea::new(1 << 30);
        let layout = Layout::from_size_align(16 << 20, 64).unwrap();
        for _ in 0..3 {
            let block = lea.allocate(layout).unwrap();
            assert!(block.addr().get().is_multiple_of(64));
            // SAFETY: the block is live, and has this layout.
            unsafe {
                block.write_bytes(1, layout.size());
                let grown = lea.reallocate(block, layout, 17 << 20).unwrap();
                assert_eq!(grown.read(), 1);
                lea.free(grown, Layout::from_size_align(17 << 20, 64).unwrap());
            }
        }
        let peak = lea.peak_held();
        assert!((33 << 20..51 << 20).contains(&peak), "{peak}");
        assert!(lea.0.allocator().0.borrow().source.held() < 1 << 20);
    }
}
