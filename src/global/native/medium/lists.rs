//! A thread's lists of medium blocks, behind its [gate](super::super::gate).

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{
    AtomicIsize, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, compiler_fence,
};

use super::super::fault::{self, Fault};
use super::super::gate::Gate;
use super::super::heap::Heap;
use super::super::space::{SPACE, Slot};
use super::super::{background, current, heaps, quick};
use super::class::{CLASSES, Class, STEP, mark};
use crate::pages::PageHeap;

/// Blocks that a list takes at most.
pub(super) const ROOM: usize = 15;

/// Bytes on the lists of all threads, and of one, at most; and, where that is less, a share of what the thread's heap has
/// in use, but so many bytes at least.
const ALL: usize = 64 << 20;
const OF_THREAD: usize = 16 << 20;
const SHARE: usize = 4;
pub(super) const LEAST: usize = 1 << 20;

/// A thread's lists; all zeros is a value. Whoever is behind the gate changes them, its thread or a visitor. Others read
/// them, for statistics, and to see whether it is worth while to come in.
///
/// The child of a fork takes what is counted: so a block is written before it is counted, and uncounted before it is used.
/// (What is forked is what a thread had written up to some point of its program; the compiler keeps that order.)
#[derive(Debug)]
#[repr(C)]
pub(in super::super) struct Lists {
    pub(super) gate: Gate,
    /// Steps of sizes that the lists take at present beside what is there; below 0 where that is to be found out.
    left: AtomicIsize,
    /// Bytes that the lists take at present, of the blocks that are there, too.
    pub(super) limit: AtomicUsize,
    /// No less than the bytes of the blocks where the limit is 0.
    bytes: AtomicUsize,
    /// The most they may ever take, as it was when that was last found out.
    pub(super) most: AtomicUsize,
    /// The class that gives blocks back next where there are too many bytes.
    turn: AtomicU32,
    pub(super) lists: [List; CLASSES],
    /// For each list, the blocks turned away for want of room, and not wanted again since.
    turned_away: [AtomicU16; CLASSES],
}

/// A list: the blocks freed last come last. The lowest bit of an entry says that it was
/// [there before](Lists::put_back_idle).
///
/// Invariant: `count` and `room` are at most [`ROOM`].
#[derive(Debug)]
#[repr(C)]
pub(super) struct List {
    count: AtomicU32,
    /// Blocks that it takes at present.
    pub(super) room: AtomicU32,
    entries: [AtomicPtr<u8>; ROOM],
}

const _: () = assert!(size_of::<Lists>() <= quick::MEDIUM && align_of::<Lists>() <= 16);

/// The block of an entry.
#[inline(always)]
fn block_of(entry: *mut u8) -> *mut u8 {
    entry.map_addr(|address| address & !1)
}

/// What stands at the start of a block on a list: who writes to a freed block is noticed when it leaves the list. It is no
/// address of a program.
#[inline(always)]
pub(super) fn fence(block: *mut u8) -> [usize; 2] {
    [!block.addr(); 2]
}

/// Bytes of a block of a class's size, all of which may be used.
pub(in super::super) fn usable(size: usize) -> usize {
    PageHeap::<Slot>::tagged_size_for(size)
}

impl List {
    /// Blocks on it.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// Takes the blocks that `wants` says of by their number and entry, and keeps the others. To be called behind the gate.
    fn take(&self, class: Class, mut wants: impl FnMut(usize, &AtomicPtr<u8>) -> bool) -> Taken {
        let mut taken = Taken::new();
        let entries = self.entries.get(..self.len()).unwrap_or(&self.entries);
        // Nothing is counted meanwhile: the child of a fork must not find a block that is its heap's.
        self.count.store(0, Relaxed);
        compiler_fence(Release);
        let mut left = 0;
        for (number, entry) in entries.iter().enumerate() {
            if wants(number, entry) {
                taken.add(block_of(entry.load(Relaxed)), class);
            } else {
                self.entries[left].store(entry.load(Relaxed), Relaxed);
                left += 1;
            }
        }
        compiler_fence(Release);
        self.count.store(left as u32, Relaxed);
        taken
    }
}

impl Lists {
    #[inline(always)]
    pub(super) fn list(&self, class: Class) -> &List {
        // SAFETY: there is a list for each class.
        unsafe { self.lists.get_unchecked(class.number()) }
    }

    /// The calling thread has these lists from now on.
    pub(in super::super) fn begin(&self) {
        self.gate.own();
    }

    /// Runs `action` behind the gate. To be called by the thread whose lists they are; `None` if a visitor is there.
    pub(super) fn with<R>(&self, action: impl FnOnce() -> R) -> Option<R> {
        self.gate.enter().then(|| {
            let result = action();
            self.gate.leave();
            result
        })
    }

