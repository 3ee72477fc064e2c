//! Quick lists of medium blocks, above FFCROSSOVER and up to 128 KiB: a few blocks for each class and thread, under a
//! budget of bytes over all threads.
//!
//! ```text
//!  size  16,385 …  18,432 … 20,480 …  | 32,768 … 36,864 …  | 65,536 … 73,728 …  131,072     eight for each doubling
//!
//!             allocated            freed                   allocated
//!  mark  none ─────────▶ in use ─────────▶ kept, on a list ─────────▶ in use
//!         ▲                 └─────▶ none      │ put back, by its thread or by any other
//!         └───────────────────────────────────┘
//! ```
//! A request is rounded up to its class, so that a freed block serves all requests of it. (12.5 % more at most. Powers
//! of two, and eighths between them, are classes: such a block is no larger than asked for.) Where a list is empty, a block
//! of the next larger class serves.
//!
//! **Marks.** Each block of a class has a [mark](super::space) beside the heaps, found by its address: its class, where in
//! its granule it starts, and whether a list keeps it. A free exchanges the mark, and so notices every block that a list
//! keeps already, whichever thread's. Whoever takes a block off a list exchanges it, too, and only who succeeds has the
//! block: so other threads may take blocks off a list that [nobody used for a while](super::idle), without a lock. What
//! they leave there is an entry without a block, which its thread skips.
//!
//! **Room.** A list takes no block at first. Where one of its class is wanted again soon after one was turned away, it would
//! have served: it has room for one then, and for twice as many each further time. So what a program frees once and for
//! all, as when it copies an array into a larger one, joins what is free beside it in the heap.
//!
//! A block on a list is in use for its heap. At its start stand two words that tell of writes to it when it leaves the
//! list, as the heap's own would. In hardened mode there are no such lists.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};

use super::fault::{self, Fault};
use super::heap::Heap;
use super::space::{SPACE, Slot};
use super::tuning::{SMALL_MAX, UNIT};
use super::{background, current, heaps, quick, sizes};
use crate::os::KeepErrno;
use crate::pages::PageHeap;

/// Sizes above this and up to [`MOST`] have classes.
const ABOVE: usize = FIRST - STEP;
const MOST: usize = 128 << 10;

/// The least class, bytes; classes of each doubling above it, and bytes between the first of them.
const FIRST: usize = 16 << 10;
const STEPS: usize = 8;
const STEP: usize = FIRST / STEPS;
const CLASSES: usize = 1 + STEPS * (MOST / FIRST).ilog2() as usize;

/// Blocks that a list takes at most.
const ROOM: usize = 15;

/// Bytes on the lists of all threads, and of one, at most; and, where that is less, a share of what the thread's heap has
/// in use, but so many bytes at least.
const ALL: usize = 64 << 20;
const OF_THREAD: usize = 16 << 20;
const SHARE: usize = 4;
const LEAST: usize = 1 << 20;

/// The size of a class's blocks: the most that is rounded up to it.
const fn size_of_class(class: usize) -> usize {
    match class.checked_sub(1) {
        Some(above) => (STEP << (above / STEPS)) * (STEPS + 1 + above % STEPS),
        None => FIRST,
    }
}

/// A class: its number and its size, as a [mark] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class(u32);

/// The class of each step of sizes; 0: none.
static CLASS: [u32; MOST / STEP] = {
    let mut of_step = [0; MOST / STEP];
    let mut class = CLASSES;
    while class > 0 {
        class -= 1;
        let mut step = size_of_class(class) / STEP;
        while step > ABOVE / STEP {
            step -= 1;
            of_step[step] = mark::class(class, size_of_class(class));
        }
    }
    of_step
};

impl Class {
    /// The class of a size, if it has one.
    #[inline(always)]
    fn of(size: usize) -> Option<Self> {
        let class = *CLASS.get(size.wrapping_sub(1) / STEP)?;
        (class > 0).then_some(Self(class))
    }

    #[inline(always)]
    fn number(self) -> usize {
        mark::number(self.0)
    }

    /// Bytes of its blocks.
    #[inline(always)]
    fn size(self) -> usize {
        mark::size(self.0)
    }

    /// All of them.
    fn all() -> impl Iterator<Item = Self> + Clone {
        (0..CLASSES).map(|class| Self(mark::class(class, size_of_class(class))))
    }
}

