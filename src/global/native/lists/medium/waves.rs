//! Waves: blocks that move from a full list to the [overflow](super::overflow), and return.

use core::cmp::min;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

use super::class::{Class, ROUNDED};
use super::list::{List, ROOM, Taken, block_of};
use super::lists::{Blocks, Lists};
use crate::global::native::base::visit::Upkeep;

/// Blocks that return to an empty list at once.
const RETURNED: usize = ROOM.div_ceil(2);

impl Lists {
    /// Gives the overflow the class of a list that was full before and is empty now, if there are
    /// no blocks of another.
    pub(super) fn note_dry(&self, class: Class) {
        if class.size() <= ROUNDED && !self.overflow.is_of(class) {
            self.with(|| self.overflow.turn_to(Some(class)));
        }
    }

    /// Moves the `oldest` oldest blocks of a full list to the overflow; returns whether there was
    /// room for them.
    pub(super) fn overflow_oldest(&self, class: Class, oldest: usize) -> bool {
        let (list, overflow) = (self.list(class), &self.overflow);
        let move_oldest = || {
            let bytes = overflow.bytes() + oldest * class.size();
            let is_within = self.byte_limit.load(Relaxed) + bytes <= self.budget.load(Relaxed);
            // A signal handler may have changed the list since the caller looked.
            let is_whole = list.is_of(class) && list.len() >= oldest;
            let fits = is_within && is_whole && overflow.takes(class, oldest);
            if fits {
                self.move_to_overflow(list, class, oldest);
                self.note_left(class, oldest);
            }
            fits
        };
        self.with(move_oldest) == Some(true)
    }

    /// Moves the `oldest` oldest blocks of a list, which are of this class, to the overflow. Call
    /// behind the gate.
    fn move_to_overflow(&self, list: &List, class: Class, oldest: usize) {
        let (len, before) = (list.len(), self.overflow.len());
        // As in `List::take`: a child that is forked meanwhile must not find a block twice.
        list.set_len_of(class, 0);
        compiler_fence(Release);
        for (place, entry) in self.places[before..].iter().zip(&list.entries[..oldest]) {
            place.store(block_of(entry.load(Relaxed)), Relaxed);
        }
        for (entry, next) in list.entries.iter().zip(&list.entries[oldest..len]) {
            entry.store(next.load(Relaxed), Relaxed);
        }
        compiler_fence(Release);
        self.overflow.set_len(before + oldest);
        list.set_len_of(class, len - oldest);
    }

    /// Takes at most `most` blocks out of the overflow, those that came last, and calls `each` for
    /// them. Call behind the gate.
    fn take_from_overflow(&self, most: usize, mut each: impl FnMut(*mut u8)) {
        let before = self.overflow.len();
        let left = before - min(before, most);
        self.overflow.set_len(left);
        compiler_fence(Release);
        self.places[left..before].iter().for_each(|place| each(place.load(Relaxed)));
    }

    /// Moves blocks from the overflow to the empty list of their class. Call behind the gate.
    #[cold]
    #[inline(never)]
    pub(super) fn return_overflow(&self, class: Class) {
        let list = self.list(class);
        let left = self.left.load(Relaxed).max(0).cast_unsigned() / class.steps();
        let room = min(list.room.load(Relaxed).into(), left);
        let mut len = 0;
        // One block in any case: a request waits for it.
        self.take_from_overflow(min(room, RETURNED).max(1), |block| {
            list.entries[len].store(block, Relaxed);
            len += 1;
        });
        compiler_fence(Release);
        list.set_len_of(class, len);
        let steps = (len * class.steps()).cast_signed();
        self.left.store(self.left.load(Relaxed) - steps, Relaxed);
    }

    /// Takes blocks out of the overflow that go back to their heaps, at most [`ROOM`]. Call behind
    /// the gate.
    fn take_back_from_overflow(&self, most: usize) -> Taken {
        let mut taken = Taken::new();
        if let Some(class) = self.overflow.class() {
            self.take_from_overflow(min(most, ROOM), |block| taken.add(block, class));
        }
        taken
    }

    /// Puts the overflow back if it has more bytes than a heap has to `spare`.
    #[inline]
    pub(super) fn make_way(&self, spare: usize) {
        if self.overflow.bytes() > spare {
            self.put_overflow_back();
        }
    }

    /// Puts the blocks of the overflow back to their heaps. Does nothing while a visitor is there.
    pub(super) fn put_overflow_back(&self) {
        while self.overflow.len() > 0
            && let Some(taken) = self.with(|| self.take_back_from_overflow(ROOM))
        {
            taken.put_back(Upkeep::IfDue);
        }
    }

    /// Puts the blocks of the overflow back that were not used since the last visit, or all of
    /// them; returns whether there were any. Call behind the gate.
    pub(super) fn put_overflow_back_at_visit(&self, blocks: Blocks) -> bool {
        let mut left = match blocks {
            Blocks::Idle => self.overflow.take_low(),
            Blocks::All => self.overflow.len(),
        };
        let any = left > 0;
        while left > 0 {
            self.take_back_from_overflow(left).put_back(Upkeep::Never);
            left = left.saturating_sub(ROOM);
        }
        self.overflow.turn_to(None);
        any
    }
}
