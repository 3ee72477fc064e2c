//! A thread's lists of medium blocks, behind its [gate](crate::global::native::base::gate).

use core::iter;
use core::ops::Add;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{
    AtomicIsize, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, compiler_fence,
};

use super::super::listed::Listed;
use super::super::quick;
use super::class::{Class, LISTS, ROUNDED, STEP, mark};
use super::list::{List, ROOM, block_of, fence, mark_in_use};
use super::overflow::{Overflow, PLACES};
use crate::global::native::base::gate::Gate;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::memory::slot::Slot;
use crate::pages::PageHeap;

/// How many next larger classes are tried if the list of a class is empty. Their blocks are longer
/// than those of the class by a quarter at most; a request to the heap takes several times as long.
const LARGER: usize = 2;

/// A thread's medium lists; all zeros is a valid value. Only the thread that is behind the gate
/// changes them: their own, or a visitor. Other threads read them for statistics, and to see
/// whether a visit is worth while.
///
/// The child of a fork takes over the blocks that are counted. So a block is written before it is
/// counted, and uncounted before it is used. (A fork copies the thread's memory as of some point of
/// its program order, which compiler fences keep.)
#[derive(Debug)]
#[repr(C)]
pub(in crate::global::native) struct Lists {
    pub(super) gate: Gate,
    /// What the lists can still take, in [`STEP`]s of bytes; negative while the limit is unknown.
    pub(super) left: AtomicIsize,
    /// Bytes that the lists may hold in total; 0 while the limit is unknown.
    pub(super) byte_limit: AtomicUsize,
    /// Bytes of the blocks when the limit was last set; while `byte_limit` is 0, at least the bytes
    /// of the blocks.
    bytes: AtomicUsize,
    /// The thread's budget in bytes, as it was when last determined.
    pub(super) budget: AtomicUsize,
    /// Bytes that the lists may hold beyond the thread's share.
    pub(super) more: AtomicUsize,
    /// The list that next puts blocks back when the lists are over the limit.
    pub(super) turn: AtomicU32,
    /// Blocks of one class that its list has no place for; the lists' limit does not count them.
    pub(super) overflow: Overflow,
    pub(super) lists: [List; LISTS],
    /// For each list, the blocks that were turned away for want of room, less those wanted since.
    pub(super) turned_away: [AtomicU16; LISTS],
    /// The class above [`ROUNDED`] of the block that was last turned away.
    pub(super) last_turned_away: AtomicU32,
    /// The overflow's blocks; those that came last are at the end.
    pub(super) places: [AtomicPtr<u8>; PLACES],
}

/// Which blocks a visit puts back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Blocks {
    /// The blocks that were on their lists at the last visit already.
    Idle,
    /// All blocks.
    All,
}

const _: () = assert!(size_of::<Lists>() <= quick::MEDIUM && align_of::<Lists>() <= 16);

/// Returns the usable bytes of a block of `size` bytes, the size of a class.
pub(in crate::global::native) fn usable(size: usize) -> usize {
    PageHeap::<Slot>::tagged_size_for(size)
}

impl Lists {
    #[inline(always)]
    pub(super) fn list(&self, class: Class) -> &List {
        // SAFETY: there is a list for each class.
        unsafe { self.lists.get_unchecked(class.list()) }
    }

    /// Returns each list with the class of its blocks.
    pub(super) fn of_classes(&self) -> impl Iterator<Item = (Class, &List)> {
        let with_class = |(number, list): (usize, _)| (self.class_of_list(number), list);
        self.lists.iter().enumerate().map(with_class)
    }

    /// Returns the class of a list's blocks.
    pub(super) fn class_of_list(&self, number: usize) -> Class {
        Class::of_list(number, self.lists[number].steps())
    }

    /// Makes the calling thread the lists' owner.
    pub(in super::super) fn set_owner(&self) {
        self.gate.set_owner();
    }

    /// Runs `action` behind the gate; `None` if a visitor is there. Only for the lists' own thread.
    pub(super) fn with<R>(&self, action: impl FnOnce() -> R) -> Option<R> {
        // A biased gate takes no barrier.
        (self.gate.enter_biased() || self.gate.enter()).then(|| {
            let result = action();
            self.gate.leave();
            result
        })
    }

