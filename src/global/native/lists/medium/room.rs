//! How much room a thread's lists of medium blocks have: which they keep, and which give way.

use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;

use super::budget::{budget_of_thread, share_of_heap};
use super::class::{Class, LISTS, ROUNDED};
use super::list::ROOM;
use super::lists::Lists;
use crate::global::native::heaps::background;

/// The most bytes that a thread's lists may hold beyond its share of its heap's bytes in use, since
/// blocks that they turned away were [wanted](Lists::note_miss) again.
pub(super) const MORE: usize = 2 << 20;

impl Lists {
    /// Makes room for a block of this class; returns whether its list should keep it. Only for the
    /// lists' own thread.
    #[inline(never)]
    pub(super) fn make_room(&self, class: Class) -> bool {
        let (list, size) = (self.list(class), class.size());
        let is_limit_known = self.byte_limit.load(Relaxed) > 0;
        let takes_none = || list.has_no_room() || !list.is_of(class);
        // A short way for sizes that are not requested again and again.
        if is_limit_known && size > ROUNDED && takes_none() {
            self.count_turned_away(class, 1);
            return false;
        }
        if !is_limit_known {
            background::note_due();
            self.budget.store(budget_of_thread(), Relaxed);
        }
        let limit = share_of_heap() + self.more.load(Relaxed);
        // The overflow counts against the budget, too; a limit of 0 would be an unknown one.
        let budget = self.budget.load(Relaxed).saturating_sub(self.overflow.bytes());
        let limit = limit.min(budget.max(1));
        let Some(()) = self.with(|| self.change_byte_limit(limit)) else { return false };
        let is_full = || self.left.load(Relaxed) < class.steps().cast_signed();
        // No others give way to a block above the sizes that are rounded up.
        let is_refused = size > limit || size > ROUNDED && is_full();
        if is_refused || takes_none() {
            self.count_turned_away(class, 1);
            return false;
        }
        if list.len() == ROOM {
            self.put_back_oldest(class);
        }
        if is_full() {
            match self.next_to_give_way(class) {
                Some(turn) => self.put_back(turn, self.list(turn).len().div_ceil(2)),
                None => {
                    let oldest = self.put_back_oldest(class);
                    self.count_turned_away(class, oldest);
                }
            }
        }
        true
    }

    /// Moves the oldest quarter of a full list to the overflow, or puts it back to its heap. Returns
    /// how many blocks went back.
    fn put_back_oldest(&self, class: Class) -> u16 {
        let list = self.list(class);
        let oldest = list.len().div_ceil(4);
        if self.overflow_oldest(class, oldest) {
            return 0;
        }
        add(&list.overflown, oldest as u16);
        self.put_back(class, oldest);
        oldest as u16
    }

    /// Returns the class of the next list but this class's that has blocks. Lists take turns at
    /// giving way, so that they hold sizes that are being freed at present.
    fn next_to_give_way(&self, class: Class) -> Option<Class> {
        let turn = self.turn.load(Relaxed) as usize;
        let mut others = (turn..LISTS).chain(0..turn).filter(|&other| other != class.list());
        let next = others.find(|&other| self.lists[other].len() != 0)?;
        self.turn.store((next + 1) as u32 % LISTS as u32, Relaxed);
        Some(self.class_of_list(next))
    }

    /// Counts freed blocks of a class that are turned away because its list has too little room as
    /// yet, or give way to another one because the lists may not hold more bytes.
    pub(super) fn count_turned_away(&self, class: Class, blocks: u16) {
        add(&self.turned_away[class.list()], blocks);
        if class.size() > ROUNDED {
            self.last_turned_away.store(class.0, Relaxed);
        }
    }

    /// Notes that a block was wanted and its list, which has this class or none, was empty. If a
    /// block was turned away before, gives the list more room, or all lists as many more bytes.
    /// Above [`ROUNDED`] that must have been the last block that was turned away: arrays that grow
    /// by doubling, again and again, are not kept.
    pub(super) fn note_miss(&self, class: Class) {
        let (list, turned_away) = (self.list(class), &self.turned_away[class.list()]);
        if !list.is_of(class) {
            self.turn_to(class);
        }
        if list.overflown.load(Relaxed) > 0 {
            self.note_dry(class);
        }
        self.note_taken(class, 1);
        if class.size() > ROUNDED && class.0 != self.last_turned_away.load(Relaxed) {
            return;
        }
        let Some(left) = turned_away.load(Relaxed).checked_sub(1) else { return };
        turned_away.store(left, Relaxed);
        let room = list.room.load(Relaxed);
        if room < ROOM as u16 {
            list.room.store((2 * room).clamp(1, ROOM as u16), Relaxed);
        } else {
            let more = self.more.load(Relaxed) + class.size();
            self.more.store(more.min(MORE), Relaxed);
        }
    }

    /// Turns a list to this class if it has neither room nor blocks. Otherwise first [takes half of
    /// its room](Self::give_up_room).
    pub(super) fn turn_to(&self, class: Class) {
        let list = self.list(class);
        // A visit, or one that was under way, may have left blocks on a list without room.
        if list.room.load(Relaxed) > 0 || list.len() > 0 {
            self.give_up_room(class);
        }
        self.with(|| {
            if list.room.load(Relaxed) == 0 && list.len() == 0 {
                list.set_len_of(class, 0);
            }
        });
    }

    /// Halves the room of the list of this class for another one, unless its own is in use. If no
    /// room is left, puts its blocks back.
    #[cold]
    fn give_up_room(&self, class: Class) {
        let list = self.list(class);
        if list.room.load(Relaxed) > 0 && self.with(|| list.note_other()) == Some(true) {
            return;
        }
        let room = list.room.load(Relaxed) / 2;
        list.room.store(room, Relaxed);
        if room == 0 {
            self.put_back(self.class_of_list(class.list()), ROOM);
            list.overflown.store(0, Relaxed);
        }
    }

    /// Returns how many blocks the list of this class should take from the heap beside the one
    /// requested: as many as went back when it was full, but no more than it has room for, than the
    /// byte limit leaves, and than `most` of its size.
    pub(super) fn wanted(&self, class: Class, most: impl FnOnce(usize) -> usize) -> usize {
        let list = self.list(class);
        let overflown = list.overflown.load(Relaxed).saturating_sub(1);
        if overflown == 0 || !list.is_of(class) {
            return 0;
        }
        let left = self.left.load(Relaxed).max(0).cast_unsigned() / class.steps();
        let wanted = overflown.min(list.room.load(Relaxed));
        left.min(most(class.size())).min(wanted.into())
    }

    /// Notes that `blocks` blocks of a class came from the heap.
    pub(super) fn note_taken(&self, class: Class, blocks: u16) {
        let overflown = &self.list(class).overflown;
        overflown.store(overflown.load(Relaxed).saturating_sub(blocks), Relaxed);
    }

    /// Takes all room away from a list that was not used for a while, and all bytes beyond the
    /// thread's share.
    pub(super) fn remove_room(&self, class: Class) {
        self.more.store(0, Relaxed);
        self.list(class).room.store(0, Relaxed);
        self.list(class).overflown.store(0, Relaxed);
        self.turned_away[class.list()].store(0, Relaxed);
    }
}

/// Adds to a number, or makes it the largest that there is. Only the calling thread changes it.
fn add(number: &AtomicU16, more: u16) {
    number.store(number.load(Relaxed).saturating_add(more), Relaxed);
}
