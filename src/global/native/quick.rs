//! Quick lists (Hasan & Chang 2006, §3.10), one for each thread and size class: bounded arrays of
//! pointers to free blocks. Allocating pops, freeing pushes; neither touches the block, its page
//! header, or a lock.
//!
//! ```text
//! Lists  | dummy list | medium lists | heap, waiting, … | shadow | list | shadow | list | …
//!  list  | top | last place | size, class, … | none | block 0 | block 1 | … | block most − 1 |
//! ```
//! `top` is the *place* of the last block: its index, in pointers, from the start of the thread's
//! lists. The place of an empty list holds null. So popping loads the place, loads the block, and
//! stores the place minus one. (Decrementing `top` in memory would save an instruction, but takes
//! Zen 3 up to a fifth more time.)
//!
//! A list is named by its offset in words of eight bytes, which is the same in every thread; a
//! [table](super::sizes) maps each size to an offset. Offset 0 names a dummy list with count =
//! capacity = 0: push and pop always fail on it, so sizes that are not small take the slow path
//! without a test of their own. A thread that has no lists yet uses [`EMPTY`], in which every list
//! is a dummy, so the first use needs no test either; the slow path tells these cases apart.
//!
//! A [shadow] precedes each list: a dummy list of the same class. A block whose entry names
//! the shadow instead of the list takes the slow path when it is freed by its address.

use core::cell::Cell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, compiler_fence};

use super::apart::Apart;
use super::countdown::{Countdown, Due, NEVER};
use super::heap::Heap;
use super::lock::Wait;
use super::mode;
use super::sampler::Sampler;
use super::sizes::{self, class_size, for_each};
use super::tuning::Tuning;
use crate::os;

/// Words of eight bytes that a thread's lists may take: enough for lists of two blocks each if
/// every multiple of [`UNIT`](super::tuning::UNIT) were a class.
const MAX_WORDS: usize = (21 << 10) + MEDIUM / WORD;
const _: () = assert!(MAX_WORDS <= sizes::MOST_OFFSET);

/// Words of eight bytes that a thread's lists take.
static WORDS: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Bytes of a thread's own state in hardened mode, behind its lists and their [face].
pub(super) const OWN: usize = 20 << 10;

/// Bytes for a thread's [medium](super::medium) lists, which only the usual mode uses.
pub(super) const MEDIUM: usize = 3312;

/// The lists of a thread without lists: all zeros. Made of `AtomicU32` because not every target has
/// atomics of eight bytes. The two extra words are for [`gone`].
pub(super) static EMPTY: Zeros = Zeros([const { AtomicU32::new(0) }; 2 * (MAX_WORDS + 2)]);

/// Zeros, in words of eight bytes.
#[repr(align(16))]
pub(super) struct Zeros(
    #[allow(dead_code, reason = "read through pointers to lists")] [AtomicU32; 2 * (MAX_WORDS + 2)],
);

/// Returns the lists of a thread that has no lists yet.
#[inline(always)]
pub(super) const fn empty() -> *mut Lists {
    (&raw const EMPTY).cast_mut().cast()
}

/// Returns the lists of a thread that has given up its own because it is about to end.
pub(super) fn gone() -> *mut Lists {
    empty().wrapping_byte_add(16)
}

/// The head of a quick list; its blocks follow it. Only its thread changes it. Other threads read
/// `top` for statistics, so no `&mut` to a list may exist: its fields change through shared
/// references.
///
/// The child of a fork, in which the list's thread may not exist, takes over the blocks that are
/// counted. So a block is written before it is counted, and uncounted before it is used. A fork
/// copies the thread's memory as of some point of its program order, so compiler fences suffice to
/// keep that order.
///
/// Invariant: `bottom` ≤ `top` ≤ `last_place` ≤ `bottom` + `most`, except while the list is being
/// changed. In a dummy list these fields are 0; place 0 never holds a block.
#[derive(Debug)]
#[repr(C)]
pub(super) struct List {
    /// The [place](entry) of the block pushed last; `bottom` if the list is empty.
    top: AtomicU32,
    /// The largest value that `top` may take at present.
    last_place: Cell<u32>,
    /// Size of its blocks in bytes.
    size: u16,
    /// Size class of its blocks.
    class: u16,
    /// Number of blocks that the list has room for.
    most: u16,
    /// Batches taken from or put back to heaps since the list was made or last widened; saturates.
    batches: Cell<u8>,
    /// Length of the current run of batches in one direction: positive if they were taken, negative
    /// if put back.
    streak: Cell<i8>,
    /// The place of the null entry in `none`, just before the first block.
    bottom: u32,
    /// Zeros up to the first block: a pop from an empty list reads null here.
    none: [u32; 3],
}

