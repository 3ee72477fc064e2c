//! Blocks that cross a heap's lock, and what is done on that occasion: a heap that grew has free memory
//! of all heaps [given back](super::relief), one that was used often looks whether some is due.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::fault::{self, Fault};
use super::heap::Heap;
use super::purge;
use super::space::SPACE;
use super::state::State;
use super::tuning::UNIT;
use super::{background, heaps, mode, relief, sizes, zero};

impl Heap {
    /// Runs `action` as [`with`](Self::with); if the heap has grown, free memory of all heaps goes back.
    #[inline]
    pub(super) fn grow<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let (result, growth) = self.with(|state| {
            let result = action(state);
            let growth = state.grown();
            self.note(state);
            (result, growth)
        })?;
        if let Some(growth) = growth {
            relief::grown(self, growth);
        }
        Some(result)
    }

    /// Runs `action` as [`grow`](Self::grow), and looks now and then whether memory goes back.
    #[inline]
    fn work<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let (result, look) = self.grow(|state| {
            let result = action(state);
            (result, state.tick())
        })?;
        if look {
            self.maintain();
        }
        Some(result)
    }

    /// Takes blocks of a class for a quick list, and says how many there were. The lowest are to be
    /// used first, and come last.
    pub(super) fn take(
        &self,
        class: u32,
        list: u32,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        self.work(|state| state.take(class, list, blocks)).unwrap_or(0)
    }

    /// Puts small blocks back to the heaps they lie in. Their order changes.
    ///
    /// # Safety
    /// They were [taken](Self::take), and are put back once.
    pub(super) unsafe fn put(mut blocks: &mut [NonNull<u8>]) {
        if mode::parts().zero() {
            look_at_zeros(blocks);
        }
        while !blocks.is_empty() {
            let (slot, own) = first_heaps(blocks);
            let (ours, others) = blocks.split_at_mut(own);
            let heap = Self::of_slot(slot);
            // SAFETY: the caller's promise; they lie in this heap.
            match heap.work(|state| unsafe { state.put(ours) }) {
                Some(Ok(())) => {}
                Some(Err(block)) => fault::stop(Fault::FreedTwice, block.as_ptr()),
                None => {
                    // What was zeros is not with a link in it.
                    ours.iter().for_each(|block| SPACE.forget_states(block.as_ptr(), UNIT));
                    // SAFETY: as above; every block has room for a link.
                    unsafe { heap.deferred.push(ours) };
                }
            }
            blocks = others;
        }
    }

    /// Frees a block that is not small; returns its bytes, 0 if it waits for its heap.
    ///
    /// # Safety
    /// It lies here, is not small, and is freed once.
    pub(super) unsafe fn deallocate(&self, block: NonNull<u8>) -> usize {
        // SAFETY: passed on.
        match self.work(|state| unsafe { state.deallocate(block) }) {
            Some(Some((bytes, wanted))) => {
                if wanted > 0 {
                    self.give_back(wanted);
                }
                bytes
            }
            Some(None) => fault::stop(Fault::FreedTwice, block.as_ptr()),
            None => {
                // SAFETY: the caller's promise; every block has room for a link.
                unsafe { self.deferred.push(&[block]) };
                0
            }
        }
    }

    /// After a large block was freed: has `empty_lists` put back what the calling thread keeps, and
    /// collects the pages that then are free, if enough has happened here since that was last done.
    pub(super) fn trim(&self, empty_lists: impl FnOnce()) {
        if self.with(|state| state.takes_trim()) == Some(true) {
            empty_lists();
            let _ = self.with(State::collect);
        }
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is.
    ///
    /// # Safety
    /// It lies here, is not small, and is in use.
    pub(super) unsafe fn resize_in_place(&self, block: NonNull<u8>, new_size: usize) -> bool {
        // SAFETY: passed on.
        match self.work(|state| unsafe { state.resize_in_place(block, new_size) }) {
            Some(Some(resized)) => resized,
            Some(None) => fault::stop(Fault::NotInUse, block.as_ptr()),
            None => false,
        }
    }

    /// Looks whether memory goes back, of this heap and of another, and does some of it.
    #[cold]
    pub(super) fn maintain(&self) {
        self.purge_some();
        let other = heaps::next_after(self);
        if !ptr::eq(self, other) {
            other.purge_some();
        }
    }

    /// Does a few steps of a purge, if one is under way or due, while nobody waits.
    pub(super) fn purge_some(&self) {
        let (goes_on, is_due) = self.state.try_with(State::look).unwrap_or_default();
        if is_due {
            background::due();
        }
        if !goes_on {
            return;
        }
        for _ in 0..purge::STEPS {
            let (more, awaited) = self.step();
            if awaited || !more {
                return;
            }
        }
    }
}

/// Stops the process if one of these small blocks was zeroed when it was freed, and holds something else now.
#[cold]
fn look_at_zeros(blocks: &[NonNull<u8>]) {
    // Mostly they are of one list.
    let (mut list, mut size) = (0, 0);
    for &block in blocks {
        if !SPACE.was_zeroed(block.as_ptr()) {
            continue;
        }
        let own = SPACE.list_of(block.as_ptr()).unwrap_or(0);
        if own != list {
            (list, size) = (own, sizes::class_size(own));
        }
        // SAFETY: the block is free, of this size, and nobody's.
        if !unsafe { zero::is_zero(block, size) } {
            fault::stop(Fault::UsedAfterFree, block.as_ptr());
        }
    }
}

/// The slot of the first block, and how many of the blocks lie in it: those are moved to the front.
#[inline(always)]
fn first_heaps(blocks: &mut [NonNull<u8>]) -> (usize, usize) {
    let slot = SPACE.slot_of(blocks[0].as_ptr());
    // Mostly all do, and to see just that takes an instruction or two a block.
    if SPACE.slot_has(slot, blocks) {
        return (slot, blocks.len());
    }
    let mut own = 0;
    for index in 0..blocks.len() {
        if SPACE.slot_of(blocks[index].as_ptr()) == slot {
            blocks.swap(own, index);
            own += 1;
        }
    }
    (slot, own)
}
