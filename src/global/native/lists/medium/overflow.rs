//! The overflow: blocks of one class that a thread's list of that class has no place for.
//!
//! ```text
//!              the oldest quarter, when the list is full
//!  list  | • • • | • • • • • • • • • |  ─────────────────▶  | • • • • • • …             |  overflow
//!                                       ◀─────────────────
//!                    the last ones, when the list is empty
//! ```
//! A program may allocate more buffers of one size than a list keeps, free them all, and begin
//! again. Without the overflow most of them pass through the heap, which joins each with the free
//! memory beside it, and then divides that memory again.
//!
//! It has the class of a list that [was full](super::list::List::overflown), and then ran dry. So
//! a thread that only frees what others allocate has none. The threads' [budget](super::budget)
//! bounds its bytes. If other sizes take memory of a heap that has less to spare than the overflow
//! has, it goes back. (When the heap grows it is too late: a program that does so in turns would grow
//! a little each time.)

use core::cmp::min;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, compiler_fence};

use super::class::{Class, ROUNDED};
use super::list::{List, ROOM, Taken, block_of};
use super::lists::{Blocks, Lists, usable};
use crate::global::native::base::visit::Upkeep;

/// Blocks that the overflow holds at most: 12 MiB of the smallest class.
pub(super) const PLACES: usize = 768;

/// Blocks that return to an empty list at once.
const RETURNED: usize = ROOM.div_ceil(2);

/// The overflow of a thread's lists, but for the [places](Lists::places) of its blocks. Only the
/// thread that is behind their gate changes it.
///
/// Invariants: there are at most [`PLACES`] blocks; all are of the class, which changes only while
/// there are none; `low` is at most their number.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Overflow {
    /// The class; 0 if it has none.
    class: AtomicU32,
    /// The number of blocks.
    len: AtomicU32,
    /// The fewest blocks since the last visit: as many were not used.
    low: AtomicU32,
}

impl Overflow {
    /// Returns the number of blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Returns whether it has this class.
    #[inline]
    pub(super) fn is_of(&self, class: Class) -> bool {
        self.class.load(Relaxed) == class.0
    }

    /// Returns whether it has blocks of this class.
    #[inline]
    pub(super) fn has(&self, class: Class) -> bool {
        self.is_of(class) && self.len() > 0
    }

    /// Returns the class, if it has one.
    fn class(&self) -> Option<Class> {
        Some(Class(self.class.load(Relaxed))).filter(|class| class.0 != 0)
    }

    /// Returns the number of blocks, and the size of each. (Another thread's may change meanwhile.)
    fn blocks(&self) -> (usize, usize) {
        self.class().map_or((0, 0), |class| (self.len().min(PLACES), class.size()))
    }

    /// Returns the bytes of the blocks.
    fn bytes(&self) -> usize {
        let (blocks, size) = self.blocks();
        blocks * size
    }

    /// As [`Lists::kept`].
    pub(super) fn kept(&self) -> (usize, usize) {
        let (blocks, size) = self.blocks();
        (blocks, blocks * usable(size))
    }

    /// Returns whether there is room for more blocks of this class.
    fn takes(&self, class: Class, more: usize) -> bool {
        self.is_of(class) && self.len() + more <= PLACES
    }

    /// Gives it another class, or none, if there are no blocks. Call behind the gate.
    fn turn_to(&self, class: Option<Class>) {
        if self.len() == 0 {
            self.class.store(class.map_or(0, |class| class.0), Relaxed);
        }
    }

    /// Sets the number of blocks.
    fn set_len(&self, len: usize) {
        self.low.store(min(self.low.load(Relaxed), len as u32), Relaxed);
        self.len.store(len as u32, Relaxed);
    }
}

impl Lists {
    /// Gives the overflow the class of a list that was full before and is empty now, if there are
    /// no blocks of another.
    pub(super) fn note_dry(&self, class: Class) {
        if class.size() <= ROUNDED && !self.overflow.is_of(class) && self.overflow.len() == 0 {
            self.with(|| self.overflow.turn_to(Some(class)));
        }
    }

    /// Moves the `oldest` oldest blocks of a full list to the overflow; returns whether there was
    /// room for them.
    pub(super) fn overflow_oldest(&self, class: Class, oldest: usize) -> bool {
        let (list, overflow) = (self.list(class), &self.overflow);
        let bytes = overflow.bytes() + oldest * class.size();
        let is_within = self.byte_limit.load(Relaxed) + bytes <= self.budget.load(Relaxed);
        let move_oldest = || {
            // A signal handler may have changed either since the caller looked.
            let fits = overflow.takes(class, oldest) && list.is_of(class) && list.len() >= oldest;
            if fits {
                self.move_to_overflow(list, class, oldest);
                self.note_left(class, oldest);
            }
            fits
        };
        is_within && overflow.takes(class, oldest) && self.with(move_oldest) == Some(true)
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
        if self.overflow.len() > 0 && self.overflow.bytes() > spare {
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
        let overflow = &self.overflow;
        let mut left = match blocks {
            Blocks::Idle => overflow.low.load(Relaxed) as usize,
            Blocks::All => overflow.len(),
        };
        let any = left > 0;
        while left > 0 {
            self.take_back_from_overflow(left).put_back(Upkeep::Never);
            left = left.saturating_sub(ROOM);
        }
        overflow.turn_to(None);
        overflow.low.store(overflow.len.load(Relaxed), Relaxed);
        any
    }
}
