//! Quick lists (Hasan & Chang 2006, §3.10), one for each thread and size class: bounded arrays of
//! pointers to blocks. Allocating pops, freeing pushes; neither touches the block, its page's
//! header, or a lock.
//!
//! ```text
//! Lists  | list 0: always empty, no room | medium lists | heap, next … | shadow | list | shadow | list | …
//!  list  | top | limit | size, class, … | none | block 0 | block 1 | … | block most − 1 |
//! ```
//! `top` is the place of the last block, counted from the start of the thread's lists; that of an empty list has none. So
//! popping is to load the place, load the block, and store the place before it. (To count it down where it lies would be an
//! instruction less, and takes Zen 3 up to a fifth more time.)
//!
//! A list is named by its offset in words of eight bytes, the same in every thread; a table gives
//! it for every size. Offset 0 is a list that is always empty and full at once: the answer for what
//! is not small, which so needs no branch of its own. A thread that has no lists yet uses
//! [`EMPTY`], in which all lists are like that, so there is no branch for the first use either; the
//! slow path sorts it all out.
//!
//! Before each list lies its [shadow](shadow): a list of the same class that is always empty and full, so that blocks which
//! are said to be of the shadow take the slow path when they are freed by their address.

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

/// Words that the lists of a thread may take: room for lists of two blocks, were every multiple of
/// the unit a class.
const MAX_WORDS: usize = (21 << 10) + MEDIUM / WORD;
const _: () = assert!(MAX_WORDS <= sizes::MOST_OFFSET);

/// Words that the lists of a thread take.
static WORDS: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Bytes behind the lists and their face that a thread has of its own in hardened mode.
pub(super) const OWN: usize = 20 << 10;

/// Bytes for a thread's [medium](super::medium) lists, which are of use in the usual mode.
pub(super) const MEDIUM: usize = 3312;

/// The lists of a thread without lists: all zeros, in words of eight bytes, which not every target
/// has atomics of. The two words more are for [`gone`].
pub(super) static EMPTY: Zeros = Zeros([const { AtomicU32::new(0) }; 2 * (MAX_WORDS + 2)]);

/// Words of eight bytes.
#[repr(align(16))]
pub(super) struct Zeros(
    #[allow(dead_code, reason = "read through pointers to lists")] [AtomicU32; 2 * (MAX_WORDS + 2)],
);

/// The lists of a thread that has none yet.
#[inline(always)]
pub(super) const fn empty() -> *mut Lists {
    (&raw const EMPTY).cast_mut().cast()
}

/// The lists of a thread that has given up its own, being about to end.
pub(super) fn gone() -> *mut Lists {
    empty().wrapping_byte_add(16)
}

/// A quick list; its blocks follow it. Only its thread changes it; others read `top` for
/// statistics, so nobody may form a `&mut` to a list: its fields change through shared references.
/// The child of a fork, where its thread is no more, takes what is counted: so a block is
/// written before it is counted, and uncounted before it is used. What is forked is what the thread
/// had written up to some point of its program, so it is enough that the compiler keeps that order.
///
/// Invariant: `bottom` ≤ `top` ≤ `limit` ≤ `bottom` + `most`, as long as the list is not being changed. A list that is always
/// empty and full is zeros where these stand: at place 0 there is no block.
#[derive(Debug)]
#[repr(C)]
pub(super) struct List {
    /// The [place](entry) of the block put there last; `bottom` if there is none.
    top: AtomicU32,
    /// The last place that it fills at present.
    limit: Cell<u32>,
    /// Size of its blocks in bytes.
    size: u16,
    /// Their class.
    class: u16,
    /// Blocks there is room for.
    most: u16,
    /// Batches taken or put back since the list began, or was last widened.
    batches: Cell<u8>,
    /// How many of the last went the same way: above 0 they were taken, below put back.
    streak: Cell<i8>,
    /// The place of `none`.
    bottom: u32,
    /// Zeros, up to where the first block lies: what is found on an empty list.
    none: [u32; 3],
}

/// Blocks up to which a list may keep twice the bytes of others: with a list of two, a program that has three or more large
/// ones at a time goes to the heap for nearly each.
const FEW: u32 = 4;

/// Blocks a list takes at first: threads that do little keep little.
const FIRST: u32 = 64;

/// Batches after which a list takes twice as many blocks, up to its room: blocks cost less by larger
/// batches.
const WIDEN: u8 = 8;

