//! Quick lists of medium blocks, above FFCROSSOVER and up to 1 MiB: dozens of blocks for each list
//! and thread, under a budget of bytes over all threads.
//!
//! ```text
//!  lists  16,384 18,432 20,480 … | 32,768 36,864 … | 65,536 73,728 … 131,072
//!                                                    eight for each doubling, each of one class
//!         … 147,456 … 163,840 … | … 262,144 … 294,912 … | … 1,048,576
//!                                                    as many, each of one class at a time
//!
//!             allocated            freed                   allocated
//!  mark  none ─────────▶ in use ─────────▶ kept, on a list ─────────▶ in use
//!         ▲                 └─────▶ none      │ put back, by its thread or by any other
//!         └───────────────────────────────────┘
//! ```
//! A request of up to 128 KiB is rounded up to its class, by 12.5 % at most, so that a freed block
//! serves all requests of the class. (Powers of two, and eighths between them, are classes, so they
//! are not rounded.) If the list of a class is empty, a block of one of the next two classes
//! serves.
//!
//! Above 128 KiB there is a class for each 2 KiB, and a list serves one of eight or more. Fewer
//! classes would waste memory, and keep back blocks of many sizes in a program that uses each of
//! them once; buffers have the same size again and again. Each request for another class of the
//! list halves its room, unless the last of its blocks was freed since the last such request. Once
//! no room is left, its blocks go back and the list turns to the class requested. Only requests for
//! the class of a list are rounded up.
//!
//! A request with a larger alignment, up to an OS page, takes a block from the list that happens to
//! be aligned so. If the program allocates with this alignment repeatedly, there are such blocks.
//!
//! **Marks.** Each block that has a class also has a [mark], in a table beside the
//! heaps that is indexed by address: the class, where in its granule the block starts, and whether
//! a list keeps it. So a double free is noticed, by any thread, unless both frees happen at the
//! same moment.
//!
//! **Visitors.** A [gate](crate::global::native::base::gate) protects a thread's lists; it costs
//! their thread no atomic read-modify-write operation. Other threads may visit the lists to put
//! back blocks that were [idle for a while](super::idle). If their thread comes to the gate
//! meanwhile, it goes to its heap instead.
//!
//! **Room.** At first a list has room for no blocks. If a block of a class is freed and turned
//! away, and then one of this class is wanted, the list would have served: it gets room for one
//! block, and for twice as many each further time. Once it has all the room, the thread's lists may
//! hold as many more bytes instead, up to a bound. So blocks that a program frees once and for all,
//! as when it copies an array into a larger one, coalesce in the heap with their free neighbours.
//! Above 128 KiB the block that is wanted must be the last that was turned away, and none makes
//! smaller blocks give way.
//!
//! **Waves.** A list that was full and now runs dry gets several blocks at once, which are
//! [adjacent](Run) where the heap has such memory, and then go back to it together. When it is full
//! again, its oldest blocks go to the [overflow], and return from there.
//!
//! For its heap, a block on a list is in use. Two words at its start reveal, when it leaves the
//! list, that the program wrote to it after it was freed. In hardened mode there are no such lists.

mod budget;
mod class;
mod list;
mod lists;
mod overflow;
mod room;
mod run;
mod waves;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use self::class::{Class, ROUNDED, mark};
pub(super) use self::lists::Blocks;
pub(in crate::global::native) use self::lists::{Lists, usable};
pub(in crate::global::native) use self::run::Run;
use super::{current, quick};
use crate::global::native::base::sync;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::slot::Slot;
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::UNIT;
use crate::pages::PageHeap;

/// The largest alignment of blocks that come from lists in bytes: an OS page.
const MOST_ALIGN: usize = 4096;

/// Notes a request that is not small, and that no list serves. Returns the bytes to request from
/// the heap for it. Above [`ROUNDED`], its list turns to this size unless it has room for blocks of
/// another.
pub(in crate::global::native) fn note_missed(size: usize, align: usize) -> usize {
    let Some(class) = Class::of(size).filter(|_| align <= MOST_ALIGN) else { return size };
    if is_listed(class) {
        return class.size();
    }
    if let Some(lists) = own() {
        lists.turn_to(class);
    }
    size
}

/// Returns the bytes that a block of `size` bytes, which is not small, should have.
pub(in crate::global::native) fn round(size: usize, align: usize) -> usize {
    match Class::of(size) {
        Some(class) if align <= MOST_ALIGN && is_listed(class) => class.size(),
        _ => size,
    }
}

