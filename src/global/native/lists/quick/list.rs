//! The head of a quick list: how many blocks it has, takes, and has room for.

use core::cell::Cell;
use core::cmp::Ordering;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, compiler_fence};

use super::waves;
use crate::global::native::base::mode;

/// The head of a quick list. Only its thread changes it. Other threads read `top` for statistics,
/// so no `&mut` to a list may exist: its fields change through shared references.
///
/// The child of a fork, in which the list's thread may not exist, takes over the blocks that are
/// counted. So a block is written before it is counted, and uncounted before it is used. A fork
/// copies the thread's memory as of some point of its program order, so compiler fences suffice to
/// keep that order.
///
/// Invariant: `bottom` ≤ `top` ≤ `last_place` ≤ `bottom` + `capacity`, and `capacity` ≤ `most`, or
/// [`waves::room`] of `most` in [wave places](super::waves), except while the list is being
/// changed. In a dummy list these fields are 0; place 0 never holds a block.
#[derive(Debug)]
#[repr(C)]
pub(super) struct List {
    /// The [place](super::lists::entry) of the block pushed last; `bottom` if the list is empty.
    pub(super) top: AtomicU32,
    /// The largest value that `top` may take until the next slow push: where the list is full, or
    /// [stops](super::ahead) before.
    pub(super) last_place: Cell<u32>,
    /// Size of its blocks in bytes.
    pub(super) size: u16,
    /// Size class of its blocks.
    pub(super) class: u16,
    /// Number of blocks that the list takes, unless they come and go in [waves].
    pub(super) most: u16,
    /// Batches taken from or put back to heaps since the list was made or last widened; saturates.
    batches: Cell<u8>,
    /// Length of the current run of batches in one direction: positive if they were taken, negative
    /// if put back.
    streak: Cell<i8>,
    /// [Waves](super::waves) since the list was made or emptied; saturates.
    waves: Cell<u8>,
    /// Number of blocks that the list takes at present.
    capacity: Cell<u16>,
    /// The place before that of the first block. It holds null, which a pop from an empty list
    /// reads. Changes only while the list is [shut](Self::shut).
    bottom: AtomicU32,
}

/// The most blocks that a list takes at first, so that threads that do little keep little. In
/// hardened mode a list begins with [`RAMP`] blocks, as there must be some to choose from.
const FIRST: u32 = 4;

/// The most bytes of these blocks, unless it is one block.
const FIRST_BYTES: u32 = 1 << 10;

/// Blocks up to which each batch doubles a list's capacity: larger batches cost less per block.
const RAMP: u32 = 64;

/// Batches after which the capacity doubles from there on, up to the list's room.
const WIDEN: u8 = 8;

/// Batches in the same direction after which the next ones are larger.
const STREAK: i8 = 2;

/// Batches put back in a row after which the thread counts as freeing something large: by default
/// hundreds of kilobytes.
const LONG: i8 = 8;

/// A long streak of frees: batches that were put back in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongStreak {
    /// There are [`LONG`].
    Begins,
    /// There are more.
    GoesOn,
}

impl List {
    /// Returns the place before that of the first block.
    #[inline(always)]
    pub(super) fn bottom(&self) -> u32 {
        self.bottom.load(Relaxed)
    }

    /// Moves a list that is empty and [shut](Self::shut) to the places behind `bottom`, which is
    /// above its places so far; it stays empty and shut.
    pub(super) fn move_to(&self, bottom: u32) {
        self.bottom.store(bottom, Relaxed);
        compiler_fence(Release);
        self.set_count(0);
        compiler_fence(Release);
        self.last_place.set(bottom);
    }