/// Blocks up to which a list may keep twice the usual bytes. With lists of only two large blocks, a
/// program that uses three or more of them at a time would go to the heap for nearly each.
const FEW: u32 = 4;

/// Blocks that a list takes at first, so that threads that do little keep little.
const FIRST: u32 = 64;

/// Batches after which a list's capacity doubles, up to its room: larger batches cost less per
/// block.
const WIDEN: u8 = 8;

/// Batches in the same direction after which the next ones are larger.
const STREAK: i8 = 2;

impl List {
    /// Returns the number of blocks on the list.
    #[inline(always)]
    fn count(&self) -> u32 {
        self.top.load(Relaxed) - self.bottom
    }

    /// Sets the number of blocks on the list to `count`.
    #[inline(always)]
    fn set_count(&self, count: u32) {
        self.top.store(self.bottom + count, Relaxed);
    }

    /// Returns the number of blocks that the list takes at present.
    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.last_place.get() - self.bottom
    }

    fn set_capacity(&self, capacity: u32) {
        self.last_place.set(self.bottom + capacity);
    }

    /// Notes that a batch is taken; returns whether the last [`STREAK`] batches were taken too, on
    /// a [wide](Self::is_wide) list. Then the list should take larger ones: a thread that only
    /// takes blocks of a class usually goes on for a while.
    fn note_batch_taken(&self) -> bool {
        let streak = self.streak.get().max(0);
        self.streak.set(streak.saturating_add(1));
        streak >= STREAK && self.is_wide()
    }

    /// As [`note_batch_taken`](Self::note_batch_taken), for batches that are put back.
    fn note_batch_put_back(&self) -> bool {
        let streak = self.streak.get().min(0);
        self.streak.set(streak.saturating_sub(1));
        streak <= -STREAK && self.is_wide()
    }

    /// Checks whether the list takes all that it has room for, or more than at first.
    fn is_wide(&self) -> bool {
        self.capacity() > FIRST || self.capacity() == u32::from(self.most)
    }

    /// Counts a batch; returns whether that widened the list.
    fn widen(&self) -> bool {
        self.batches.set(self.batches.get().saturating_add(1));
        let wider = self.batches.get() >= WIDEN && self.capacity() < self.most.into();
        if wider {
            self.set_capacity((2 * self.capacity()).min(self.most.into()));
            self.batches.set(0);
        }
        wider
    }

    /// Lowers the capacity to that of a new list.
    fn narrow(&self) {
        self.set_capacity(FIRST.min(self.most.into()));
        self.batches.set(0);
        self.streak.set(0);
    }
}

/// The quick lists of a thread, at the start of the memory that they take. Its size is an even
/// number of words of eight bytes.
#[derive(Debug)]
#[repr(C, align(16))]
pub(super) struct Lists {
    dummy: List,
    /// The thread's [medium](super::medium) lists.
    medium: Medium,
    /// The heap that the thread's blocks come from.
    heap: AtomicPtr<Heap>,
    /// State used while no thread has these lists.
    pub(super) waiting: Waiting,
    /// The next in the chain of all threads' lists: those made before these.
    pub(super) next: AtomicPtr<Lists>,
    /// Pops until the thread looks at the clock (so that one that only pops and pushes gives memory
    /// back as well), or until a block is guarded or sampled.
    pub(super) countdown: Countdown,
    /// Time of the last look at the clock in milliseconds, the lower 32 bits.
    last_clock_read: Cell<u32>,
    /// The NUMA node that the thread was on at that look.
    node: Cell<u32>,
    /// Whether the distance to the first guarded block has been drawn.
    guard_drawn: Cell<bool>,
    /// In a [face], the lists that it belongs to; null in lists.
    face_of: AtomicPtr<Lists>,
    /// Decides which blocks are sampled.
    pub(super) sampler: Sampler,
}

/// State of lists that no thread has; see [`ended`](super::ended).
#[derive(Debug)]
pub(super) struct Waiting {
    /// The next in a chain of such lists, towards those whose threads ended earlier.
    pub(super) next: AtomicPtr<Lists>,
    /// The next in the other direction, towards those whose threads ended later.
    pub(super) newer: AtomicPtr<Lists>,
    /// Bytes on the lists; 0 while a thread has them.
    pub(super) bytes: AtomicUsize,
    /// When their thread ended, in milliseconds, the lower 32 bits.
    pub(super) since: AtomicU32,
    /// The token of the thread that has these lists or is putting their blocks back; 0 if there is
    /// none.
    pub(super) holder: AtomicU32,
}