/// Batches that went the same way, after which the next are larger.
const STREAK: i8 = 2;

impl List {
    /// Blocks on it.
    #[inline(always)]
    fn count(&self) -> u32 {
        self.top.load(Relaxed) - self.bottom
    }

    /// So many of its blocks count from now on.
    #[inline(always)]
    fn set_count(&self, count: u32) {
        self.top.store(self.bottom + count, Relaxed);
    }

    /// Blocks it takes at present.
    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.limit.get() - self.bottom
    }

    fn set_capacity(&self, capacity: u32) {
        self.limit.set(self.bottom + capacity);
    }

    /// Notes a batch that is taken; whether the last were, too. Then more are likely to be: a thread that only takes
    /// blocks of a class goes on for a while.
    fn takes_again(&self) -> bool {
        let streak = self.streak.get().max(0);
        self.streak.set(streak.saturating_add(1));
        streak >= STREAK && self.is_wide()
    }

    /// As [`takes_again`](Self::takes_again), of batches that are put back.
    fn puts_back_again(&self) -> bool {
        let streak = self.streak.get().min(0);
        self.streak.set(streak.saturating_sub(1));
        streak <= -STREAK && self.is_wide()
    }

    /// Whether it takes all it has room for, or more than at first: a thread that does little keeps little.
    fn is_wide(&self) -> bool {
        self.capacity() > FIRST || self.capacity() == u32::from(self.most)
    }

    /// Counts a batch; whether the list was widened for it.
    fn widen(&self) -> bool {
        self.batches.set(self.batches.get().saturating_add(1));
        let wider = self.batches.get() >= WIDEN && self.capacity() < self.most.into();
        if wider {
            self.set_capacity((2 * self.capacity()).min(self.most.into()));
            self.batches.set(0);
        }
        wider
    }

    /// Has the list take no more blocks than at first.
    fn narrow(&self) {
        self.set_capacity(FIRST.min(self.most.into()));
        self.batches.set(0);
        self.streak.set(0);
    }
}

/// The quick lists of a thread, at the head of the memory they take; an even number of words of eight bytes.
#[derive(Debug)]
#[repr(C, align(16))]
pub(super) struct Lists {
    none: List,
    /// The [medium](super::medium) lists.
    medium: Medium,
    /// Where blocks come from.
    heap: AtomicPtr<Heap>,
    /// What is known of them while no thread has them.
    pub(super) waiting: Waiting,
    /// The lists made before these.
    pub(super) next: AtomicPtr<Lists>,
    /// Pops until the thread looks at the clock (one that only pops and pushes gives memory back, too), or has a block
    /// guarded or sampled.
    pub(super) countdown: Countdown,
    /// When it looked last, milliseconds.
    looked: Cell<u32>,
    /// The NUMA node that it was on then.
    node: Cell<u32>,
    /// Whether it was found out which block is the first to be guarded.
    guards: Cell<bool>,
    /// Of a [face], the lists before it; of lists, none.
    faced: AtomicPtr<Lists>,
    /// Which blocks are sampled.
    pub(super) sampler: Sampler,
}

/// What is known of lists while no thread has them: [`ended`](super::ended).
#[derive(Debug)]
pub(super) struct Waiting {
    /// The lists of another thread that has ended, before this one's.
    pub(super) next: AtomicPtr<Lists>,
    /// The lists of another thread that has ended, after this one's.
    pub(super) newer: AtomicPtr<Lists>,
    /// Bytes on them; 0 while a thread has them.
    pub(super) bytes: AtomicUsize,
    /// When their thread ended, milliseconds, the lower bits.
    pub(super) since: AtomicU32,
    /// The token of the thread in whose hands they are: that has them, or puts back what is on them; 0: none.
    pub(super) holder: AtomicU32,
}

/// Room for a thread's medium lists, zeros at first.
#[derive(Debug)]
#[repr(align(16))]
struct Medium(
    #[allow(dead_code, reason = "used through pointers to lists")]
    [AtomicU32; MEDIUM / size_of::<AtomicU32>()],
);

const WORD: usize = size_of::<u64>();

/// Words before each list, in which its shadow lies, the head of a list.
const GAP: usize = 4;

/// Words from a shadow to its list. Lists lie at even words, so shadows lie at odd ones.
const SHADOW: u32 = 3;