/// Whether requests like this have a class, and no quick list: to that goes what a Rust program frees with its size.
#[inline(always)]
pub(super) fn serves(size: usize, align: usize) -> bool {
    size.wrapping_sub(ABOVE + 1) < MOST - ABOVE
        && align <= UNIT
        && (size > SMALL_MAX || sizes::offset(size) == 0)
}

/// What is asked of the heap for a request that is not small.
pub(super) fn round(size: usize, align: usize) -> usize {
    match Class::of(size) {
        Some(class) if align <= UNIT => class.size(),
        _ => size,
    }
}

/// A mark: what is known of the block that starts in a granule.
///
/// ```text
///  bit 31   30     29 … 16          14 … 10   9 … 0
///  | kept | some | units of blocks | class  | units from the granule's start |
/// ```
mod mark {
    use super::super::space::UNITS;
    use super::UNIT;

    pub(super) const NONE: u32 = 0;
    pub(super) const KEPT: u32 = 1 << 31;
    const SOME: u32 = 1 << 30;
    const SIZE: u32 = 16;
    const CLASS: u32 = 10;
    const PLACE: u32 = (1 << CLASS) - 1;
    const _: () = assert!(UNITS <= 1 << CLASS && super::CLASSES <= 1 << (SIZE - CLASS));
    const _: () = assert!(super::MOST / UNIT < SOME as usize >> SIZE);

    /// What the marks of all blocks of a class have in common.
    pub(super) const fn class(number: usize, size: usize) -> u32 {
        SOME | ((size / UNIT) as u32) << SIZE | (number as u32) << CLASS
    }

    #[inline(always)]
    pub(super) fn number(class: u32) -> usize {
        (class >> CLASS) as usize & ((1 << (SIZE - CLASS)) - 1)
    }

    #[inline(always)]
    pub(super) fn size(class: u32) -> usize {
        ((class & !(KEPT | SOME)) >> SIZE) as usize * UNIT
    }

    /// The mark of a block of a class, in use.
    #[inline(always)]
    pub(super) fn in_use(block: *mut u8, class: u32) -> u32 {
        class | place(block)
    }

    /// Where in its granule a block starts. (Slots are aligned to granules.)
    #[inline(always)]
    fn place(block: *mut u8) -> u32 {
        (block.addr() / UNIT) as u32 & (UNITS as u32 - 1)
    }

    /// The class that a mark tells of this block, whether it is kept or not, if it does.
    #[inline(always)]
    pub(super) fn class_of(mark: u32, block: *mut u8) -> Option<u32> {
        let class = (mark ^ place(block)) & !KEPT;
        (class & (SOME | PLACE) == SOME).then_some(class)
    }
}

/// A thread's lists; all zeros is a value. Only the thread changes them, but entries may be cleared by others.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Lists {
    /// Bytes of the entries.
    bytes: AtomicUsize,
    /// Bytes that the lists take at present.
    limit: AtomicUsize,
    /// The most they may ever take, as it was when that was last found out.
    most: AtomicUsize,
    /// The class that gives blocks back next where there are too many bytes.
    turn: AtomicU32,
    lists: [List; CLASSES],
}

/// A list: the blocks freed last come last. Entries up to `count` are a block, perhaps taken by now, or null; the lowest bit
/// says that it was [there before](Lists::put_back_idle).
#[derive(Debug)]
#[repr(C)]
struct List {
    count: AtomicU32,
    /// Blocks that it takes at present.
    room: AtomicU16,
    /// Blocks turned away for want of room, and not wanted again since.
    turned_away: AtomicU16,
    entries: [AtomicPtr<u8>; ROOM],
}

const _: () = assert!(size_of::<Lists>() <= quick::MEDIUM);

/// The lists of the calling thread, if it has some. Not to be called in hardened mode.
#[inline(always)]
fn own() -> Option<&'static Lists> {
    let lists = current::lists();
    if quick::is_none(lists) { None } else { Some(of(lists)) }
}

/// The medium lists behind a thread's quick lists.
#[inline(always)]
pub(super) fn of(lists: *mut quick::Lists) -> &'static Lists {
    // SAFETY: in the usual mode every thread's lists have these behind them, zeros at first; they are never given up, and
    // all of them is atomic.
    unsafe { &*quick::behind(lists).cast() }
}