/// Room for a thread's medium lists; zeros at first.
#[derive(Debug)]
#[repr(align(16))]
struct Medium(
    #[allow(dead_code, reason = "used through pointers to lists")]
    [AtomicU32; MEDIUM / size_of::<AtomicU32>()],
);

const WORD: usize = size_of::<u64>();

/// Words before each list, which hold its shadow: a list's head up to `bottom`.
const GAP: usize = 4;

/// Words from a shadow to its list. Lists have even offsets, so shadows have odd ones.
const SHADOW: u32 = 3;

const _: () = assert!(SHADOW as usize * WORD >= offset_of!(List, bottom) && SHADOW as usize <= GAP);
const _: () = assert!(size_of::<List>().is_multiple_of(2 * WORD), "lists lie at even words");

/// Returns the blocks that each of `lists` lists has room for if the room is shared equally.
fn room(lists: usize) -> u32 {
    let heads = size_of::<Lists>() + lists * (GAP * WORD + size_of::<List>());
    ((MAX_WORDS - heads / WORD) / lists.max(1)) as u32
}

/// Lays out the lists, one for each class of these sizes in bytes.
pub(super) fn open(tuning: &Tuning, classes: impl ExactSizeIterator<Item = usize>) {
    let room = room(classes.len());
    let mut words = size_of::<Lists>() / WORD;
    let mut index = 0;
    for size in classes {
        words += GAP;
        index = sizes::enter_list(index, size, words as u32, tuning.pages.ffcrossover);
        words += size_of::<List>() / WORD + (capacity(tuning, size as u32, room) & !1) as usize;
    }
    debug_assert!(words <= MAX_WORDS, "every class has a list");
    WORDS.store(words, Relaxed);
}

/// Returns the blocks of `size` bytes that a list takes at most, where each list has room for
/// `room`; two at least.
fn capacity(tuning: &Tuning, size: u32, room: u32) -> u32 {
    let few = (tuning.quick_bytes.saturating_mul(2) / size).min(FEW);
    (tuning.quick_bytes / size).max(few).min(tuning.quick_blocks).min(room).max(2)
}

/// Returns the pointer by which a thread with these lists pops and pushes: the lists themselves, or
/// in hardened mode the [face](super::hardened) behind them.
pub(super) fn face(lists: NonNull<Lists>) -> *mut Lists {
    let words = if mode::is_hardened() { WORDS.load(Relaxed) } else { 0 };
    lists.as_ptr().wrapping_byte_add(words * WORD)
}

/// Returns the lists that belong to this face, or `face` itself if it is lists already.
pub(super) fn of_face(face: *mut Lists) -> *mut Lists {
    behind_face(face).map_or(face, |(lists, _)| lists)
}

/// Checks whether these are the lists of a thread without lists ([`empty`] or [`gone`]).
#[inline(always)]
pub(super) fn is_none(lists: *mut Lists) -> bool {
    // Both are at the start of the static zeros.
    lists.addr().wrapping_sub(empty().addr()) < size_of::<Zeros>()
}

/// Returns the lists that belong to this face, and the thread's other state, which is as far behind
/// the face as the lists are before it; `None` if `face` is no face, but lists.
#[inline(always)]
pub(super) fn behind_face(face: *mut Lists) -> Option<(*mut Lists, *mut u8)> {
    // SAFETY: a thread's pointer leads to lists or a face, neither of which is ever freed; `EMPTY`
    // is zeros.
    let lists = unsafe { (*face).face_of.load(Relaxed) };
    (!lists.is_null()).then(|| (lists, face.wrapping_byte_add(face.addr() - lists.addr()).cast()))
}

/// Returns the address of the [medium](super::medium) lists in these lists.
#[inline(always)]
pub(super) fn medium(lists: *mut Lists) -> *mut u8 {
    lists.wrapping_byte_add(offset_of!(Lists, medium)).cast()
}

/// Returns the shadow of a list: the dummy list of the same class.
pub(super) fn shadow(list: u32) -> u32 {
    list - SHADOW
}

/// Returns the list of a block whose entry names that list or its shadow.
#[inline(always)]
pub(super) fn unshadowed(list: u32) -> u32 {
    if list & 1 == 1 { list + SHADOW } else { list }
}

