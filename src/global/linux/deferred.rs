//! Blocks that wait for their heap: freed while its lock could [not be waited for](super::lock), put
//! back by whoever next uses the heap.
//!
//! ```text
//!  last ──▶ | link | … |  ──▶  | link | … |  ──▶  0        the blocks themselves
//! ```
//! Blocks are added one by one and taken all at once, without a lock. A link lies in the free block,
//! since freeing must not need memory; so it is checked before it is followed.

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A stack of free blocks. Invariant: every block on it belongs to the heap that has the stack, and
/// nobody else uses it.
#[derive(Debug)]
pub(super) struct Deferred {
    last: AtomicPtr<u8>,
}

impl Deferred {
    pub(super) const fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether there are no blocks.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.last.load(Relaxed).is_null()
    }

    /// Adds blocks.
    ///
    /// # Safety
    /// They are in use, the caller's, of the heap that has the stack, and the caller uses them no
    /// longer. Each has room for a link.
    pub(super) unsafe fn push(&self, blocks: &[NonNull<u8>]) {
        for block in blocks {
            let link = block.cast::<*mut u8>();
            let mut last = self.last.load(Relaxed);
            loop {
                // SAFETY: the block is the caller's, and has room for a link at its start.
                unsafe { link.write_unaligned(last) };
                match self.last.compare_exchange_weak(last, block.as_ptr(), Release, Relaxed) {
                    Ok(_) => break,
                    Err(other) => last = other,
                }
            }
        }
    }

    /// Takes all blocks and calls `put_back` with each; the block whose link was overwritten, as far as
    /// `is_own` tells, if one was. The blocks behind that one are lost.
    pub(super) fn take(
        &self,
        is_own: impl Fn(*mut u8) -> bool,
        mut put_back: impl FnMut(NonNull<u8>),
    ) -> Option<*mut u8> {
        let mut last = ptr::null_mut();
        let mut next = self.last.swap(ptr::null_mut(), Acquire);
        while let Some(block) = NonNull::new(next) {
            if !is_own(next) {
                return Some(last);
            }
            last = next;
            // SAFETY: `push` wrote the link, and the block is nobody's but the stack's.
            next = unsafe { block.cast::<*mut u8>().read_unaligned() };
            put_back(block);
        }
        None
    }
}