    /// Takes the block freed last of a class, if there is one, the gate is biased, and `counts` says so. By the thread whose
    /// lists they are.
    #[inline(always)]
    pub(super) fn pop(&self, class: Class, counts: impl FnOnce() -> bool) -> Option<NonNull<u8>> {
        let block = self.with_biased(|lists| lists.pop_within(class, counts)).flatten();
        block.inspect(|block| begin_again(*block))
    }

    /// As [`pop`](Self::pop), behind the gate; the block is still kept, as its mark says.
    #[inline(always)]
    fn pop_within(&self, class: Class, counts: impl FnOnce() -> bool) -> Option<NonNull<u8>> {
        let list = self.list(class);
        let left = list.count.load(Relaxed).checked_sub(1)?;
        if !counts() {
            return None;
        }
        // Loaded again, so that it is counted down where it is.
        list.count.store(list.count.load(Relaxed) - 1, Relaxed);
        compiler_fence(Release);
        self.left.store(self.left.load(Relaxed).wrapping_add(class.steps() as isize), Relaxed);
        // SAFETY: by the invariant there is an entry, and whatever is counted is a block.
        unsafe {
            let entry = list.entries.get_unchecked(left as usize).load(Relaxed);
            Some(NonNull::new_unchecked(block_of(entry)))
        }
    }

    /// As [`pop`](Self::pop), where the gate is not biased, or the list empty; then a block of the next larger class, where
    /// there are several.
    pub(super) fn pop_slowly(&self, class: Class) -> Option<NonNull<u8>> {
        let larger = Class::of(class.size() + 1).filter(|&larger| self.list(larger).len() > 1);
        let pop = || self.pop_within(class, || true).or_else(|| self.pop_within(larger?, || true));
        self.with(pop).flatten().inspect(|block| begin_again(*block))
    }

    /// Takes, of the blocks of a class, the one freed last that is aligned so.
    pub(super) fn pop_aligned(&self, class: Class, align: usize) -> Option<NonNull<u8>> {
        let pop = || {
            let list = self.list(class);
            let entries = list.entries.get(..list.len())?;
            let is_aligned =
                |entry: &AtomicPtr<u8>| block_of(entry.load(Relaxed)).addr().is_multiple_of(align);
            let number = entries.iter().rposition(is_aligned)?;
            let block = block_of(entries[number].load(Relaxed));
            // Uncounted before it is used. (The last is not counted for a moment: a child would lack it.)
            list.count.store(entries.len() as u32 - 1, Relaxed);
            compiler_fence(Release);
            for (entry, next) in entries[number..].iter().zip(&entries[number + 1..]) {
                entry.store(next.load(Relaxed), Relaxed);
            }
            compiler_fence(Release);
            self.left.store(self.left.load(Relaxed).wrapping_add(class.steps() as isize), Relaxed);
            NonNull::new(block)
        };
        self.with(pop).flatten().inspect(|block| begin_again(*block))
    }

    /// Runs `action` behind the gate, if that is biased. By the thread whose lists they are.
    #[inline(always)]
    pub(super) fn with_biased<R>(&self, action: impl FnOnce(&Self) -> R) -> Option<R> {
        self.gate.enter_biased().then(|| {
            let result = action(self);
            self.gate.leave();
            result
        })
    }

    /// Puts a block on its list, if there is room. To be called behind the gate.
    ///
    /// # Safety
    /// The block is in use, the caller's, and of this class. This is its mark, and says so.
    #[inline(always)]
    pub(super) unsafe fn push_within(
        &self,
        class: Class,
        block: NonNull<u8>,
        mark: &AtomicU32,
    ) -> bool {
        let list = self.list(class);
        let count = list.count.load(Relaxed);
        if count >= list.room.load(Relaxed) {
            return false;
        }
        let left = self.left.load(Relaxed).wrapping_sub(class.steps() as isize);
        if left < 0 {
            return false;
        }
        self.left.store(left, Relaxed);
        // SAFETY: the caller's promise; blocks are longer than this, and aligned to 16. By the invariant there is an entry.
        unsafe {
            block.cast::<[usize; 2]>().write(fence(block.as_ptr()));
            list.entries.get_unchecked(count as usize).store(block.as_ptr(), Relaxed);
        }
        mark.store(mark.load(Relaxed) | mark::KEPT, Relaxed);
        compiler_fence(Release);
        list.count.store(list.count.load(Relaxed) + 1, Relaxed);
        true
    }

    /// As [`push_within`](Self::push_within), where room may have to be made; the gate need not be biased.
    ///
    /// # Safety
    /// As for that.
    pub(super) unsafe fn push_slowly(
        &self,
        class: Class,
        block: NonNull<u8>,
        mark: &AtomicU32,
    ) -> bool {
        // SAFETY: passed on.
        self.makes_room(class)
            && self.with(|| unsafe { self.push_within(class, block, mark) }) == Some(true)
    }