/// Makes the lists of one more thread, all empty; `None` if there is no memory for them.
pub(super) fn make() -> Option<NonNull<Lists>> {
    let words = WORDS.load(Relaxed);
    let besides = if mode::is_hardened() { words * WORD + OWN } else { 0 };
    let bytes = (words * WORD + besides).next_multiple_of(os::page_size());
    let lists = match besides {
        // Each OS page of them has a list's head, which is written below.
        0 => os::allocate_populated(bytes)?,
        _ => os::allocate(bytes)?,
    };
    let lists = lists.cast::<Lists>();
    let mut class = 0;
    let mut make = |from: u32, to: usize| {
        let most = (to - from as usize - size_of::<List>() / WORD) as u16;
        let size = class_size(from) as u16;
        let (list, shadow) = (at(lists, from), at(lists, shadow(from)));
        let bottom = (blocks(list).addr() - lists.addr()) / size_of::<*mut u8>() - 1;
        // SAFETY: the memory is fresh, has room for a list at every offset of the table, and for
        // its shadow before it; zeros are a valid head.
        unsafe {
            for list in [list, shadow] {
                (&raw mut (*list).size).write(size);
                (&raw mut (*list).class).write(class);
            }
            (&raw mut (*list).most).write(most);
            (&raw mut (*list).bottom).write(bottom as u32);
            (*list).set_count(0);
            (*list).narrow();
        }
        class += 1;
    };
    let mut last = 0;
    for_each(|offset| {
        if last > 0 {
            make(last, offset as usize - GAP);
        }
        last = offset;
    });
    if last > 0 {
        make(last, words);
    }
    let made = NonNull::new(lists)?;
    if mode::is_hardened() {
        // SAFETY: the face's memory is fresh, and no other thread knows it yet.
        unsafe { (*face(made)).face_of.store(lists, Relaxed) };
    }
    Some(made)
}

#[inline(always)]
fn at(lists: *mut Lists, offset: u32) -> *mut List {
    lists.wrapping_byte_add(offset as usize * WORD).cast()
}

#[inline(always)]
fn blocks(list: *mut List) -> *mut MaybeUninit<NonNull<u8>> {
    list.wrapping_add(1).cast()
}

/// Returns the address of a place of a thread's lists.
#[inline(always)]
fn entry(lists: *mut Lists, place: u32) -> *mut *mut u8 {
    lists.cast::<*mut u8>().wrapping_add(place as usize)
}

/// Pops the block pushed last; `None` if the list is empty or [periodic
/// work](Lists::do_periodic_work) is due.
///
/// # Safety
/// `lists` are the calling thread's, and `offset` comes from the tables.
#[inline(always)]
pub(super) unsafe fn pop(lists: *mut Lists, offset: u32) -> Option<NonNull<u8>> {
    let list = at(lists, offset);
    // SAFETY: `offset` names a list, which only this thread changes; its top holds a block or null.
    unsafe {
        let top = (*list).top.load(Relaxed);
        let block = NonNull::new(entry(lists, top).read())?;
        // Not reached with the lists of a thread without lists, which must not be written: they are
        // empty.
        if !(*lists).countdown.count_pop() {
            return None;
        }
        (*list).top.store(top - 1, Relaxed);
        compiler_fence(Release);
        Some(block)
    }
}

/// Counts a pop for a block that is taken from elsewhere; returns whether no
/// [periodic work](Lists::do_periodic_work) is due.
///
/// # Safety
/// As for [`pop`], and the thread has lists of its own.
#[inline(always)]
pub(super) unsafe fn count_pop(lists: *mut Lists) -> bool {
    // SAFETY: the caller guarantees that the lists are its own, so nothing else uses them.
    unsafe { (*lists).countdown.count_pop() }
}

/// When a list counts as having too few blocks to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Low {
    /// When it is empty.
    Empty,
    /// When it has an eighth of its capacity or less.
    Eighth,
}

/// Removes the block at the index `choose(count)`, where `count` is the number of blocks on the
/// list; returns it with its size in bytes. `None` if the list has [too few](Low) blocks, or
/// [periodic work](Lists::do_periodic_work) is due.
///
/// # Safety
/// As for [`pop`]; `choose` returns an index less than `count`.
#[inline(always)]
pub(super) unsafe fn pop_any(
    lists: *mut Lists,
    offset: u32,
    low: Low,
    choose: impl FnOnce(u32) -> u32,
) -> Option<(NonNull<u8>, usize)> {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        let count = (*list).count();
        let left = count.checked_sub(1)?;
        if low == Low::Eighth && count <= (*list).capacity() / 8 {
            return None;
        }
        if !(*lists).countdown.count_pop() {
            return None;
        }
        let place = blocks(list).add(choose(count) as usize);
        // Uncount the last block before moving it: no block may ever be counted twice.
        (*list).set_count(left);
        compiler_fence(Release);
        let block = place.read().assume_init();
        place.write(blocks(list).add(left as usize).read());
        Some((block, usize::from((*list).size)))
    }
}