const _: () = assert!(SHADOW as usize * WORD >= offset_of!(List, bottom) && SHADOW as usize <= GAP);
const _: () = assert!(size_of::<List>().is_multiple_of(2 * WORD), "lists lie at even words");

/// Blocks that each list has room for, if there are so many.
fn room(lists: usize) -> u32 {
    let heads = size_of::<Lists>() + lists * (GAP * WORD + size_of::<List>());
    ((MAX_WORDS - heads / WORD) / lists.max(1)) as u32
}

/// Decides on the lists, for classes of these sizes.
pub(super) fn open(tuning: &Tuning, classes: impl ExactSizeIterator<Item = usize>) {
    let room = room(classes.len());
    let mut words = size_of::<Lists>() / WORD;
    let mut index = 0;
    for size in classes {
        words += GAP;
        index = sizes::serve(index, size, words as u32, tuning.pages.ffcrossover);
        words += size_of::<List>() / WORD + (capacity(tuning, size as u32, room) & !1) as usize;
    }
    debug_assert!(words <= MAX_WORDS, "every class has a list");
    WORDS.store(words, Relaxed);
}

/// Blocks of a size that a list has room for, where all have room for so many; two at least.
fn capacity(tuning: &Tuning, size: u32, room: u32) -> u32 {
    let few = (tuning.quick_bytes.saturating_mul(2) / size).min(FEW);
    (tuning.quick_bytes / size).max(few).min(tuning.quick_blocks).min(room).max(2)
}

/// The pointer by which a thread with these lists pops and pushes: the lists; in hardened mode the
/// [face](hardened) behind them.
pub(super) fn face(lists: NonNull<Lists>) -> *mut Lists {
    let words = if mode::is_hardened() { WORDS.load(Relaxed) } else { 0 };
    lists.as_ptr().wrapping_byte_add(words * WORD)
}

/// The lists with this face; those of a thread without lists are their own.
pub(super) fn of_face(face: *mut Lists) -> *mut Lists {
    behind_face(face).map_or(face, |(lists, _)| lists)
}

/// Whether these are the lists of a thread without lists.
#[inline(always)]
pub(super) fn is_none(lists: *mut Lists) -> bool {
    // Both lie at the start of the static ones.
    lists.addr().wrapping_sub(empty().addr()) < size_of::<Zeros>()
}

/// The lists with this face, and what the thread has besides, which lies as far behind the face as they do before it;
/// `None` if these are no face, but lists.
#[inline(always)]
pub(super) fn behind_face(face: *mut Lists) -> Option<(*mut Lists, *mut u8)> {
    // SAFETY: what a thread points at is lists, which are never given up; those of a thread without lists are zeros.
    let lists = unsafe { (*face).faced.load(Relaxed) };
    (!lists.is_null()).then(|| (lists, face.wrapping_byte_add(face.addr() - lists.addr()).cast()))
}

/// Where the [medium](super::medium) lists of a thread with these lists lie.
#[inline(always)]
pub(super) fn medium(lists: *mut Lists) -> *mut u8 {
    lists.wrapping_byte_add(offset_of!(Lists, medium)).cast()
}

/// The list of the same class that is always empty and full.
pub(super) fn shadow(list: u32) -> u32 {
    list - SHADOW
}

/// The list that a block is of, where it is said to be of that or of its shadow.
#[inline(always)]
pub(super) fn unshadowed(list: u32) -> u32 {
    if list & 1 == 1 { list + SHADOW } else { list }
}