/// Returns whether a list of the calling thread has this class.
fn is_listed(class: Class) -> bool {
    class.size() <= ROUNDED || own().is_some_and(|lists| lists.list(class).is_of(class))
}

/// Returns the lists of the calling thread; `None` if it has none. Not for hardened mode.
#[inline(always)]
fn own() -> Option<&'static Lists> {
    let lists = current::lists();
    if quick::is_none(lists) { None } else { Some(of(lists)) }
}

/// Returns the medium lists of a thread with these quick lists. Those of a thread without lists are
/// static: they are empty, have no room, and must not be written.
#[inline(always)]
pub(in crate::global::native) fn of(lists: *mut quick::Lists) -> &'static Lists {
    // SAFETY: in the default mode every thread's quick lists contain these, zeros at first; they
    // are never freed, and consist of atomics only.
    unsafe { &*quick::medium(lists).cast() }
}

/// Takes a block for a request from a thread's lists, if the fast path finds one. Not for hardened
/// mode.
///
/// # Safety
/// The lists are the calling thread's.
#[inline(always)]
pub(in crate::global::native) unsafe fn allocate(
    lists: *mut quick::Lists,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    if align > UNIT {
        return None;
    }
    let class = Class::served_at_once(size)?;
    // SAFETY: the lists are the calling thread's. They are its own, not a stand-in: there is a
    // block.
    of(lists).pop(class, || unsafe { quick::count_pop(lists) })
}

/// As [`allocate`], on the slow path: also takes a block of a slightly larger class, or, for an
/// `align` above [`UNIT`], the last block of the class that is aligned so. `None` if there is none,
/// the lists do not serve such requests, or [periodic work](quick::Lists::do_periodic_work) is due.
pub(in crate::global::native) fn allocate_slowly(size: usize, align: usize) -> Option<NonNull<u8>> {
    let class = Class::served(size).filter(|_| align <= MOST_ALIGN)?;
    let lists = own().filter(|lists| lists.may_serve(class))?;
    // SAFETY: the lists are the calling thread's own.
    let may_pop = unsafe { quick::count_pop(current::lists()) };
    match may_pop {
        true if align > UNIT => lists.pop_aligned(class, align),
        true => lists.pop_slowly(class),
        false => None,
    }
}

/// Returns whether lists serve requests of `size` bytes for zeros. Longer ones are served by the
/// heap, which clears only what is not known to hold zeros.
pub(in crate::global::native) fn serves_zeroed(size: usize) -> bool {
    size <= ROUNDED
}

/// Marks a block that the heap has just allocated for `size` bytes as in use, if a list has a class
/// of that size, so that it may keep the block when it is freed. Tells the list that it was empty.
#[inline]
pub(in crate::global::native) fn set_mark(block: NonNull<u8>, size: usize, align: usize) {
    if let Some(class) = Class::of(size).filter(|class| class.size() == size)
        && align <= MOST_ALIGN
        && is_listed(class)
    {
        if let Some(lists) = own() {
            lists.note_miss(class);
        }
        let block = block.as_ptr();
        SPACE.mark_of(block).store(mark::in_use(block, class.0), Relaxed);
    }
}

/// Marks a block in use as none of the lists', whether it has a class or not: it is resized, or
/// freed to its heap.
#[inline]
pub(in crate::global::native) fn clear_mark(block: NonNull<u8>) {
    let mark = SPACE.mark_of(block.as_ptr());
    if mark::class_of(mark.load(Relaxed), block.as_ptr()).is_some() {
        mark.store(mark::NONE, Relaxed);
    }
}

/// Returns the size of the class of a block in use, if it has one. Stops the process if a list
/// keeps the block, or its header was overwritten.
///
/// # Safety
/// The block was allocated in a slot, and no other thread resizes it meanwhile.
#[inline]
pub(in crate::global::native) unsafe fn size_of_block(block: NonNull<u8>) -> Option<usize> {
    // SAFETY: the callee has the same contract.
    unsafe { class_of_block(block, Misuse::NotInUse).map(Class::size) }
}

/// As [`size_of_block`], but returns the class. `misuse` is the misuse if a list keeps the block.
///
/// # Safety
/// As for [`size_of_block`].
#[inline]
unsafe fn class_of_block(block: NonNull<u8>, misuse: Misuse) -> Option<Class> {
    let mark = SPACE.mark_of(block.as_ptr()).load(Relaxed);
    let class = mark::class_of(mark, block.as_ptr()).map(Class)?;
    if mark & mark::KEPT != 0 {
        misuse::stop(misuse, block.as_ptr());
    }
    // A block of a class is exactly as long as the class.
    // SAFETY: the mark says that the block starts here.
    if !unsafe { PageHeap::<Slot>::is_tagged_of(block, class.size()) } {
        misuse::stop(Misuse::Damaged, block.as_ptr());
    }
    Some(class)
}