/// Rotates a list: moves the last `choose(count)` of its `count` blocks to the front. The order is
/// otherwise kept.
///
/// # Safety
/// As for [`pop`]; `choose` returns at most `count`.
pub(super) unsafe fn rotate(lists: *mut Lists, offset: u32, choose: impl FnOnce(u32) -> u32) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. The list is empty meanwhile: the child of a fork must not find a block
    // twice.
    unsafe {
        let count = (*list).count();
        (*list).set_count(0);
        compiler_fence(Release);
        let on_list = core::slice::from_raw_parts_mut(blocks(list), count as usize);
        on_list.rotate_right(choose(count) as usize);
        compiler_fence(Release);
        (*list).set_count(count);
    }
}

/// Returns the size of a list's blocks in bytes.
#[inline(always)]
pub(super) fn block_size(lists: *mut Lists, offset: u32) -> usize {
    // SAFETY: `offset` names a list; its size does not change.
    usize::from(unsafe { (*at(lists, offset)).size })
}

/// Pushes a block; `false` if the list is full, or the block is already the last one on it.
///
/// # Safety
/// As for [`pop`]; the block is free and of the list's class, unless it is the last one on the
/// list.
#[inline(always)]
pub(super) unsafe fn push(lists: *mut Lists, offset: u32, block: NonNull<u8>) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`; there is room up to the last place.
    unsafe {
        let top = (*list).top.load(Relaxed);
        if top == (*list).last_place.get() || entry(lists, top).read() == block.as_ptr() {
            return false;
        }
        entry(lists, top).wrapping_add(1).write(block.as_ptr());
        compiler_fence(Release);
        (*list).top.store(top + 1, Relaxed);
        true
    }
}

/// Checks whether a block is the last one on a list: the only block that a list with room refuses.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn is_last(lists: *mut Lists, offset: u32, block: NonNull<u8>) -> bool {
    // SAFETY: as in `pop`.
    unsafe { entry(lists, (*at(lists, offset)).top.load(Relaxed)).read() == block.as_ptr() }
}

impl Lists {
    /// Checks whether the thread's blocks come from this heap; `false` for lists that have no heap
    /// yet.
    pub(super) fn has_heap(&self, heap: &Heap) -> bool {
        ptr::eq(self.heap.load(Relaxed), heap)
    }

    /// Returns the heap of the last thread that had these lists, if one had.
    pub(super) fn last_heap(&self) -> Option<&'static Heap> {
        // SAFETY: heaps are never destroyed.
        unsafe { self.heap.load(Relaxed).as_ref() }
    }

    /// Returns the heap that the thread's blocks come from.
    pub(super) fn heap(&self) -> &'static Heap {
        // SAFETY: lists in use have a heap, and heaps are never destroyed.
        unsafe { &*self.heap.load(Relaxed) }
    }

    /// Does what is due by the countdown: looks at the clock, gives memory back if that is due (and
    /// before that calls `follow`), and draws when the next block is guarded or sampled.
    /// `is_popped`: the block that is being allocated will be popped from a list. Returns whether
    /// that block must be [guarded](super::guarded).
    pub(super) fn do_periodic_work(&self, is_popped: bool, follow: impl FnOnce(&Self)) -> bool {
        /// Pops between two looks at the clock; and while memory is going back, when each look does
        /// a small part.
        const POPS: i32 = 1 << 11;
        const SOON: i32 = 1 << 7;
        if !self.countdown.is_over() {
            return false;
        }
        self.countdown.settle();
        if self.countdown.is_due(Due::Clock) {
            let more = self.look_at_clock(follow);
            self.countdown.set(Due::Clock, if more { SOON } else { POPS });
        }
        let guarded = self.countdown.is_due(Due::Guarded) && self.decide_guard();
        if self.countdown.is_due(Due::Sample) {
            // Whether this block is sampled was decided before this call. To draw anew leaves a
            // trial out, which does no harm: any may be left out.
            let in_trials = mode::is_profiled() && !mode::is_hardened();
            let trials = if in_trials { self.sampler.draw() } else { NEVER - 1 };
            self.countdown.set(Due::Sample, trials + i32::from(is_popped));
        }
        self.countdown.arm();
        guarded
    }

    /// Looks at the clock, and gives memory back if that is due; returns whether there is more to
    /// give back.
    fn look_at_clock(&self, follow: impl FnOnce(&Self)) -> bool {
        /// Milliseconds between two calls of `maintain`; while memory is going back, one.
        const PAUSE: u32 = 64;
        let now = os::now() as u32;
        let since = now.wrapping_sub(self.last_clock_read.get());
        if since < PAUSE {
            return since == PAUSE - 1;
        }
        follow(self);
        let more = self.heap().maintain();
        self.last_clock_read.set(if more { now.wrapping_sub(PAUSE - 1) } else { now });
        more
    }

    /// Notes the NUMA node that the thread is on; returns whether it was there at the last look as
    /// well.
    pub(super) fn note_node(&self, node: u32) -> bool {
        self.node.replace(node) == node
    }

    /// Called when a guarded block is due: returns whether to guard this one, and draws the
    /// distance to the next. The first time that it is due, only the distance is drawn.
    fn decide_guard(&self) -> bool {
        let one_in = mode::guarded();
        if one_in == 0 {
            self.countdown.set(Due::Guarded, NEVER);
            return false;
        }
        self.countdown.set(Due::Guarded, pops_to_guarded(one_in, os::random()));
        self.guard_drawn.replace(true)
    }

    /// Decides whether the small block of `size` bytes that the thread is about to take is sampled.
    /// Call only while there is a profile.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn decide_small_sample(&self, size: usize) -> bool {
        let is_stale = self.sampler.renew_if_stale();
        if !is_stale && !self.countdown.is_over() {
            return false;
        }
        self.countdown.settle();
        let due = self.countdown.is_due(Due::Sample);
        let sampled = if is_stale {
            // This block is the first trial.
            self.countdown.set(Due::Sample, NEVER);
            match self.sampler.draw() {
                0 => self.sampler.is_hit(size),
                trials => {
                    self.countdown.set(Due::Sample, trials);
                    self.countdown.arm();
                    return false;
                }
            }
        } else {
            due && self.sampler.is_hit(size)
        };
        if due || is_stale {
            self.countdown.set(Due::Sample, 1 + self.sampler.draw());
        }
        self.countdown.arm();
        sampled
    }

    /// Decides whether a block of `size` bytes that does not count as a pop is sampled. Call only
    /// while there is a profile.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn decide_other_sample(&self, size: usize) -> bool {
        if self.sampler.renew_if_stale() {
            self.countdown.settle();
            self.countdown.set(Due::Sample, self.sampler.draw());
            self.countdown.arm();
        }
        self.sampler.count_bytes(size)
    }

    /// Counts a pop for a block that should have been popped, but came from elsewhere.
    pub(super) fn count_pop(&self) {
        self.countdown.count_pop();
    }

    /// Makes the thread take the slow path for its next block.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn force_slow_path(&self) {
        self.countdown.settle();
    }

    pub(super) fn set_heap(&self, heap: &'static Heap) {
        self.heap.store(ptr::from_ref(heap).cast_mut(), Relaxed);
    }
}

/// Returns the pops until the next guarded block, where one block in `one_in` is guarded: uniformly
/// random from 1 to twice the mean, so that it cannot be foreseen.
fn pops_to_guarded(one_in: u32, random: u64) -> i32 {
    let most = (2 * u64::from(one_in) - 2).max(1);
    (1 + random % most) as i32
}

/// Takes a batch of blocks from a heap for a list: half of the list's capacity; up to the full
/// capacity if the last two batches were taken as well. `wait`: whether to wait for the heap's
/// lock. Returns whether there were any. The lowest addresses are popped first.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn refill(lists: *mut Lists, offset: u32, heap: &Heap, wait: Wait) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. The heap gives free blocks of the list's class.
    unsafe {
        let before = (*list).count() as usize;
        (*list).widen();
        let capacity = (*list).capacity() as usize;
        debug_assert!(before <= capacity / 2, "a list is filled that has few blocks");
        let goes_on = (*list).note_batch_taken();
        let wanted = if goes_on { capacity - before } else { capacity / 2 };
        let room = core::slice::from_raw_parts_mut(blocks(list).add(before), wanted);
        let count = heap.take(wait, (*list).class.into(), offset, room);
        compiler_fence(Release);
        (*list).set_count((before + count) as u32);
        count > 0
    }
}

/// Makes room on a full list: widens it, or puts the older half of its blocks back to their heaps;
/// seven eighths if the last two batches were put back as well.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn make_room(lists: *mut Lists, offset: u32) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        if !(*list).widen() {
            let count = (*list).count() as usize;
            let kept = if (*list).note_batch_put_back() { count / 8 } else { count / 2 };
            put_back(list, count - kept, true);
        }
    }
}

/// Puts all blocks of a list back to their heaps; `may_purge` as for [`Heap::put`].
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn flush(lists: *mut Lists, offset: u32, may_purge: bool) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        put_back(list, (*list).count() as usize, may_purge);
        // The static dummy lists must not be written: all threads share them.
        if (*list).most > 0 {
            (*list).narrow();
        }
    }
}

/// Returns the bytes of all blocks on these lists.
pub(super) fn bytes(lists: *mut Lists) -> usize {
    let mut bytes = 0;
    for_each(|offset| {
        let (count, size) = kept(lists, offset);
        bytes += count * size;
    });
    bytes
}

/// Puts the blocks of all these lists back to their heaps; `may_purge` as for [`Heap::put`].
///
/// # Safety
/// They are the calling thread's, or those of a thread without lists, or no thread has them and the
/// caller alone uses them.
pub(super) unsafe fn flush_all(lists: *mut Lists, may_purge: bool) {
    for_each(|offset| {
        // SAFETY: the caller guarantees that no other thread uses the lists.
        unsafe { flush(lists, offset, may_purge) };
    });
}

/// Puts the `older` oldest blocks of a list back to their heaps; `may_purge` as for [`Heap::put`].
/// The list is empty meanwhile: the child of a fork must not find blocks on it that are in their
/// heaps already.
///
/// # Safety
/// As for [`pop`]; the list has at least `older` blocks.
unsafe fn put_back(list: *mut List, older: usize, may_purge: bool) {
    // SAFETY: as in `pop`; blocks on a list are free, and these are not on it afterwards.
    unsafe {
        let count = (*list).count() as usize;
        (*list).set_count(0);
        compiler_fence(Release);
        Heap::put(core::slice::from_raw_parts_mut(blocks(list).cast(), older), may_purge);
        ptr::copy(blocks(list).add(older), blocks(list), count - older);
        compiler_fence(Release);
        (*list).set_count((count - older) as u32);
    }
}

/// Returns the number of blocks on a list, which may be another thread's, and their size in bytes.
pub(super) fn kept(lists: *mut Lists, offset: u32) -> (usize, usize) {
    // SAFETY: `offset` names a list; its `top` is atomic.
    let count = unsafe { (*at(lists, offset)).count() };
    (count as usize, block_size(lists, offset))
}

#[cfg(test)]
mod tests {
    use super::super::tuning::{SMALL_MAX, UNIT};
    use super::*;

    /// A list keeps its bytes, or twice as many if that is only a few blocks; a lower setting is
    /// respected.
    #[test]
    fn few_large_blocks_take_twice_the_bytes() {
        let of = |bytes, blocks, size| {
            let tuning = Tuning { quick_bytes: bytes, quick_blocks: blocks, ..Tuning::new() };
            capacity(&tuning, size, 200)
        };
        assert_eq!([16, 1024, 4096, 8176].map(|size| of(32 << 10, 256, size)), [200, 32, 8, 4]);
        assert_eq!([10_000, 12_288, 16_368].map(|size| of(32 << 10, 256, size)), [4, 4, 4]);
        assert_eq!([16, 200, 10_000].map(|size| of(1 << 10, 256, size)), [64, 5, 2]);
        assert_eq!([16, 10_000].map(|size| of(32 << 10, 3, size)), [3, 3]);
        assert_eq!(of(u32::MAX, 256, 16_368), 200);
    }

    /// All distances between guarded blocks are equally likely, up to twice the mean.
    #[test]
    fn distances_between_guarded_blocks_are_uniform() {
        for one_in in [1, 2, 3, 100, 1 << 10] {
            let most = (2 * one_in - 2).max(1);
            let pops: Vec<i32> =
                (0..2 * most).map(|random| pops_to_guarded(one_in, random.into())).collect();
            let all: Vec<i32> = (1..=most as i32).collect();
            assert_eq!(pops, [&all[..], &all[..]].concat(), "{one_in}");
        }
        assert!((1..i32::MAX).contains(&pops_to_guarded(1 << 30, u64::MAX)));
    }

    /// Makes lists that no thread has, in which neither sampling nor the clock is ever due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    fn with_guarded_blocks_only() -> &'static Lists {
        // SAFETY: they are never freed.
        let lists = unsafe { make().expect("there is memory").as_ref() };
        [Due::Clock, Due::Sample].iter().for_each(|&due| lists.countdown.set(due, NEVER));
        lists
    }

    /// The first time that a guarded block is due, none is guarded, but the first distance is
    /// drawn. If none should be guarded, it is never due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_guards_from_the_second_time_on() {
        super::super::registry::heap_for_test();
        let lists = with_guarded_blocks_only();
        assert_eq!([(); 3].map(|()| lists.decide_guard()), [false; 3]);
        lists.countdown.arm();
        lists.countdown.settle();
        assert!(!lists.countdown.is_due(Due::Guarded));
        crate::os::alone::passes("global::native::quick::tests::guards");
    }

    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn guards() {
        // The first block opens the allocator.
        let pagewise = crate::global::Pagewise { tuning: Tuning { guarded: 2, ..Tuning::new() } };
        assert!(!pagewise.allocate(1).is_null());
        let lists = with_guarded_blocks_only();
        assert_eq!([(); 3].map(|()| lists.decide_guard()), [false, true, true]);
        lists.countdown.arm();
        let pops = (0..).find(|_| !lists.countdown.count_pop());
        assert!(matches!(pops, Some(1 | 2)), "{pops:?}");
    }

    /// Lists get as much room as fits, two blocks at least, however many classes there are.
    #[test]
    fn lists_share_the_room_there_is() {
        for lists in 1..=SMALL_MAX / UNIT {
            let words = |room: u32| {
                let list = GAP + size_of::<List>() / WORD + room as usize;
                size_of::<Lists>() / WORD + lists * list
            };
            let room = room(lists);
            assert!(
                room >= 2 && words(room) <= MAX_WORDS && words(room + 1) > MAX_WORDS,
                "{lists}"
            );
        }
    }

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
            bottom: BOTTOM,
            none: [0; 3],
        }
    }

    /// A list's capacity doubles after eight batches, up to its room; a list that was emptied
    /// begins anew.
    #[test]
    fn a_list_is_widened_by_batches() {
        for most in [2, 63, 64, 65, 100, 256] {
            let list = list(2, most);
            list.set_count(1);
            for _ in 0..2 {
                list.narrow();
                assert!(!list.note_batch_taken() && !list.note_batch_put_back());
                let mut capacity = FIRST.min(most.into());
                for _ in 0..40 {
                    assert_eq!(list.capacity(), capacity);
                    for batch in 1..=WIDEN {
                        let wider = batch == WIDEN && capacity < most.into();
                        assert_eq!(list.widen(), wider, "{capacity} of {most}");
                    }
                    capacity = (2 * capacity).min(most.into());
                }
                assert_eq!((list.capacity(), list.count()), (most.into(), 1));
                (0..3).for_each(|_| _ = list.note_batch_taken());
            }
        }
    }

    /// A thread maintains its heap every 64 ms, or at each look while memory goes back.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_maintains_its_heap_every_64_ms() {
        let heap = super::super::registry::heap_for_test();
        // SAFETY: the lists belong to no thread, and are never freed.
        let lists = unsafe { make().expect("there is memory").as_ref() };
        lists.set_heap(heap);
        // Looks at the clock `since` milliseconds after the last look. Returns whether `follow` was
        // called, how long ago the last look was then, and whether there is more to do. Repeats
        // until the clock stands still meanwhile.
        let look = |since: u32| loop {
            let now = os::now();
            lists.last_clock_read.set((now as u32).wrapping_sub(since));
            let mut looks = false;
            let more = lists.look_at_clock(|_| looks = true);
            if os::now() == now {
                break (looks, (now as u32).wrapping_sub(lists.last_clock_read.get()), more);
            }
        };
        for since in [0, 1, 32, 62] {
            assert_eq!(look(since), (false, since, false));
        }
        assert_eq!(look(63), (false, 63, true), "memory was going back");
        // Other heaps may be maintained as well, and give memory back.
        for since in [64, 65, 1 << 20, u32::MAX] {
            let (looks, ago, more) = look(since);
            assert!(looks && ago == if more { 63 } else { 0 }, "{since}: {ago}, {more}");
        }
    }

    /// The third batch in the same direction is larger, on a list that takes more than at first.
    #[test]
    fn batches_that_go_the_same_way_are_larger() {
        for (list, is_wide) in [(list(64, 256), false), (list(128, 256), true), (list(8, 8), true)]
        {
            for _ in 0..2 {
                assert_eq!(
                    [(); 4].map(|()| list.note_batch_taken()),
                    [false, false, is_wide, is_wide]
                );
                assert_eq!([(); 3].map(|()| list.note_batch_put_back()), [false, false, is_wide]);
            }
            for _ in 0..300 {
                assert!(!list.note_batch_taken() && !list.note_batch_put_back());
            }
            let last = (0..300).map(|_| list.note_batch_taken()).last();
            assert_eq!(last, Some(is_wide), "it is counted to the end");
        }
    }
}
