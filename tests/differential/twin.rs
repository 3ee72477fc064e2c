//! Two allocators that get the same requests, and must give the same answers except for addresses.

use std::alloc::Layout;

use crate::subject::{Subject, System};

/// The two blocks that answer one request.
#[derive(Clone, Copy)]
struct Pair {
    ours: *mut u8,
    theirs: *mut u8,
    layout: Layout,
}

impl Pair {
    fn bytes(&self, len: usize) -> [&[u8]; 2] {
        // SAFETY: both blocks are in use, and their first `len` bytes were written.
        [self.ours, self.theirs].map(|block| unsafe { std::slice::from_raw_parts(block, len) })
    }

    fn agree(&self, len: usize) {
        let [ours, theirs] = self.bytes(len);
        assert!(ours == theirs, "{len} bytes of {:?} agree", self.layout);
    }
}

/// Fill bytes; no two stretches are alike.
struct FillBytes(Vec<u8>);

impl FillBytes {
    const LEN: usize = 1 << 16;

    fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let byte = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        };
        Self(std::iter::repeat_with(byte).take(2 * Self::LEN).collect())
    }

    /// Fills both blocks from offset `from` on.
    fn fill(&self, pair: &Pair, from: usize, tint: usize) {
        for block in [pair.ours, pair.theirs] {
            let mut at = from;
            while at < pair.layout.size() {
                let len = (pair.layout.size() - at).min(Self::LEN);
                let fill_bytes = &self.0[(tint + at) % Self::LEN..][..len];
                // SAFETY: the bytes lie in the block.
                unsafe { block.add(at).copy_from_nonoverlapping(fill_bytes.as_ptr(), len) };
                at += len;
            }
        }
    }
}

/// An allocator of ours beside the system's.
pub(crate) struct Twin<'s, S: Subject> {
    ours: &'s S,
    blocks: Vec<Option<Pair>>,
    fill_bytes: FillBytes,
    /// Operations performed.
    pub(crate) operations: usize,
    /// Bytes in use at the start.
    before: usize,
}

impl<'s, S: Subject> Twin<'s, S> {
    pub(crate) fn new(ours: &'s S) -> Self {
        let before = ours.blocks().unwrap_or(0);
        Self { ours, blocks: Vec::new(), fill_bytes: FillBytes::new(), operations: 0, before }
    }

    /// Returns the slots that hold blocks.
    pub(crate) fn live(&self) -> Vec<usize> {
        (0..self.blocks.len()).filter(|&slot| self.blocks[slot].is_some()).collect()
    }

    pub(crate) fn layout(&self, slot: usize) -> Layout {
        self.blocks[slot].expect("a live block").layout
    }

    /// Allocates in a slot, sometimes zeroed.
    pub(crate) fn allocate(&mut self, slot: usize, layout: Layout) {
        self.operations += 1;
        let zeroed = self.operations.is_multiple_of(4) && layout.align() <= 16 && layout.size() > 0;
        let (ours, theirs) = if zeroed {
            (self.ours.allocate_zeroed(layout), System.allocate_zeroed(layout))
        } else {
            (self.ours.allocate(layout), System.allocate(layout))
        };
        assert_eq!(ours.is_null(), theirs.is_null(), "{layout:?}");
        if ours.is_null() {
            return;
        }
        let pair = Pair { ours, theirs, layout };
        self.check(&pair);
        if zeroed {
            pair.agree(layout.size());
            assert_eq!(pair.bytes(layout.size())[1].iter().copied().max(), Some(0));
        }
        self.fill_bytes.fill(&pair, 0, self.operations);
        if self.blocks.len() <= slot {
            self.blocks.resize(slot + 1, None);
        }
        assert!(self.blocks[slot].replace(pair).is_none(), "the slot is free");
    }

    /// Both blocks are aligned, and at least as long as requested.
    fn check(&self, pair: &Pair) {
        let Pair { ours, theirs, layout } = *pair;
        for block in [ours, theirs] {
            assert!(block.addr().is_multiple_of(layout.align()), "{layout:?} at {block:p}");
        }
        // SAFETY: both blocks are in use with this layout.
        let usable =
            unsafe { [self.ours.usable_size(ours, layout), System.usable_size(theirs, layout)] };
        assert!(usable.iter().all(|&usable| usable >= layout.size()), "{layout:?}: {usable:?}");
    }

    /// Resizes both blocks. Contents up to the lesser size must survive; if one call fails, both
    /// must.
    pub(crate) fn reallocate(&mut self, slot: usize, size: usize) {
        self.operations += 1;
        let pair = self.blocks[slot].expect("a live block");
        let old = pair.layout;
        pair.agree(old.size());
        if old.size() == 0 || size == 0 || old.align() > 16 {
            // C leaves the meaning of `realloc(block, 0)` open.
            self.free(slot);
            let layout = Layout::from_size_align(size, old.align()).expect("a valid layout");
            return self.allocate(slot, layout);
        }
        // SAFETY: both blocks are in use with this layout; afterwards only the returned blocks are
        // used.
        let (ours, theirs) = unsafe {
            (self.ours.reallocate(pair.ours, old, size), System.reallocate(pair.theirs, old, size))
        };
        assert_eq!(ours.is_null(), theirs.is_null(), "{old:?} to {size} bytes");
        if ours.is_null() {
            return pair.agree(old.size());
        }
        let layout = Layout::from_size_align(size, old.align()).expect("a valid layout");
        let pair = Pair { ours, theirs, layout };
        self.check(&pair);
        pair.agree(size.min(old.size()));
        self.fill_bytes.fill(&pair, size.min(old.size()), self.operations);
        self.blocks[slot] = Some(pair);
    }

    pub(crate) fn free(&mut self, slot: usize) {
        self.operations += 1;
        let pair = self.blocks[slot].take().expect("a live block");
        pair.agree(pair.layout.size());
        // SAFETY: both blocks are in use with this layout, and are no longer in the table.
        unsafe {
            self.ours.free(pair.ours, pair.layout);
            System.free(pair.theirs, pair.layout);
        }
    }

    /// Frees the remaining blocks; then nothing may be in use.
    pub(crate) fn end(mut self) -> usize {
        self.live().into_iter().for_each(|slot| self.free(slot));
        if let Some(blocks) = self.ours.blocks() {
            assert_eq!(blocks, self.before, "every block was freed");
        }
        self.operations
    }
}