/// Frees a block onto a thread's lists, if one takes it at once. They never take a sampled block,
/// and none in hardened mode.
///
/// # Safety
/// As for [`free`](crate::global::native::requests::paths::free); the lists are the calling
/// thread's, and the block is in a slot.
#[inline(always)]
pub(in crate::global::native) unsafe fn free(lists: *mut quick::Lists, block: NonNull<u8>) -> bool {
    // SAFETY: the caller gives the guarantees that `free_within` asks for.
    of(lists).with_biased(|lists| unsafe { free_within(lists, block) }) == Some(true)
}

/// As [`free`], behind the gate. While the gate is shut, as always in hardened mode, no block is
/// looked at.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
unsafe fn free_within(lists: &Lists, block: NonNull<u8>) -> bool {
    // Only blocks with a class have a mark, and it matches only the address at which the block
    // starts.
    let mark = SPACE.mark_of(block.as_ptr());
    let Some(class) = mark::class_in_use(mark.load(Relaxed), block.as_ptr()).map(Class) else {
        return false;
    };
    // SAFETY: the block is in use, as its mark says, and the caller alone uses it, so no other
    // thread changes its length.
    unsafe {
        PageHeap::<Slot>::is_tagged_of(block, class.size()) && lists.push_within(class, block, mark)
    }
}

/// As [`free`], if the list has no room or something is wrong. If it is full, the block goes back
/// to its heap. `false` if the block has no class, the thread has no lists, or a list turns a block
/// above [`ROUNDED`] away, which is then freed as large blocks are. Stops the process if the
/// block's header was overwritten.
///
/// # Safety
/// As for [`free`].
pub(in crate::global::native) unsafe fn free_slowly(block: NonNull<u8>) -> bool {
    // SAFETY: the caller guarantees that the block was allocated in a slot, and alone uses it.
    let Some(class) = (unsafe { class_of_block(block, Misuse::FreedTwice) }) else { return false };
    let mark = SPACE.mark_of(block.as_ptr());
    let Some(lists) = own() else {
        mark.store(mark::NONE, Relaxed);
        return false;
    };
    // SAFETY: the caller guarantees that the block is in use and freed once; its tag says that it
    // is of the class.
    unsafe {
        if lists.push_slowly(class, block, mark) {
            return true;
        }
        mark.store(mark::NONE, Relaxed);
        if class.size() > ROUNDED {
            return false;
        }
        Heap::put_medium(&[block], Upkeep::IfDue);
    }
    true
}

/// Puts the calling thread's [overflow] back if it has more bytes than a heap has to `spare`. Not
/// for hardened mode.
pub(super) fn make_way(spare: usize) {
    if let Some(lists) = own() {
        lists.make_way(spare);
    }
}

/// Number of threads whose lists are looked at in one visit.
pub(super) const AT_ONCE: usize = 16;

/// Visits these threads' lists: puts these of their blocks back, as long as `goes_on` returns true.
/// Returns how many threads' lists were looked at, and whether anything was put back.
pub(super) fn visit(
    threads: &[*mut quick::Lists],
    blocks: Blocks,
    mut goes_on: impl FnMut() -> bool,
) -> (usize, bool) {
    debug_assert!(threads.len() <= AT_ONCE);
    let own = current::lists();
    let mut shut = [false; AT_ONCE];
    for (shut, &thread) in shut.iter_mut().zip(threads) {
        *shut = thread != own && of(thread).is_used() && of(thread).gate.shut();
    }
    // One barrier serves all lists.
    let passed = shut.contains(&true) && sync::heavy_barrier();
    let (mut looked, mut any) = (0, false);
    for (number, (&thread, &shut)) in threads.iter().zip(&shut).enumerate() {
        let lists = of(thread);
        let looks = looked == number && goes_on();
        looked += usize::from(looks);
        if shut {
            any |= looks && lists.gate.is_owner_out(passed) && lists.put_back_at_visit(blocks);
            lists.gate.open();
        } else if looks && thread == own && lists.is_used() {
            any |= lists.with(|| lists.put_back_at_visit(blocks)) == Some(true);
        }
    }
    (looked, any)
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