    /// Makes room for a block of this class, if it is to be kept. By the thread whose lists they are.
    fn makes_room(&self, class: Class) -> bool {
        let (list, size) = (self.list(class), class.size());
        if self.limit.load(Relaxed) == 0 {
            background::due();
            self.most.store(part_of_thread(), Relaxed);
        }
        let limit = share_of_heap().min(self.most.load(Relaxed));
        let Some(()) = self.with(|| self.set_limit(limit)) else { return false };
        let count = list.len();
        if size > limit || self.turns_away(class) {
            return false;
        }
        if count == ROOM {
            self.put_back(class, ROOM.div_ceil(2));
        }
        if self.bytes() + size > limit {
            // Some of one class after the other: what is on lists is to be what is freed at present.
            let turn = Class::all().nth(self.turn.load(Relaxed) as usize).unwrap_or(class);
            self.turn.store((turn.number() + 1) as u32 % CLASSES as u32, Relaxed);
            self.put_back(turn, self.list(turn).len().div_ceil(2));
        }
        true
    }

    /// Puts back the oldest blocks of a list. By the thread whose lists they are, unless a visitor is there.
    fn put_back(&self, class: Class, oldest: usize) {
        let list = self.list(class);
        if oldest > 0
            && list.len() > 0
            && let Some(taken) = self.with(|| {
                let taken = list.take(class, |number, _| number < oldest);
                self.set_limit(self.limit.load(Relaxed));
                taken
            })
        {
            taken.put_back(true);
        }
    }

    /// Puts back all there is, unless a visitor is there, who does. By the thread whose lists they are, or where that is no
    /// more.
    pub(in super::super) fn put_back_all(&self) {
        if self.is_used() {
            Class::all().for_each(|class| self.put_back(class, ROOM));
        }
    }

    /// Whether there may be something to put back.
    pub(super) fn is_used(&self) -> bool {
        self.limit.load(Relaxed) > 0 || self.bytes.load(Relaxed) > 0
    }

    /// Puts back what lay on the lists the last time that this was called, and since; or whatever lies there (`all`). To be
    /// called behind the gate; whether that was any.
    pub(super) fn put_back_idle(&self, all: bool) -> bool {
        let mut any = false;
        for (class, list) in Class::all().zip(&self.lists) {
            if list.len() == 0 {
                continue;
            }
            let taken = list.take(class, |_, entry| {
                let found = entry.load(Relaxed);
                let was_there = block_of(found) != found;
                entry.store(found.map_addr(|address| address | 1), Relaxed);
                all || was_there
            });
            if taken.count > 0 {
                self.close(class);
                any = true;
            }
            taken.put_back(false);
        }
        // The next block that is freed asks again how much they may take, and tells of itself.
        self.set_limit(0);
        any
    }

    /// Bytes of the blocks.
    pub(super) fn bytes(&self) -> usize {
        Class::all().zip(&self.lists).map(|(class, list)| list.len() * class.size()).sum()
    }

    /// Whether a block of a class is not to come onto its list, which has too little room.
    fn turns_away(&self, class: Class) -> bool {
        let (list, turned_away) = (self.list(class), &self.turned_away[class.number()]);
        let room = list.room.load(Relaxed) as usize;
        let away = list.len() >= room && room < ROOM;
        if away {
            turned_away.store(turned_away.load(Relaxed).saturating_add(1), Relaxed);
        }
        away
    }

    /// A list was empty when a block was wanted: it has more room if one was turned away.
    pub(super) fn missed(&self, class: Class) {
        let (room, turned_away) = (&self.list(class).room, &self.turned_away[class.number()]);
        if let Some(left) = turned_away.load(Relaxed).checked_sub(1) {
            turned_away.store(left, Relaxed);
            room.store((2 * room.load(Relaxed)).clamp(1, ROOM as u32), Relaxed);
        }
    }

    /// Nobody wanted a block of a class for a while.
    pub(super) fn close(&self, class: Class) {
        self.list(class).room.store(0, Relaxed);
        self.turned_away[class.number()].store(0, Relaxed);
    }

