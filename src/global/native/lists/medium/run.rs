//! Runs: blocks that a list gets from the heap with one that a request waits for.
//!
//! A program that allocates more blocks than a list keeps, and then frees them all, again and
//! again, passes the others through its heap. There it takes as long to find memory for one block
//! as for several that are adjacent. When such blocks are put back, they are adjacent again, and
//! become free memory as one. So a list that runs dry gets as many blocks at once as went back when
//! it was full, up to a bound.
//!
//! If the program frees its blocks in another order, the heap soon has no free memory for adjacent
//! ones. Then the blocks lie apart, and the list is spared all but one way through the heap's lock.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering::Relaxed;

use super::class::{Class, mark};
use super::lists::Lists;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::UNIT;

/// Bounds of a run, with the block that the request waits for: blocks, and bytes.
const BLOCKS: usize = 16;
const BYTES: usize = 512 << 10;

/// The blocks of a run that go onto the list of the calling thread.
pub(in crate::global::native) struct Run {
    lists: &'static Lists,
    class: Class,
    wanted: usize,
    blocks: [MaybeUninit<NonNull<u8>>; BLOCKS - 1],
    count: usize,
}

impl Run {
    /// Returns an empty run of blocks of `size` bytes at multiples of `align`, if the calling
    /// thread's list of this size wants one.
    pub(in crate::global::native) fn wanted_of(size: usize, align: usize) -> Option<Self> {
        Self::wanted_by(super::own()?, size, align)
    }

    /// As [`wanted_of`](Self::wanted_of), for these lists, which are the calling thread's.
    pub(super) fn wanted_by(lists: &'static Lists, size: usize, align: usize) -> Option<Self> {
        let class = Class::served(size).filter(|class| class.size() == size && align <= UNIT)?;
        let wanted = lists.wanted(class, |size| BLOCKS.min(BYTES / size).saturating_sub(1));
        let blocks = [const { MaybeUninit::uninit() }; BLOCKS - 1];
        (wanted > 0).then_some(Self { lists, class, wanted, blocks, count: 0 })
    }

    /// Returns the number of blocks that the list wants.
    pub(in crate::global::native) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Adds a block, which was just allocated with the run's size. The run must not have all the
    /// [wanted](Self::wanted) blocks yet.
    pub(in crate::global::native) fn add(&mut self, block: NonNull<u8>) {
        self.blocks[self.count].write(block);
        self.count += 1;
    }

    /// Puts the blocks on the list, so that those added first are used first. If it does not take
    /// them, they go back to their heap.
    pub(in crate::global::native) fn put_on_list(self) {
        self.lists.note_taken(self.class, self.count as u16);
        // SAFETY: the first `count` were written.
        let blocks: &[NonNull<u8>] =
            unsafe { slice::from_raw_parts(self.blocks.as_ptr().cast(), self.count) };
        let put = |block: NonNull<u8>| {
            let mark = SPACE.mark_of(block.as_ptr());
            mark.store(mark::in_use(block.as_ptr(), self.class.0), Relaxed);
            // SAFETY: the block was just allocated, with the size of the class.
            unsafe { self.lists.push_within(self.class, block, mark) }
        };
        let kept = self.lists.with(|| blocks.iter().rev().take_while(|block| put(**block)).count());
        let refused = &blocks[..self.count - kept.unwrap_or(0)];
        for block in refused {
            SPACE.mark_of(block.as_ptr()).store(mark::NONE, Relaxed);
        }
        // SAFETY: the blocks were just allocated, and are on no list.
        unsafe { Heap::put_medium(refused, Upkeep::IfDue) };
    }
}