/// A block for a request that is [served](serves) from the calling thread's lists; `None` if there is none, or a
/// [look](quick::Lists::look) is due. Not to be called in hardened mode.
#[inline(always)]
pub(super) fn allocate(size: usize) -> Option<NonNull<u8>> {
    let (class, lists) = (Class::of(size)?, own()?);
    // SAFETY: they are the calling thread's own.
    let counts = unsafe { quick::counts_pop(current::lists()) };
    counts.then(|| lists.pop(class).or_else(|| lists.pop_larger(class))).flatten()
}

/// Says that a block of the heap, for which `size` bytes were asked, is in use: where that is a class's size, it may come
/// onto a list, and one there would have been of use.
#[inline]
pub(super) fn begin(block: NonNull<u8>, size: usize, align: usize) {
    if let Some(class) = Class::of(size).filter(|class| class.size() == size)
        && align <= UNIT
    {
        if let Some(lists) = own() {
            lists.list(class).missed();
        }
        let block = block.as_ptr();
        SPACE.mark_of(block).store(mark::in_use(block, class.0), Relaxed);
    }
}

/// Says that a block in use is the heap's alone, whatever it was: it is resized, or freed there.
#[inline]
pub(super) fn end(block: NonNull<u8>) {
    let mark = SPACE.mark_of(block.as_ptr());
    if mark::class_of(mark.load(Relaxed), block.as_ptr()).is_some() {
        mark.store(mark::NONE, Relaxed);
    }
}

/// The size of the class of a block in use, if it has one; stops the process, naming `fault`, if a list keeps the block.
#[inline]
pub(super) fn size_of_block(block: NonNull<u8>, fault: Fault) -> Option<usize> {
    let mark = SPACE.mark_of(block.as_ptr()).load(Relaxed);
    let class = mark::class_of(mark, block.as_ptr())?;
    if mark & mark::KEPT != 0 {
        fault::stop(fault, block.as_ptr());
    }
    Some(mark::size(class))
}

/// Bytes of a block of a class's size, all of which may be used.
pub(super) fn usable(size: usize) -> usize {
    PageHeap::<Slot>::tagged_size_for(size)
}

/// Frees a block that is not small onto the calling thread's lists; `false` if that is for the heap to do. Not to be called
/// in hardened mode.
///
/// # Safety
/// As for [`free`](super::paths::free); the block lies in a slot, and is not small.
#[inline(always)]
pub(super) unsafe fn free(block: NonNull<u8>) -> bool {
    let mark = SPACE.mark_of(block.as_ptr());
    let before = mark.load(Relaxed);
    let Some(class) = mark::class_of(before, block.as_ptr()).map(Class) else { return false };
    // SAFETY: the block is in use, as its mark says, or on a list; so nobody else changes its length.
    let whole = unsafe { PageHeap::<Slot>::is_tagged_of(block, class.size()) };
    let Some(lists) = own().filter(|_| whole) else {
        // The heap knows what else is wrong, if anything.
        end_at(mark, before, block);
        return false;
    };
    // Who frees the block twice finds it kept.
    let kept = before | mark::KEPT;
    if kept == before {
        fault::stop(Fault::FreedTwice, block.as_ptr());
    }
    // SAFETY: the block is in use, the caller's, and longer than this; blocks are aligned to 16. Whoever sees that it is
    // kept sees this.
    unsafe { block.cast::<[usize; 2]>().write(fence(block.as_ptr())) };
    if mark.compare_exchange(before, kept, Release, Relaxed).is_err() {
        fault::stop(Fault::FreedTwice, block.as_ptr());
    }
    lists.push(class, block);
    true
}

/// A block that a list cannot take is the heap's alone again.
#[cold]
fn end_at(mark: &AtomicU32, before: u32, block: NonNull<u8>) {
    let in_use = before & !mark::KEPT;
    if mark.compare_exchange(in_use, mark::NONE, Relaxed, Relaxed).is_err() {
        fault::stop(Fault::FreedTwice, block.as_ptr());
    }
}

/// Takes a block for itself that a list keeps, if it does.
#[inline(always)]
fn claim(block: *mut u8, class: Class, to: u32) -> bool {
    let kept = mark::in_use(block, class.0) | mark::KEPT;
    if block.is_null() || SPACE.mark_of(block).compare_exchange(kept, to, Acquire, Relaxed).is_err()
    {
        return false;
    }
    // SAFETY: the block is nobody else's, and was written when it was put onto a list.
    if unsafe { block.cast::<[usize; 2]>().read() } != fence(block) {
        fault::stop(Fault::Damaged, block);
    }
    true
}