    /// Returns the number of blocks on the list.
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        self.top.load(Relaxed).saturating_sub(self.bottom())
    }

    /// Sets the number of blocks on the list to `count`.
    #[inline(always)]
    pub(super) fn set_count(&self, count: u32) {
        self.top.store(self.bottom() + count, Relaxed);
    }

    /// Returns the number of blocks that the list takes at present.
    #[inline(always)]
    pub(super) fn capacity(&self) -> u32 {
        self.capacity.get().into()
    }

    pub(super) fn set_capacity(&self, capacity: u32) {
        debug_assert!(capacity <= u16::MAX.into());
        self.capacity.set(capacity as u16);
        // A fork must not find a list that takes blocks, but has no capacity.
        compiler_fence(Release);
        self.last_place.set(self.bottom() + capacity);
    }

    /// Lets the list take `more` blocks before it stops; with `None`, as many as it has room for.
    pub(super) fn stop_after(&self, more: Option<u32>) {
        let room = self.capacity();
        let stop = more.map_or(room, |more| room.min(self.count() + more));
        self.last_place.set(self.bottom() + stop);
    }

    /// Shuts the list while blocks go to or from its places: until it is [opened](Self::open),
    /// nothing can be pushed or popped. A system call in between may be an interposed function that
    /// allocates.
    pub(super) fn shut(&self) {
        self.set_count(0);
        compiler_fence(Release);
        self.set_capacity(0);
    }

    /// Opens the list again, with `count` blocks in its places.
    pub(super) fn open(&self, capacity: u32, count: u32) {
        self.set_capacity(capacity);
        compiler_fence(Release);
        self.set_count(count);
    }

    /// Returns whether the list is shut.
    pub(super) fn is_shut(&self) -> bool {
        self.last_place.get() <= self.bottom() && self.most > 0
    }

    /// Returns whether the last [`STREAK`] batches were taken, on a [wide](Self::is_wide) list.
    /// Then it should take larger ones: a thread that only takes blocks of a class usually goes on
    /// for a while.
    pub(super) fn goes_on_taking(&self) -> bool {
        self.streak.get() >= STREAK && self.is_wide()
    }

    /// Notes that a batch was taken.
    pub(super) fn note_batch_taken(&self) {
        if self.streak.get() <= -waves::BATCHES {
            self.waves.set(self.waves.get().saturating_add(1));
        }
        self.streak.set(self.streak.get().max(0).saturating_add(1));
    }

    /// Notes that a batch is put back; returns whether the last [`STREAK`] batches were put back
    /// too, on a [wide](Self::is_wide) list. Then more should go back at once.
    pub(super) fn note_batch_put_back(&self) -> bool {
        let streak = self.streak.get().min(0);
        self.streak.set(streak.saturating_sub(1));
        streak <= -STREAK && self.is_wide()
    }

    /// Returns whether the last [`LONG`] batches, or more, were put back.
    pub(super) fn long_streak_of_frees(&self) -> Option<LongStreak> {
        match self.streak.get().cmp(&-LONG) {
            Ordering::Equal => Some(LongStreak::Begins),
            Ordering::Less => Some(LongStreak::GoesOn),
            Ordering::Greater => None,
        }
    }

    /// Returns whether the list takes all that is usual, or more than at first.
    fn is_wide(&self) -> bool {
        self.capacity() > RAMP || self.capacity() == u32::from(self.most)
    }

    /// Counts a batch. If the list is to be widened, [counts](waves::reserve) the bytes that it may
    /// take beyond the usual, and returns its new capacity.
    pub(super) fn count_batch(&self) -> Option<u32> {
        self.batches.set(self.batches.get().saturating_add(1));
        let most = u32::from(self.most);
        let limit = if self.waves.get() < waves::WAVES { most } else { waves::room(most) };
        let capacity = (2 * self.capacity()).min(limit);
        let is_due = self.capacity() < RAMP || self.batches.get() >= WIDEN;
        if !is_due
            || capacity <= self.capacity()
            || !waves::reserve(self.extra(capacity) - self.extra(self.capacity()))
        {
            return None;
        }
        self.batches.set(0);
        Some(capacity)
    }

    /// Returns the bytes of the blocks that a capacity has beyond the usual one.
    fn extra(&self, capacity: u32) -> usize {
        capacity.saturating_sub(self.most.into()) as usize * usize::from(self.size)
    }

    /// Lowers the capacity to that of a new list.
    pub(super) fn narrow(&self) {
        waves::release(self.extra(self.capacity()));
        let few = (FIRST_BYTES / u32::from(self.size)).clamp(1, FIRST);
        let first = if mode::is_hardened() { RAMP } else { few };
        self.set_capacity(first.min(self.most.into()));
        self.batches.set(0);
        self.streak.set(0);
        self.waves.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an empty list that takes `capacity` blocks at present, and has room for `most`.
    fn list(capacity: u32, most: u16) -> List {
        const BOTTOM: u32 = 1000;
        List {
            top: AtomicU32::new(BOTTOM),
            last_place: Cell::new(BOTTOM + capacity),
            size: 16,
            class: 0,
            most,
            batches: Cell::new(0),
            streak: Cell::new(0),
            waves: Cell::new(0),
            capacity: Cell::new(capacity as u16),
            bottom: AtomicU32::new(BOTTOM),
        }
    }

    fn widen(list: &List) -> bool {
        let wider = list.count_batch();
        wider.inspect(|&capacity| list.set_capacity(capacity)).is_some()
    }

    /// Takes a batch; returns whether it was to be a larger one.
    fn takes_more(list: &List) -> bool {
        let goes_on = list.goes_on_taking();
        list.note_batch_taken();
        goes_on
    }

    /// Nothing fits on a list that is shut, and nothing is on it. Lists without room are never
    /// shut.
    #[test]
    fn a_list_that_is_shut_is_empty_and_full() {
        let list = list(64, 256);
        list.set_count(20);
        assert!(!list.is_shut());
        list.shut();
        assert_eq!((list.count(), list.capacity(), list.is_shut()), (0, 0, true));
        list.open(128, 30);
        assert_eq!((list.count(), list.capacity(), list.is_shut()), (30, 128, false));
        assert!(!self::list(0, 0).is_shut());
    }

    /// A list's capacity doubles with each batch up to 64 blocks, then after eight batches, up to
    /// its room; a list that was emptied begins anew.
    #[test]
    fn a_list_is_widened_by_batches() {
        for most in [2, 63, 64, 65, 100, 256] {
            let list = list(2, most);
            list.set_count(1);
            for _ in 0..2 {
                list.narrow();
                assert!(!takes_more(&list) && !list.note_batch_put_back());
                let mut capacity = FIRST.min(most.into());
                for _ in 0..40 {
                    assert_eq!(list.capacity(), capacity);
                    let last = if capacity < RAMP { 1 } else { WIDEN };
                    for batch in 1..=last {
                        let wider = batch == last && capacity < most.into();
                        assert_eq!(widen(&list), wider, "{capacity} of {most}");
                    }
                    capacity = (2 * capacity).min(most.into());
                }
                assert_eq!((list.capacity(), list.count()), (most.into(), 1));
                (0..3).for_each(|_| list.note_batch_taken());
            }
        }
    }

    /// A list takes four times as many blocks as usual after two waves: batches put back, two at
    /// least, and then one taken.
    #[test]
    fn a_list_takes_more_after_two_waves() {
        let list = list(256, 256);
        let batches = |count| (0..count).filter(|_| widen(&list)).count();
        let wave = |put_back| {
            (0..put_back).for_each(|_| _ = list.note_batch_put_back());
            (0..5).for_each(|_| list.note_batch_taken());
            batches(30)
        };
        assert_eq!([1, 1, 1, 2].map(wave), [0; 4]);
        assert_eq!(wave(3), 2);
        assert_eq!((list.capacity(), wave(2)), (1024, 0));
        list.narrow();
        assert_eq!(batches(100), 6, "4 to 256 blocks again, {}", list.capacity());

        for (most, room) in [(2, 32), (3, 48), (4, 64), (15, 64), (16, 64), (17, 68)] {
            let list = self::list(most, most as u16);
            (0..=waves::WAVES).for_each(|_| {
                (0..waves::BATCHES).for_each(|_| _ = list.note_batch_put_back());
                list.note_batch_taken();
            });
            (0..100).for_each(|_| _ = widen(&list));
            assert_eq!(list.capacity(), room, "{most}");
        }
    }

    /// A list stops before it is full, or does not, and has room for as many blocks.
    #[test]
    fn a_list_stops_on_the_way() {
        let list = list(64, 256);
        list.set_count(20);
        for (more, stop) in [(Some(0), 20), (Some(30), 50), (Some(50), 64), (None, 64)] {
            list.stop_after(more);
            assert_eq!((list.last_place.get() - list.bottom(), list.capacity()), (stop, 64));
        }
    }

    /// A streak of frees is long from the eighth batch on.
    #[test]
    fn many_batches_make_a_long_streak() {
        let list = list(64, 256);
        for _ in 0..2 {
            let put_back = || {
                list.note_batch_put_back();
                list.long_streak_of_frees()
            };
            assert_eq!([(); 7].map(|()| put_back()), [None; 7]);
            assert_eq!(put_back(), Some(LongStreak::Begins));
            assert_eq!([(); 200].map(|()| put_back()), [Some(LongStreak::GoesOn); 200]);
            list.note_batch_taken();
            assert_eq!(list.long_streak_of_frees(), None);
        }
    }

    /// Wherever a fork finds a list on its way to other places, it is shut, or whole: no push goes
    /// to its former places. (Regression: shut no longer, it still had its last block there.)
    #[test]
    fn a_fork_finds_a_moving_list_shut_or_whole() {
        let list = list(256, 256);
        list.set_count(100);
        list.shut();
        list.bottom.store(5000, Relaxed);
        assert!(list.is_shut());
        list.move_to(5000);
        list.capacity.set(512);
        assert!(list.is_shut());
        list.set_capacity(512);
        let (top, bottom) = (list.top.load(Relaxed), list.bottom());
        assert!(!list.is_shut() && bottom <= top && top <= list.last_place.get());
        list.open(512, 100);
        assert_eq!((list.count(), list.last_place.get()), (100, 5512));
    }

    /// A list on its way to other places is empty and shut.
    #[test]
    fn a_list_that_moves_is_empty_and_full() {
        let list = list(256, 256);
        list.set_count(100);
        list.shut();
        list.move_to(5000);
        assert_eq!((list.count(), list.capacity(), list.is_shut()), (0, 0, true));
        assert_eq!(list.top.load(Relaxed), list.last_place.get(), "a push fails");
        list.open(512, 100);
        assert_eq!((list.count(), list.capacity(), list.bottom()), (100, 512, 5000));
    }

    /// A list takes few blocks at first, of large blocks fewer.
    #[test]
    fn a_list_begins_with_few_blocks() {
        let first = [(16, 4), (256, 4), (272, 3), (512, 2), (1024, 1), (16 << 10, 1)];
        for (size, first) in first {
            let list = List { size, ..list(64, 256) };
            list.narrow();
            assert_eq!(list.capacity(), first, "{size}");
        }
    }

    /// The third batch in the same direction is larger, on a list that takes more than at first.
    #[test]
    fn batches_that_go_the_same_way_are_larger() {
        for (list, is_wide) in [(list(64, 256), false), (list(128, 256), true), (list(8, 8), true)]
        {
            for _ in 0..2 {
                let taken = [(); 4].map(|()| takes_more(&list));
                assert_eq!(taken, [false, false, is_wide, is_wide]);
                assert_eq!([(); 3].map(|()| list.note_batch_put_back()), [false, false, is_wide]);
            }
            for _ in 0..300 {
                assert!(!takes_more(&list) && !list.note_batch_put_back());
            }
            let last = (0..300).map(|_| takes_more(&list)).last();
            assert_eq!(last, Some(is_wide), "it is counted to the end");
        }
    }
}