    /// Has the lists take so many bytes; 0: as long as nobody says how many, they take none. To be called behind the gate.
    pub(super) fn set_limit(&self, limit: usize) {
        let bytes = self.bytes();
        let left = limit.cast_signed() - bytes.cast_signed();
        let left = if limit > 0 { left / STEP as isize } else { isize::MIN / 2 };
        self.left.store(left, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.limit.store(limit, Relaxed);
    }

    /// In the child of a fork: whoever was about to change these lists stayed behind. `has_owner`: their thread did not.
    pub(in super::super) fn mend(&self, has_owner: bool) {
        if has_owner {
            self.gate.forget_visitor();
        } else {
            self.gate.forget_owner();
        }
        let _ = self.with(|| self.set_limit(self.limit.load(Relaxed)));
    }

    /// The blocks on the lists, also another thread's, and their bytes as the heap counts them.
    pub(in super::super) fn kept(&self) -> (usize, usize) {
        let kept = |(blocks, bytes), (class, list): (Class, &List)| {
            let count = list.len().min(ROOM);
            (blocks + count, bytes + count * usable(class.size()))
        };
        Class::all().zip(&self.lists).fold((0, 0), kept)
    }
}

/// The calling thread's part of the bytes on the lists of all threads.
fn part_of_thread() -> usize {
    let threads: usize = heaps::all().map(|heap| heap.threads.load(Relaxed) as usize).sum();
    part_of(threads)
}

/// The part of each of so many threads.
fn part_of(threads: usize) -> usize {
    OF_THREAD.min(ALL / threads.max(1))
}

/// Its part of the share of what its heap has in use.
pub(super) fn share_of_heap() -> usize {
    // SAFETY: the thread has lists, which are never given up.
    let heap = unsafe { &*current::lists() }.heap();
    share_of(heap.used.load(Relaxed), heap.threads.load(Relaxed) as usize)
}

/// The share of each of so many threads in a heap that has so many bytes in use.
fn share_of(used: usize, threads: usize) -> usize {
    (used / SHARE / threads.max(1)).max(LEAST)
}

/// A block that was taken off a list is in use again.
#[inline(always)]
fn begin_again(block: NonNull<u8>) {
    let mark = SPACE.mark_of(block.as_ptr());
    mark.store(mark.load(Relaxed) & !mark::KEPT, Relaxed);
    look_at_fence(block);
}

/// Stops the process if somebody wrote to a block that was on a list.
#[inline(always)]
fn look_at_fence(block: NonNull<u8>) {
    // SAFETY: the block is nobody else's, and was written when it was put onto a list.
    let [first, second] = unsafe { block.cast::<[usize; 2]>().read() };
    let [known, also] = fence(block.as_ptr());
    if first != known || second != also {
        fault::stop(Fault::Damaged, block.as_ptr());
    }
}

/// Blocks taken off a list, to be put back to their heaps.
struct Taken {
    blocks: [MaybeUninit<NonNull<u8>>; ROOM],
    count: usize,
}

impl Taken {
    fn new() -> Self {
        Self { blocks: [const { MaybeUninit::uninit() }; ROOM], count: 0 }
    }

    /// Takes a block that was on the list of a class.
    fn add(&mut self, block: *mut u8, class: Class) {
        let kept = mark::in_use(block, class.0) | mark::KEPT;
        if let Some(known) = NonNull::new(block)
            && SPACE.mark_of(block).load(Relaxed) == kept
        {
            look_at_fence(known);
            SPACE.mark_of(block).store(mark::NONE, Relaxed);
            self.blocks[self.count].write(known);
            self.count += 1;
        }
    }

    /// `looks`: as in [`Heap::put_medium`].
    fn put_back(self, looks: bool) {
        // SAFETY: so many were written, each of them freed and taken by this alone.
        unsafe {
            let blocks = slice::from_raw_parts(self.blocks.as_ptr().cast(), self.count);
            Heap::put_medium(blocks, looks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lists may take is counted in steps; without a limit they take nothing.
    #[test]
    fn a_limit_is_counted_in_steps() {
        // SAFETY: all zeros is a value.
        let lists: Box<Lists> = unsafe { Box::new(core::mem::zeroed()) };
        for limit in [STEP - 1, STEP, 5 * STEP + 7, LEAST] {
            lists.set_limit(limit);
            assert_eq!(lists.left.load(Relaxed), (limit / STEP).cast_signed(), "{limit}");
            assert_eq!(lists.limit.load(Relaxed), limit);
        }
        lists.set_limit(0);
        assert!(lists.left.load(Relaxed) < -(1 << 24) && !lists.is_used());
    }

    /// Up to four threads keep 16 MiB each, more of them 64 MiB together.
    #[test]
    fn threads_have_their_parts() {
        assert_eq!([0, 1, 4, 8, 64].map(|threads| part_of(threads) >> 20), [16, 16, 16, 8, 1]);
        assert_eq!(part_of(5), (64 << 20) / 5);
    }

    /// The threads of a heap keep a quarter of what it has in use, and one MiB each at least.
    #[test]
    fn threads_share_with_their_heap() {
        const MIB: usize = 1 << 20;
        assert_eq!(
            [0, 1, 2, 5].map(|threads| share_of(40 * MIB, threads)),
            [10, 10, 5, 2].map(|mib| mib * MIB)
        );
        assert_eq!([0, 1, 9].map(|threads| share_of(4 * MIB + 3, threads)), [MIB; 3]);
        assert_eq!(share_of(4 * MIB + 4, 1), MIB + 1);
    }
}