/// What stands at the start of a block on a list: who writes to a freed block is noticed when it leaves the list.
#[inline(always)]
fn fence(block: *mut u8) -> [usize; 2] {
    let word = block.addr() ^ 0x6d65_6469_756d_2121_u64 as usize;
    [word, !word]
}

/// The block of an entry; null for none.
#[inline(always)]
fn block_of(entry: *mut u8) -> *mut u8 {
    entry.map_addr(|address| address & !1)
}

impl List {
    /// Whether a block is not to come onto the list, which has `count` of `room`.
    fn turns_away(&self, count: usize, room: usize) -> bool {
        let away = count >= room && room < ROOM;
        if away {
            let before = self.turned_away.load(Relaxed);
            self.turned_away.store(before.saturating_add(1), Relaxed);
        }
        away
    }

    /// The list was empty when a block was wanted: it has more room if one was turned away.
    fn missed(&self) {
        if let Some(left) = self.turned_away.load(Relaxed).checked_sub(1) {
            self.turned_away.store(left, Relaxed);
            let room = (2 * self.room.load(Relaxed)).clamp(1, ROOM as u16);
            self.room.store(room, Relaxed);
        }
    }

    /// Nobody wanted a block of it for a while.
    fn close(&self) {
        self.room.store(0, Relaxed);
        self.turned_away.store(0, Relaxed);
    }
}

impl Lists {
    #[inline(always)]
    fn list(&self, class: Class) -> &List {
        // SAFETY: there is a list for each class.
        unsafe { self.lists.get_unchecked(class.number()) }
    }

    #[inline(always)]
    fn pop(&self, class: Class) -> Option<NonNull<u8>> {
        let list = self.list(class);
        loop {
            let left = list.count.load(Relaxed).checked_sub(1)?;
            let block = block_of(list.entries.get(left as usize)?.load(Relaxed));
            list.count.store(left, Relaxed);
            let bytes = self.bytes.load(Relaxed).saturating_sub(class.size());
            self.bytes.store(bytes, Relaxed);
            if claim(block, class, mark::in_use(block, class.0)) {
                return NonNull::new(block);
            }
        }
    }

    /// As [`pop`](Self::pop), of the next larger class, where there are several.
    #[inline(never)]
    fn pop_larger(&self, class: Class) -> Option<NonNull<u8>> {
        let larger = Class::of(class.size() + 1)?;
        if self.list(larger).count.load(Relaxed) > 1 { self.pop(larger) } else { None }
    }

    /// Puts a block on its list, whose mark says so already.
    #[inline(always)]
    fn push(&self, class: Class, block: NonNull<u8>) {
        let (list, size) = (self.list(class), class.size());
        let bytes = self.bytes.load(Relaxed) + size;
        let count = list.count.load(Relaxed);
        if count < list.room.load(Relaxed).into()
            && bytes <= self.limit.load(Relaxed)
            && let Some(entry) = list.entries.get(count as usize)
        {
            entry.store(block.as_ptr(), Release);
            list.count.store(count + 1, Relaxed);
            self.bytes.store(bytes, Relaxed);
        } else {
            self.push_slowly(class, block);
        }
    }

    /// As [`push`](Self::push), where there may be too many blocks of the class, or bytes.
    #[cold]
    #[inline(never)]
    fn push_slowly(&self, class: Class, block: NonNull<u8>) {
        let _errno = KeepErrno::new();
        let (list, size) = (self.list(class), class.size());
        if self.limit.load(Relaxed) == 0 {
            background::due();
            self.most.store(part_of_thread(), Relaxed);
        }
        let limit = share_of_heap().min(self.most.load(Relaxed));
        self.limit.store(limit, Relaxed);
        let (count, room) = (list.count.load(Relaxed) as usize, list.room.load(Relaxed).into());
        if size <= limit && !list.turns_away(count, room) {
            if count == ROOM {
                self.put_back(class, ROOM.div_ceil(2));
            }
            if self.bytes.load(Relaxed) + size > limit {
                // Some of one class after the other: what is on lists is to be what is freed at present.
                let turn = Class::all().nth(self.turn.load(Relaxed) as usize).unwrap_or(class);
                self.turn.store((turn.number() + 1) as u32 % CLASSES as u32, Relaxed);
                self.put_back(turn, self.list(turn).count.load(Relaxed).div_ceil(2) as usize);
            }
            if self.bytes.load(Relaxed) + size <= limit {
                return self.push(class, block);
            }
        }
        if claim(block.as_ptr(), class, mark::NONE) {
            // SAFETY: the block was freed, and its mark was exchanged: nobody else has it.
            unsafe { Heap::put_medium(&[block], true) };
        }
    }