/// Lists for one more thread, all empty; `None` if there is no memory for them.
pub(super) fn make() -> Option<NonNull<Lists>> {
    let words = WORDS.load(Relaxed);
    let besides = if mode::is_hardened() { words * WORD + OWN } else { 0 };
    let bytes = (words * WORD + besides).next_multiple_of(os::page_size());
    let lists = match besides {
        // There is a list in each of its OS pages.
        0 => os::allocate_used(bytes)?,
        _ => os::allocate(bytes)?,
    };
    let lists = lists.cast::<Lists>();
    let mut class = 0;
    let mut make = |from: u32, to: usize| {
        let most = (to - from as usize - size_of::<List>() / WORD) as u16;
        let size = class_size(from) as u16;
        let (list, shadow) = (at(lists, from), at(lists, shadow(from)));
        let bottom = (blocks(list).addr() - lists.addr()) / size_of::<*mut u8>() - 1;
        // SAFETY: the memory has room for a list at every offset of the table, and the head of one before it, and is
        // fresh; zeros are a head.
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
        // SAFETY: the face's memory is fresh, and nobody else's.
        unsafe { (*face(made)).faced.store(lists, Relaxed) };
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

/// What lies at a place of a thread's lists.
#[inline(always)]
fn entry(lists: *mut Lists, place: u32) -> *mut *mut u8 {
    lists.cast::<*mut u8>().wrapping_add(place as usize)
}

/// Takes the block put on a list last; `None` if it is empty, or a [look](Lists::look) is due.
///
/// # Safety
/// `lists` are the calling thread's, and `offset` was got from the tables.
#[inline(always)]
pub(super) unsafe fn pop(lists: *mut Lists, offset: u32) -> Option<NonNull<u8>> {
    let list = at(lists, offset);
    // SAFETY: a list lies there, and only this thread changes it; at its top lies a block, or none.
    unsafe {
        let top = (*list).top.load(Relaxed);
        let block = NonNull::new(entry(lists, top).read())?;
        // The lists of a thread without lists are not written: they are empty.
        if !(*lists).countdown.pop() {
            return None;
        }
        (*list).top.store(top - 1, Relaxed);
        compiler_fence(Release);
        Some(block)
    }
}

/// Counts a block as popped that is taken elsewhere; whether no [look](Lists::look) is due.
///
/// # Safety
/// As for [`pop`], and the thread has lists.
#[inline(always)]
pub(super) unsafe fn counts_pop(lists: *mut Lists) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*lists).countdown.pop() }
}

/// When a list has too few blocks to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Low {
    /// When it is empty.
    Empty,
    /// At an eighth of what it takes.
    Eighth,
}

/// Takes a block off a list, the one at the place that `choose` says of so many, and says how long it is;
/// `None` if the list is as [low](Low) as that, or a [look](Lists::look) is due.
///
/// # Safety
/// As for [`pop`]; the place is one of the list's.
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
        if !(*lists).countdown.pop() {
            return None;
        }
        let place = blocks(list).add(choose(count) as usize);
        // Uncounted before it moves: no block is ever counted twice.
        (*list).set_count(left);
        compiler_fence(Release);
        let block = place.read().assume_init();
        place.write(blocks(list).add(left as usize).read());
        Some((block, usize::from((*list).size)))
    }
}

/// Has a list begin at another of its blocks, and keep their order but for that: `choose` says how many move
/// from the end to the front.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn rotate(lists: *mut Lists, offset: u32, choose: impl FnOnce(u32) -> u32) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. The list is empty meanwhile: the child of a fork must not find a block twice.
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

/// The size of a list's blocks, bytes.
#[inline(always)]
pub(super) fn block_size(lists: *mut Lists, offset: u32) -> usize {
    // SAFETY: a list lies there; its size does not change.
    usize::from(unsafe { (*at(lists, offset)).size })
}