    /// Takes the block of a class that was freed last, if there is one, the gate is biased, and
    /// `count_pop` returns true. Only for the lists' own thread.
    #[inline(always)]
    pub(super) fn pop(
        &self,
        class: Class,
        count_pop: impl FnOnce() -> bool,
    ) -> Option<NonNull<u8>> {
        let block = self.with_biased(|lists| lists.pop_within(class, count_pop)).flatten();
        // SAFETY: the block was just taken off the list of this class.
        block.inspect(|block| unsafe { mark_in_use(*block, class) })
    }

    /// As [`pop`](Self::pop), behind the gate; the block's mark still says that it is kept.
    #[inline(always)]
    fn pop_within(&self, class: Class, count_pop: impl FnOnce() -> bool) -> Option<NonNull<u8>> {
        let list = self.list(class);
        let left = list.len_of(class).wrapping_sub(1);
        if left >= ROOM || !count_pop() {
            return None;
        }
        list.set_len_of(class, left);
        compiler_fence(Release);
        self.note_left(class, 1);
        // SAFETY: by the invariant `left` is a valid index, and all counted entries are blocks.
        unsafe {
            let entry = list.entries.get_unchecked(left).load(Relaxed);
            Some(NonNull::new_unchecked(block_of(entry)))
        }
    }

    /// As [`pop`](Self::pop), also if the gate is not biased. If the list is empty, fills it from
    /// the overflow; if it still is, takes a block of the next larger class that has one, among the
    /// next [`LARGER`].
    pub(super) fn pop_slowly(&self, class: Class) -> Option<NonNull<u8>> {
        let mut classes = iter::successors(Some(class), |class| class.next());
        let mut pop = |class| {
            if self.list(class).len_of(class) == 0 && self.overflow.has(class) {
                self.return_overflow(class);
            }
            Some((self.pop_within(class, || true)?, class))
        };
        let popped = self.with(|| classes.by_ref().take(1 + LARGER).find_map(&mut pop)).flatten();
        // SAFETY: the block was just taken off the list of this class.
        popped
            .inspect(|(block, class)| unsafe { mark_in_use(*block, *class) })
            .map(|(block, _)| block)
    }

    /// Returns whether [`pop_slowly`](Self::pop_slowly) may find a block for a request of this
    /// class.
    #[inline]
    pub(super) fn may_serve(&self, class: Class) -> bool {
        let list = self.list(class);
        class.size() <= ROUNDED || (1..=ROOM).contains(&list.len_of(class))
    }

    /// Takes the block of a class that was freed last among those that are aligned to `align`.
    pub(super) fn pop_aligned(&self, class: Class, align: usize) -> Option<NonNull<u8>> {
        let pop = || {
            let list = self.list(class);
            let entries = list.entries.get(..list.len_of(class))?;
            let is_aligned =
                |entry: &AtomicPtr<u8>| block_of(entry.load(Relaxed)).addr().is_multiple_of(align);
            let number = entries.iter().rposition(is_aligned)?;
            let block = block_of(entries[number].load(Relaxed));
            // Uncount before use. (This uncounts the last entry, so a child that is forked now may
            // lack that block.)
            list.set_len_of(class, entries.len() - 1);
            compiler_fence(Release);
            for (entry, next) in entries[number..].iter().zip(&entries[number + 1..]) {
                entry.store(next.load(Relaxed), Relaxed);
            }
            compiler_fence(Release);
            self.note_left(class, 1);
            NonNull::new(block)
        };
        // SAFETY: the block was just taken off the list of this class.
        self.with(pop).flatten().inspect(|block| unsafe { mark_in_use(*block, class) })
    }

    /// Runs `action` behind the gate, if the gate is biased. Only for the lists' own thread.
    #[inline(always)]
    pub(super) fn with_biased<R>(&self, action: impl FnOnce(&Self) -> R) -> Option<R> {
        self.gate.enter_biased().then(|| {
            let result = action(self);
            self.gate.leave();
            result
        })
    }