    /// Puts back the oldest blocks of a list.
    fn put_back(&self, class: Class, oldest: usize) {
        if oldest == 0 {
            return;
        }
        let list = self.list(class);
        let count = list.count.load(Relaxed) as usize;
        let oldest = oldest.min(count);
        let mut taken = Taken::new();
        for (index, entry) in list.entries[..count].iter().enumerate() {
            let block = entry.load(Relaxed);
            match index.checked_sub(oldest) {
                None => taken.add(block_of(block), class),
                Some(to) => list.entries[to].store(block, Release),
            }
        }
        list.count.store((count - oldest) as u32, Relaxed);
        let bytes = oldest * class.size();
        self.bytes.store(self.bytes.load(Relaxed).saturating_sub(bytes), Relaxed);
        taken.put_back(true);
    }

    /// Puts back all there is. To be called by the thread whose lists they are, or where that is no more.
    pub(super) fn put_back_all(&self) {
        if self.limit.load(Relaxed) > 0 || self.bytes.load(Relaxed) > 0 {
            Class::all().for_each(|class| self.put_back(class, ROOM));
            // In the child of a fork, its thread may have been about to count a block.
            self.bytes.store(0, Relaxed);
        }
    }

    /// Puts back what lay on the lists the last time that this was called, and since; or whatever lies there (`all`). Any
    /// thread may call this; whether it took any.
    pub(super) fn put_back_idle(&self, all: bool) -> bool {
        if self.limit.load(Relaxed) == 0 && self.bytes.load(Relaxed) == 0 {
            return false;
        }
        // The next block that is freed asks again how much they may take, and tells of itself.
        self.limit.store(0, Relaxed);
        let mut any = false;
        for (class, list) in Class::all().zip(&self.lists) {
            let mut taken = Taken::new();
            for entry in list.entries.iter().take(list.count.load(Relaxed) as usize) {
                // Whoever sees the block here sees that it is kept; else it might be left on no list.
                let found = entry.load(Acquire);
                if found.is_null() {
                    continue;
                }
                if all || block_of(found) != found {
                    // Whoever else takes the block, there is none here afterwards.
                    let _ = entry.compare_exchange(found, ptr::null_mut(), Acquire, Relaxed);
                    taken.add(block_of(found), class);
                } else {
                    let seen = found.map_addr(|address| address | 1);
                    let _ = entry.compare_exchange(found, seen, Relaxed, Relaxed);
                }
            }
            if taken.count > 0 {
                list.close();
                any = true;
            }
            taken.put_back(false);
        }
        any
    }

    /// The blocks on the lists, also another thread's, and their bytes as the heap counts them.
    pub(super) fn kept(&self) -> (usize, usize) {
        let mut kept = (0, 0);
        for (class, list) in Class::all().zip(&self.lists) {
            for entry in list.entries.iter().take(list.count.load(Relaxed) as usize) {
                let block = block_of(entry.load(Relaxed));
                let mark = mark::in_use(block, class.0) | mark::KEPT;
                if !block.is_null() && SPACE.mark_of(block).load(Relaxed) == mark {
                    let bytes = usable(class.size());
                    kept = (kept.0 + 1, kept.1 + bytes);
                }
            }
        }
        kept
    }
}

/// The calling thread's part of the bytes on the lists of all threads.
fn part_of_thread() -> usize {
    let threads: usize = heaps::all().map(|heap| heap.threads.load(Relaxed) as usize).sum();
    OF_THREAD.min(ALL / threads.max(1))
}

/// Its part of the share of what its heap has in use.
fn share_of_heap() -> usize {
    // SAFETY: the thread has lists, which are never given up.
    let heap = unsafe { &*current::lists() }.heap();
    let threads = heap.threads.load(Relaxed).max(1) as usize;
    (heap.used.load(Relaxed) / SHARE / threads).max(LEAST)
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

    /// Takes a block, unless somebody else has taken it.
    fn add(&mut self, block: *mut u8, class: Class) {
        if let Some(known) = NonNull::new(block)
            && claim(block, class, mark::NONE)
        {
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

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
