//! Blocks from C's `malloc`.

use std::ptr;

/// A queue of blocks linked through themselves, so that keeping them needs no memory.
pub(crate) struct Blocks {
    oldest: *mut Block,
    newest: *mut Block,
}

#[repr(C)]
struct Block {
    next: *mut Block,
    size: usize,
}

// SAFETY: blocks of `malloc` may be freed by any thread.
unsafe impl Send for Blocks {}

impl Blocks {
    pub(crate) const fn new() -> Self {
        Self { oldest: ptr::null_mut(), newest: ptr::null_mut() }
    }

    /// Allocates a block and writes to every OS page of it. Returns false if there is no memory.
    pub(crate) fn push(&mut self, size: usize) -> bool {
        assert!(size >= size_of::<Block>(), "there is room for the link");
        // SAFETY: the block has room for the link, and every write is within it or within the
        // newest block.
        unsafe {
            let block = libc::malloc(size).cast::<Block>();
            if block.is_null() {
                return false;
            }
            for offset in (0..size).step_by(4096) {
                block.cast::<u8>().add(offset).write_volatile(offset as u8);
            }
            if size > size_of::<Block>() {
                block.cast::<u8>().add(size - 1).write_volatile(size as u8);
            }
            block.write(Block { next: ptr::null_mut(), size });
            if self.oldest.is_null() {
                self.oldest = block;
            } else {
                (*self.newest).next = block;
            }
            self.newest = block;
        }
        true
    }

    /// Allocates `count` blocks of this size. Panics if there is no memory.
    pub(crate) fn fill(count: usize, size: usize) -> Self {
        let mut blocks = Self::new();
        (0..count).for_each(|_| assert!(blocks.push(size), "there is memory"));
        blocks
    }

    /// Frees the oldest block. Panics if its last byte changed.
    fn pop(&mut self) -> bool {
        if self.oldest.is_null() {
            return false;
        }
        // SAFETY: the block is live, and is removed from the queue.
        unsafe {
            let Block { next, size } = self.oldest.read();
            let intact = self.oldest.cast::<u8>().add(size - 1).read() == size as u8;
            assert!(intact || size == size_of::<Block>(), "a block is as it was written");
            libc::free(self.oldest.cast());
            self.oldest = next;
        }
        true
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        while self.pop() {}
    }
}

/// Allocates and frees blocks of many sizes, so that the allocator does its periodic work.
pub(crate) fn poke(rounds: usize) {
    for round in 0..rounds {
        let sizes = [24, 200, 1000, 5000, 40_000, 200_000, 1_200_000];
        let mut blocks = Blocks::new();
        for size in sizes {
            assert!(blocks.push(size + round % 64), "there is memory");
        }
    }
}