    /// Puts a block on its list, if there is room. Call behind the gate.
    ///
    /// # Safety
    /// The block is in use, the caller's, and of this class. `mark` is its mark, and says so.
    #[inline(always)]
    pub(super) unsafe fn push_within(
        &self,
        class: Class,
        block: NonNull<u8>,
        mark: &AtomicU32,
    ) -> bool {
        let list = self.list(class);
        let len = list.len_of(class);
        if len >= list.room.load(Relaxed).into() {
            return false;
        }
        let left = self.left.load(Relaxed).wrapping_sub(class.steps() as isize);
        if left < 0 {
            return false;
        }
        self.left.store(left, Relaxed);
        // SAFETY: the caller owns the block, which is longer than two words and aligned to 16. By
        // the invariant `len` is a valid index.
        unsafe {
            block.cast::<[usize; 2]>().write(fence(block.as_ptr()));
            list.entries.get_unchecked(len).store(block.as_ptr(), Relaxed);
        }
        mark.store(mark::in_use(block.as_ptr(), class.0) | mark::KEPT, Relaxed);
        compiler_fence(Release);
        list.set_len_of(class, len + 1);
        true
    }

    /// As [`push_within`](Self::push_within), but makes room first if needed; the gate need not be
    /// biased. Call outside the gate.
    ///
    /// # Safety
    /// As for [`push_within`](Self::push_within).
    pub(super) unsafe fn push_slowly(
        &self,
        class: Class,
        block: NonNull<u8>,
        mark: &AtomicU32,
    ) -> bool {
        // SAFETY: the caller gives the guarantees that `push_within` asks for.
        self.make_room(class)
            && self.with(|| unsafe { self.push_within(class, block, mark) }) == Some(true)
    }

    /// Puts the `oldest` oldest blocks of the list of this class back to their heaps; does nothing
    /// while a visitor is there. Only for the lists' own thread.
    pub(super) fn put_back(&self, class: Class, oldest: usize) {
        let list = self.list(class);
        let take = || {
            // A signal handler may have turned the list since the caller looked.
            if !list.is_of(class) {
                return None;
            }
            let before = list.len();
            let taken = list.take(class, |number, _| number < oldest);
            self.note_left(class, before - list.len());
            Some(taken)
        };
        if list.len() != 0
            && let Some(taken) = self.with(take).flatten()
        {
            taken.put_back(Upkeep::IfDue);
        }
    }

    /// Notes that blocks of a class left its list. Call behind the gate.
    #[inline(always)]
    pub(super) fn note_left(&self, class: Class, blocks: usize) {
        let steps = (blocks * class.steps()).cast_signed();
        self.left.store(self.left.load(Relaxed).wrapping_add(steps), Relaxed);
    }

    /// Puts all blocks back to their heaps. Does nothing while a visitor is there; later visits put
    /// back what remains. Only for the lists' own thread, or when that no longer exists.
    pub(in crate::global::native) fn put_back_all(&self) {
        if self.is_used() {
            self.of_classes().for_each(|(class, _)| self.put_back(class, ROOM));
            self.put_overflow_back();
        }
    }

    /// Returns whether there may be blocks to put back.
    pub(in super::super) fn is_used(&self) -> bool {
        let may_have = self.byte_limit.load(Relaxed) > 0 || self.bytes.load(Relaxed) > 0;
        may_have || self.overflow.len() > 0
    }

    /// Puts these blocks back; returns whether there were any. Call behind the gate.
    pub(super) fn put_back_at_visit(&self, blocks: Blocks) -> bool {
        let mut any = false;
        for (class, list) in self.of_classes() {
            if list.len() == 0 {
                continue;
            }
            let taken = list.take(class, |_, entry| {
                let found = entry.load(Relaxed);
                let was_there = block_of(found) != found;
                entry.store(found.map_addr(|address| address | 1), Relaxed);
                was_there || blocks == Blocks::All
            });
            if taken.count != 0 {
                self.remove_room(class);
                any = true;
            }
            taken.put_back(Upkeep::Never);
        }
        any |= self.put_overflow_back_at_visit(blocks);
        // The next free then takes the slow path, which determines the limit anew and tells the
        // background thread.
        self.set_byte_limit(0);
        any
    }

