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
//! An aligned request, up to an OS page, is served by a block of the list that happens to be so: those that a program
//! allocated with this alignment are.
//!
//! **Marks.** Each block of a class has a [mark](class::mark) beside the heaps, found by its address: its class, where in
//! its granule it starts, and whether a list keeps it. So a second free is noticed, whichever thread's it is, unless both
//! happen at the same moment.
//!
//! **Visitors.** A thread is alone with its lists behind a [gate](super::gate), which costs it no atomic operation that
//! others see at once. So other threads may visit them, and put back what [nobody used for a while](super::idle); their
//! thread meanwhile turns to its heap.
//!
//! **Room.** A list takes no block at first. Where one of its class is wanted again soon after one was turned away, it would
//! have served: it has room for one then, and for twice as many each further time. So what a program frees once and for
//! all, as when it copies an array into a larger one, joins what is free beside it in the heap.
//!
//! A block on a list is in use for its heap. At its start stand two words that tell of writes to it when it leaves the
//! list, as the heap's own would. In hardened mode there are no such lists.

mod class;
mod lists;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use self::class::{Class, mark};
pub(super) use self::lists::{Lists, usable};
use super::fault::{self, Fault};
use super::heap::Heap;
use super::space::{SPACE, Slot};
use super::tuning::UNIT;
use super::{current, quick, sync};
use crate::pages::PageHeap;

/// The largest alignment of blocks that come from lists: an OS page.
const MOST_ALIGN: usize = 4096;

/// What is asked of the heap for a request that is not small.
pub(super) fn round(size: usize, align: usize) -> usize {
    match Class::of(size) {
        Some(class) if align <= MOST_ALIGN => class.size(),
        _ => size,
    }
}

/// The lists of the calling thread, if it has some. Not to be called in hardened mode.
#[inline(always)]
fn own() -> Option<&'static Lists> {
    let lists = current::lists();
    if quick::is_none(lists) { None } else { Some(of(lists)) }
}

/// The medium lists of a thread with these quick lists. Those of a thread without lists are empty and have no room, and are not
/// to be written.
#[inline(always)]
pub(super) fn of(lists: *mut quick::Lists) -> &'static Lists {
    // SAFETY: in the usual mode every thread's lists have these among them, zeros at first; they are never given up, and
    // all of them is atomic.
    unsafe { &*quick::medium(lists).cast() }
}

/// A block for a request from a thread's lists, if that is found at once. Not to be called in hardened mode.
///
/// # Safety
/// The lists are the calling thread's.
#[inline(always)]
pub(super) unsafe fn allocate(
    lists: *mut quick::Lists,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    if align > UNIT {
        return None;
    }
    let class = Class::served_at_once(size)?;
    // SAFETY: the lists are the calling thread's, which has some, for there is a block.
    of(lists).pop(class, || unsafe { quick::counts_pop(lists) })
}

/// As [`allocate`], or one of the next larger class, or of those there the last that is aligned; `None` if the lists do not
/// serve such, or have none, or a [look](quick::Lists::look) is due.
pub(super) fn allocate_slowly(size: usize, align: usize) -> Option<NonNull<u8>> {
    let class = Class::served(size).filter(|_| align <= MOST_ALIGN)?;
    let lists = own()?;
    // SAFETY: the lists are the calling thread's own.
    let counts = unsafe { quick::counts_pop(current::lists()) };
    match counts {
        true if align > UNIT => lists.pop_aligned(class, align),
        true => lists.pop_slowly(class),
        false => None,
    }
}

/// Says that a block of the heap, for which `size` bytes were asked, is in use: where that is a class's size, it may come
/// onto a list, and one there would have been of use.
#[inline]
pub(super) fn begin(block: NonNull<u8>, size: usize, align: usize) {
    if let Some(class) = Class::of(size).filter(|class| class.size() == size)
        && align <= MOST_ALIGN
    {
        if let Some(lists) = own() {
            lists.missed(class);
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
    Some(Class(class).size())
}

/// Frees a block onto a thread's lists, if one takes it at once: no block that is sampled, and in hardened mode none.
///
/// # Safety
/// As for [`free`](super::paths::free); the lists are the calling thread's, and the block lies in a slot.
#[inline(always)]
pub(super) unsafe fn free(lists: *mut quick::Lists, block: NonNull<u8>) -> bool {
    // SAFETY: passed on.
    of(lists).with_biased(|lists| unsafe { free_within(lists, block) }) == Some(true)
}

/// As [`free`], behind the gate: what is shut, as in hardened mode, looks at no block.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn free_within(lists: &Lists, block: NonNull<u8>) -> bool {
    // No other block has a mark, and no address beside a block.
    let mark = SPACE.mark_of(block.as_ptr());
    let Some(class) = mark::class_in_use(mark.load(Relaxed), block.as_ptr()).map(Class) else {
        return false;
    };
    // SAFETY: the block is in use, as its mark says; so nobody else changes its length. The caller's promise.
    unsafe {
        PageHeap::<Slot>::is_tagged_of(block, class.size()) && lists.push_within(class, block, mark)
    }
}

/// As [`free`], where there is no room, or something is wrong; `false` if the block has no class, or is for the heap to free.
///
/// # Safety
/// As for that; the block lies in a slot.
pub(super) unsafe fn free_slowly(block: NonNull<u8>) -> bool {
    let mark = SPACE.mark_of(block.as_ptr());
    let before = mark.load(Relaxed);
    let Some(class) = mark::class_of(before, block.as_ptr()).map(Class) else { return false };
    if before & mark::KEPT != 0 {
        fault::stop(Fault::FreedTwice, block.as_ptr());
    }
    // SAFETY: as in `free`.
    let whole = unsafe { PageHeap::<Slot>::is_tagged_of(block, class.size()) };
    let Some(lists) = own().filter(|_| whole) else {
        // The heap knows what else is wrong, if anything.
        mark.store(mark::NONE, Relaxed);
        return false;
    };
    // SAFETY: the caller's promise; the block is of the class, and freed once.
    unsafe {
        if !lists.push_slowly(class, block, mark) {
            mark.store(mark::NONE, Relaxed);
            Heap::put_medium(&[block], true);
        }
    }
    true
}

/// Lists that are looked at in one visit.
pub(super) const AT_ONCE: usize = 16;

/// Puts back what lay on these threads' lists at the last visit, and since, or whatever lies there (`all`), as long as that
/// `goes_on`. How many threads' were looked at, and whether anything was put back.
pub(super) fn visit(
    threads: &[*mut quick::Lists],
    all: bool,
    mut goes_on: impl FnMut() -> bool,
) -> (usize, bool) {
    debug_assert!(threads.len() <= AT_ONCE);
    let own = current::lists();
    let mut shut = [false; AT_ONCE];
    for (shut, &thread) in shut.iter_mut().zip(threads) {
        *shut = thread != own && of(thread).is_used() && of(thread).gate.shut();
    }
    // One for all.
    let passed = shut.contains(&true) && sync::heavy_barrier();
    let (mut looked, mut any) = (0, false);
    for (number, (&thread, &shut)) in threads.iter().zip(&shut).enumerate() {
        let lists = of(thread);
        let looks = looked == number && goes_on();
        looked += usize::from(looks);
        if shut {
            any |= looks && lists.gate.is_left(passed) && lists.put_back_idle(all);
            lists.gate.open();
        } else if looks && thread == own && lists.is_used() {
            any |= lists.with(|| lists.put_back_idle(all)) == Some(true);
        }
    }
    (looked, any)
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