/// Puts a block on a list; `false` if it is full, or the block is the one put there last.
///
/// # Safety
/// As for [`pop`]; the block is free and of the list's class, unless it is that one.
#[inline(always)]
pub(super) unsafe fn push(lists: *mut Lists, offset: u32, block: NonNull<u8>) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`; up to the limit there is room.
    unsafe {
        let top = (*list).top.load(Relaxed);
        if top == (*list).limit.get() || entry(lists, top).read() == block.as_ptr() {
            return false;
        }
        entry(lists, top).wrapping_add(1).write(block.as_ptr());
        compiler_fence(Release);
        (*list).top.store(top + 1, Relaxed);
        true
    }
}

/// Whether a block is the one put last on a list: a list that is not full refuses only that.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn has_last(lists: *mut Lists, offset: u32, block: NonNull<u8>) -> bool {
    // SAFETY: as in `pop`.
    unsafe { entry(lists, (*at(lists, offset)).top.load(Relaxed)).read() == block.as_ptr() }
}

impl Lists {
    /// Whether the thread's blocks come from this heap; `false` of lists that have no heap yet.
    pub(super) fn are_of(&self, heap: &Heap) -> bool {
        ptr::eq(self.heap.load(Relaxed), heap)
    }

    /// Where the blocks of the last thread that had them came from, if one had.
    pub(super) fn last_heap(&self) -> Option<&'static Heap> {
        // SAFETY: heaps are never given up.
        unsafe { self.heap.load(Relaxed).as_ref() }
    }

    /// Where the thread's blocks come from.
    pub(super) fn heap(&self) -> &'static Heap {
        // SAFETY: lists in use have a heap, and heaps are never given up.
        unsafe { &*self.heap.load(Relaxed) }
    }

    /// Looks at the clock if it is time to, and gives memory back if that is due; `follow` is called before, now and then.
    /// Whether the block at hand is to be [guarded](super::guarded), which is to be popped, or not.
    pub(super) fn look(&self, is_popped: bool, follow: impl FnOnce(&Self)) -> bool {
        /// Pops between two looks; while memory goes back, of which each does a small part.
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
        let guarded = self.countdown.is_due(Due::Guarded) && self.guards();
        if self.countdown.is_due(Due::Sample) {
            // Whether the block at hand is sampled was decided before, without this: any trial may be left out.
            let in_trials = mode::is_profiled() && !mode::is_hardened();
            let trials = if in_trials { self.sampler.draw() } else { NEVER - 1 };
            self.countdown.set(Due::Sample, trials + i32::from(is_popped));
        }
        self.countdown.arm();
        guarded
    }

    /// Gives memory back if that is due; whether more is.
    fn look_at_clock(&self, follow: impl FnOnce(&Self)) -> bool {
        /// Milliseconds between two looks at the heap; it is one while memory goes back.
        const PAUSE: u32 = 64;
        let now = os::now() as u32;
        let since = now.wrapping_sub(self.looked.get());
        if since < PAUSE {
            return since == PAUSE - 1;
        }
        follow(self);
        let more = self.heap().maintain();
        self.looked.set(if more { now.wrapping_sub(PAUSE - 1) } else { now });
        more
    }

    /// Notes on which NUMA node the thread is; whether it was there at its last look, too.
    pub(super) fn is_again_on(&self, node: u32) -> bool {
        self.node.replace(node) == node
    }

    /// Whether the block at hand is to be guarded, which was due if any is.
    fn guards(&self) -> bool {
        let one_in = mode::guarded();
        if one_in == 0 {
            self.countdown.set(Due::Guarded, NEVER);
            return false;
        }
        self.countdown.set(Due::Guarded, pops_to_guarded(one_in, os::random()));
        self.guards.replace(true)
    }

    /// Whether a small block is to be sampled, which the thread is about to take. (Not to be asked but while there is a
    /// profile.)
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn samples_small(&self, size: usize) -> bool {
        let renews = self.sampler.renews();
        if !renews && !self.countdown.is_over() {
            return false;
        }
        self.countdown.settle();
        let due = self.countdown.is_due(Due::Sample);
        let sampled = if renews {
            // The block at hand is the first trial.
            self.countdown.set(Due::Sample, NEVER);
            match self.sampler.draw() {
                0 => self.sampler.hits(size),
                trials => {
                    self.countdown.set(Due::Sample, trials);
                    self.countdown.arm();
                    return false;
                }
            }
        } else {
            due && self.sampler.hits(size)
        };
        if due || renews {
            self.countdown.set(Due::Sample, 1 + self.sampler.draw());
        }
        self.countdown.arm();
        sampled
    }

    /// Whether a block is to be sampled that does not count as a pop, as far as sampling goes. (As above.)
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn samples_other(&self, size: usize) -> bool {
        if self.sampler.renews() {
            self.countdown.settle();
            self.countdown.set(Due::Sample, self.sampler.draw());
            self.countdown.arm();
        }
        self.sampler.passes(size)
    }

    /// The block at hand was to be popped, but came from elsewhere.
    pub(super) fn skips_pop(&self) {
        self.countdown.pop();
    }

    /// Has the thread take the slow path for its next block.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn comes_by(&self) {
        self.countdown.settle();
    }

    pub(super) fn set_heap(&self, heap: &'static Heap) {
        self.heap.store(ptr::from_ref(heap).cast_mut(), Relaxed);
    }
}

/// Pops until the next block that is guarded, where one in `one_in` is: as many on average, one at least, and never foreseeable.
fn pops_to_guarded(one_in: u32, random: u64) -> i32 {
    let most = (2 * u64::from(one_in) - 2).max(1);
    (1 + random % most) as i32
}

/// Takes blocks from a heap for a list, perhaps without waiting: half as many as it takes, or as many as it takes where
/// the last two batches were taken, too. Whether it got any. The lowest are popped first.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn refill(lists: *mut Lists, offset: u32, heap: &Heap, wait: Wait) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. A heap gives free blocks of the class asked for.
    unsafe {
        let before = (*list).count() as usize;
        (*list).widen();
        let capacity = (*list).capacity() as usize;
        debug_assert!(before <= capacity / 2, "a list is filled that has few blocks");
        let goes_on = (*list).takes_again();
        let wanted = if goes_on { capacity - before } else { capacity / 2 };
        let room = core::slice::from_raw_parts_mut(blocks(list).add(before), wanted);
        let count = heap.take(wait, (*list).class.into(), offset, room);
        compiler_fence(Release);
        (*list).set_count((before + count) as u32);
        count > 0
    }
}

/// Makes room on a full list: widens it, or puts the older half of its blocks back to their heaps; seven eighths where
/// the last two batches were put back, too.
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn make_room(lists: *mut Lists, offset: u32) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        if !(*list).widen() {
            let count = (*list).count() as usize;
            let kept = if (*list).puts_back_again() { count / 8 } else { count / 2 };
            put_back(list, count - kept, true);
        }
    }
}

/// Puts all blocks of a list back to their heaps; `looks` as for [`Heap::put`].
///
/// # Safety
/// As for [`pop`].
pub(super) unsafe fn flush(lists: *mut Lists, offset: u32, looks: bool) {
    let list = at(lists, offset);
    // SAFETY: as in `pop`.
    unsafe {
        put_back(list, (*list).count() as usize, looks);
        // Of the static lists nothing is written that others read.
        if (*list).most > 0 {
            (*list).narrow();
        }
    }
}

/// Bytes of all blocks on lists.
pub(super) fn bytes(lists: *mut Lists) -> usize {
    let mut bytes = 0;
    for_each(|offset| {
        let (count, size) = kept(lists, offset);
        bytes += count * size;
    });
    bytes
}

/// Puts back what is on lists; `looks` as for [`Heap::put`].
///
/// # Safety
/// They are the calling thread's, those of a thread without lists among them, or nobody's any more.
pub(super) unsafe fn flush_all(lists: *mut Lists, looks: bool) {
    for_each(|offset| {
        // SAFETY: nobody else uses the lists, by the caller's promise.
        unsafe { flush(lists, offset, looks) };
    });
}

/// Puts the oldest blocks of a list back to their heaps. The list is empty meanwhile: the child of a
/// fork must not find blocks on it that are in their heaps already. `looks` as for [`Heap::put`].
///
/// # Safety
/// As for [`pop`]; the list has that many.
unsafe fn put_back(list: *mut List, older: usize, looks: bool) {
    // SAFETY: as in `pop`; blocks on a list are free, and no longer on it after.
    unsafe {
        let count = (*list).count() as usize;
        (*list).set_count(0);
        compiler_fence(Release);
        Heap::put(core::slice::from_raw_parts_mut(blocks(list).cast(), older), looks);
        ptr::copy(blocks(list).add(older), blocks(list), count - older);
        compiler_fence(Release);
        (*list).set_count((count - older) as u32);
    }
}

/// The number of blocks on a list, also another thread's, and their size.
pub(super) fn kept(lists: *mut Lists, offset: u32) -> (usize, usize) {
    // SAFETY: a list lies there; its top is atomic.
    let count = unsafe { (*at(lists, offset)).count() };
    (count as usize, block_size(lists, offset))
}

#[cfg(test)]
mod tests {
    use super::super::tuning::{SMALL_MAX, UNIT};
    use super::*;

    /// A list keeps its bytes, or twice as many where these are few blocks; what is set to less keeps less.
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

    /// Every distance from one guarded block to the next is as likely as any other, up to twice the mean.
    #[test]
    fn one_block_in_so_many_is_guarded() {
        for one_in in [1, 2, 3, 100, 1 << 10] {
            let most = (2 * one_in - 2).max(1);
            let pops: Vec<i32> =
                (0..2 * most).map(|random| pops_to_guarded(one_in, random.into())).collect();
            let all: Vec<i32> = (1..=most as i32).collect();
            assert_eq!(pops, [&all[..], &all[..]].concat(), "{one_in}");
        }
        assert!((1..i32::MAX).contains(&pops_to_guarded(1 << 30, u64::MAX)));
    }

    /// Lists that are no thread's; sampling and the clock are never due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    fn with_guarded_blocks_only() -> &'static Lists {
        // SAFETY: they are never given up.
        let lists = unsafe { make().expect("there is memory").as_ref() };
        [Due::Clock, Due::Sample].iter().for_each(|&due| lists.countdown.set(due, NEVER));
        lists
    }

    /// The first block for which it is due is not guarded, but begins the first distance; where no block is to be, it is never
    /// due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_guards_from_the_second_time_on() {
        super::super::registry::heap_for_test();
        let lists = with_guarded_blocks_only();
        assert_eq!([(); 3].map(|()| lists.guards()), [false; 3]);
        lists.countdown.arm();
        lists.countdown.settle();
        assert!(!lists.countdown.is_due(Due::Guarded));
        crate::os::alone::passes("global::native::quick::tests::guards");
    }

    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn guards() {
        // Its first block opens the allocator.
        let pagewise = crate::global::Pagewise { tuning: Tuning { guarded: 2, ..Tuning::new() } };
        assert!(!pagewise.allocate(1).is_null());
        let lists = with_guarded_blocks_only();
        assert_eq!([(); 3].map(|()| lists.guards()), [false, true, true]);
        lists.countdown.arm();
        let pops = (0..).find(|_| !lists.countdown.pop());
        assert!(matches!(pops, Some(1 | 2)), "{pops:?}");
    }

    /// Lists have as much room as fits, two blocks at least, however many classes there are.
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

    /// An empty list that takes so many blocks at present, and has room for so many.
    fn list(capacity: u32, most: u16) -> List {
        const BOTTOM: u32 = 1000;
        List {
            top: AtomicU32::new(BOTTOM),
            limit: Cell::new(BOTTOM + capacity),
            size: 16,
            class: 0,
            most,
            batches: Cell::new(0),
            streak: Cell::new(0),
            bottom: BOTTOM,
            none: [0; 3],
        }
    }

    /// A list takes twice as many blocks after eight batches, up to its room; one that is emptied begins anew.
    #[test]
    fn a_list_is_widened_by_batches() {
        for most in [2, 63, 64, 65, 100, 256] {
            let list = list(2, most);
            list.set_count(1);
            for _ in 0..2 {
                list.narrow();
                assert!(!list.takes_again() && !list.puts_back_again());
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
                (0..3).for_each(|_| _ = list.takes_again());
            }
        }
    }

    /// A thread looks after its heap every 64 ms, or each time while memory goes back.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_looks_after_its_heap_now_and_then() {
        let heap = super::super::registry::heap_for_test();
        // SAFETY: the lists are no thread's, and never given up.
        let lists = unsafe { make().expect("there is memory").as_ref() };
        lists.set_heap(heap);
        // What a look so many milliseconds after the last one does: whether it is one, when it was, and whether there is more.
        // It is tried until no time goes by meanwhile.
        let look = |since: u32| loop {
            let now = os::now();
            lists.looked.set((now as u32).wrapping_sub(since));
            let mut looks = false;
            let more = lists.look_at_clock(|_| looks = true);
            if os::now() == now {
                break (looks, (now as u32).wrapping_sub(lists.looked.get()), more);
            }
        };
        for since in [0, 1, 32, 62] {
            assert_eq!(look(since), (false, since, false));
        }
        assert_eq!(look(63), (false, 63, true), "memory was going back");
        // Other heaps may be looked after, too, and give memory back.
        for since in [64, 65, 1 << 20, u32::MAX] {
            let (looks, ago, more) = look(since);
            assert!(looks && ago == if more { 63 } else { 0 }, "{since}: {ago}, {more}");
        }
    }

    /// The third batch that goes the same way is larger, on a list that takes more than at first.
    #[test]
    fn batches_that_go_the_same_way_are_larger() {
        for (list, is_wide) in [(list(64, 256), false), (list(128, 256), true), (list(8, 8), true)]
        {
            for _ in 0..2 {
                assert_eq!([(); 4].map(|()| list.takes_again()), [false, false, is_wide, is_wide]);
                assert_eq!([(); 3].map(|()| list.puts_back_again()), [false, false, is_wide]);
            }
            for _ in 0..300 {
                assert!(!list.takes_again() && !list.puts_back_again());
            }
            let last = (0..300).map(|_| list.takes_again()).last();
            assert_eq!(last, Some(is_wide), "it is counted to the end");
        }
    }
}