    /// Returns the bytes of all blocks on the lists.
    pub(super) fn bytes(&self) -> usize {
        self.of_classes().map(|(class, list)| list.len() * class.size()).sum()
    }

    /// Sets the limit of the lists to `limit` bytes; 0: unknown, and they take no blocks until it
    /// is set. Call behind the gate.
    pub(super) fn set_byte_limit(&self, limit: usize) {
        let bytes = self.bytes();
        let left = limit.cast_signed() - bytes.cast_signed();
        let left = if limit > 0 { left / STEP as isize } else { isize::MIN / 2 };
        self.left.store(left, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.byte_limit.store(limit, Relaxed);
    }

    /// As [`set_byte_limit`](Self::set_byte_limit), for a limit above 0, but adds up the blocks
    /// only if no limit is known.
    pub(super) fn change_byte_limit(&self, limit: usize) {
        match self.byte_limit.load(Relaxed) {
            0 => self.set_byte_limit(limit),
            known => {
                let more = (limit / STEP).cast_signed() - (known / STEP).cast_signed();
                self.left.store(self.left.load(Relaxed) + more, Relaxed);
                self.byte_limit.store(limit, Relaxed);
            }
        }
    }

    /// In the child of a fork: forgets a visitor that stayed behind; returns whether there was one.
    /// Then the owner should [recount](Self::recount).
    pub(in super::super) fn forget_visitor(&self) -> bool {
        self.gate.forget_visitor()
    }

    /// In the child of a fork: forgets an owner, and a visitor, that stayed behind, and
    /// [recounts](Self::recount). The caller is the owner from now on.
    pub(in super::super) fn forget_owner(&self) {
        self.gate.forget_owner();
        self.recount();
    }

    /// Counts the bytes anew, after a thread stayed behind that may have been changing the lists.
    pub(in super::super) fn recount(&self) {
        let _ = self.with(|| self.set_byte_limit(self.byte_limit.load(Relaxed)));
    }

    /// Returns what is on the lists and in the overflow, which may be another thread's. The bytes
    /// are those that the heap counts.
    pub(in crate::global::native) fn kept(&self) -> Listed {
        // The memory of lists that were never used is not touched.
        if !self.is_used() {
            return Listed::default();
        }
        let on_list = |(class, list): (Class, &List)| {
            Listed::of_size(list.len().min(ROOM), usable(class.size()))
        };
        let (blocks, size) = self.overflow.blocks();
        let overflow = Listed::of_size(blocks, usable(size));
        self.of_classes().map(on_list).fold(overflow, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::LEAST;
    use super::*;

    /// The room under a limit is counted in steps; while the limit is unknown, the lists take
    /// nothing.
    #[test]
    fn a_limit_is_counted_in_steps() {
        // SAFETY: all zeros is a valid value.
        let lists: Box<Lists> = unsafe { Box::new(core::mem::zeroed()) };
        for limit in [STEP - 1, STEP, 5 * STEP + 7, LEAST] {
            lists.set_byte_limit(limit);
            assert_eq!(lists.left.load(Relaxed), (limit / STEP).cast_signed(), "{limit}");
            assert_eq!(lists.byte_limit.load(Relaxed), limit);
        }
        for limit in [3 * STEP + 1, 1, LEAST, LEAST - 1] {
            lists.change_byte_limit(limit);
            assert_eq!(lists.left.load(Relaxed), (limit / STEP).cast_signed(), "{limit}");
            assert_eq!(lists.byte_limit.load(Relaxed), limit);
        }
        lists.set_byte_limit(0);
        assert!(lists.left.load(Relaxed) < -(1 << 24) && !lists.is_used());
        lists.change_byte_limit(LEAST);
        assert_eq!(lists.left.load(Relaxed), (LEAST / STEP).cast_signed(), "none was known");
    }
}
