//! Allocating and freeing in hardened mode.
//!
//! | block | checked when it is freed | checked when it is handed out |
//! |---|---|---|
//! | small | state, size, canary | state; zeros |
//! | up to [`mapping_from`](crate::global::Tuning::mapping_from) | state, size, the words before and behind | state; the links of free memory |
//! | mapping | its header, and the fences | |
//!
//! The paths of small blocks call functions only in rare cases.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use super::canary;
use super::own::{self, Own};
use super::release::{self, Freed, stop_overflown, tagged_size, wipe};
use super::states::{self, FAR, NONE, ZEROED};
use super::wiped;
use crate::global::native::base::mode::{self, Parts};
use crate::global::native::base::sizes;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::lists::quick::{self, Lists, Low};
use crate::global::native::lists::registry;
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::space::SPACE;
use crate::global::native::requests::{blocks, mapped, thread};
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// The random choice is among this many blocks at the end of a list: the lesser of two random
/// places, so the last comes next with a chance of 15/64, and each one before it with 2/64 less.
/// Programs use blocks in the order in which they allocated them, so consecutive blocks should be
/// neighbours. More blocks cost far more time, and so do equal chances: then one block in six comes
/// more than 16 late, and lies where the processor no longer looks.
const CHOICE: u32 = 8;

/// Returns the bytes that a small request of `size` bytes needs of its class: at least one more for
/// a canary.
#[inline(always)]
pub(super) fn least(size: usize, parts: Parts) -> usize {
    size.saturating_add(usize::from(parts.has_canaries()))
}

/// Allocates a block of `size` bytes at a multiple of `align`; null if there is no memory.
#[inline(always)]
pub(in super::super) fn allocate(
    parts: Parts,
    asked: &Tuning,
    size: usize,
    align: usize,
) -> *mut u8 {
    type Allocate = fn(&Tuning, usize, usize) -> *mut u8;
    static ALLOCATE: [Allocate; Parts::SETS] = for_each_set!(allocate_with);
    ALLOCATE[parts.set()](asked, size, align)
}

/// As [`allocate`], with this set of parts.
#[inline(never)]
pub(super) fn allocate_with<const SET: usize>(
    asked: &Tuning,
    size: usize,
    align: usize,
) -> *mut u8 {
    let parts = Parts::of_set(SET);
    if size < SMALL_MAX
        && align <= UNIT
        && let Some((lists, own)) = own::of_thread()
    {
        // A size that is not small gets the dummy list, which has no blocks.
        let list = sizes::offset(least(size, parts));
        // SAFETY: `lists` are this thread's; the offset is from the tables.
        if let Some((block, class)) = unsafe { take(parts, lists, own, list, Low::Eighth) } {
            return hand_out(parts, block, size, class);
        }
    }
    allocate_slowly(asked, size, align)
}

/// Takes a block from a list, and returns it with its size: the last one, or, with random choice,
/// one of the last [`CHOICE`].
///
/// # Safety
/// As for [`quick::pop`].
#[inline(always)]
unsafe fn take(
    parts: Parts,
    lists: *mut Lists,
    own: &Own,
    list: u32,
    low: Low,
) -> Option<(NonNull<u8>, usize)> {
    // SAFETY: the caller guarantees the contract of `pop`; the chosen place is below `count`.
    unsafe {
        if parts.are_random() {
            quick::pop_any(lists, list, low, |count| own.lesser_below(count.min(CHOICE)))
        } else {
            quick::pop_any(lists, list, Low::Empty, |_| 0)
        }
    }
}

#[cold]
#[inline(never)]
fn allocate_slowly(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let _errno = KeepErrno::new();
    let parts = mode::parts();
    let align = align.max(UNIT);
    if size > (isize::MAX as usize - SMALL_MAX).saturating_sub(align) {
        return ptr::null_mut();
    }
    let tuning = registry::tuning(asked);
    let Some(caller) = thread::caller(tuning) else {
        return mapped::instead_of_heap(tuning, size, align);
    };
    let list = blocks::list_for(tuning, least(size, parts), align);
    if let Some(block) = blocks::allocate_guarded_if_due(caller, size, align, list) {
        return block.as_ptr();
    }
    if list > 0 {
        return match allocate_small(parts, caller, list) {
            Some(block) => hand_out(parts, block, size, sizes::class_size(list)),
            None => mapped::instead_of_heap(tuning, size, align),
        };
    }
    if let Some(block) = mapped::allocate(caller, tuning, size, align) {
        return block.as_ptr();
    }
    match allocate_tagged(caller, tuning, size, align) {
        Some(block) => block.as_ptr(),
        None => mapped::instead_of_heap(tuning, size, align),
    }
}

/// Allocates a small block; refills the thread's list if it is empty.
fn allocate_small(parts: Parts, caller: thread::Caller, list: u32) -> Option<NonNull<u8>> {
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    let is_open = |&(lists, _): &(*mut Lists, &Own)| unsafe { !quick::is_shut(lists, list) };
    let Some((lists, own)) = own::of_thread().filter(is_open) else {
        return blocks::allocate_small(caller, list);
    };
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    unsafe {
        quick::let_one_pass(lists);
        let taken = take(parts, lists, own, list, Low::Eighth).or_else(|| {
            let before = quick::kept(lists, list).blocks;
            let _ = blocks::fill(caller, lists, list);
            if parts.are_random() {
                quick::deal(lists, list, before, |count| own.below(count));
            }
            quick::let_one_pass(lists);
            take(parts, lists, own, list, Low::Empty)
        });
        taken.map(|(block, _)| block)
    }
}

/// Allocates a block that is neither small nor a mapping, between words that record its size.
fn allocate_tagged(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    // Needed without canaries, too: the words around the block record its size.
    let front = align.max(canary::FRONT);
    let whole = (front + size + canary::BEHIND).max(tuning.pages.ffcrossover + 1);
    let layout = Layout::from_size_align(whole, align).ok()?;
    let raw = blocks::allocate_tagged(caller, layout)?;
    // SAFETY: the block has `whole` bytes, room for the words on both sides.
    unsafe {
        let block = raw.add(front);
        if states::is_in_use(states::of(block).load(Relaxed)) {
            misuse::stop(Misuse::HandedOutTwice, block.as_ptr());
        }
        states::of(block).store(FAR, Relaxed);
        canary::enclose(block, size, align);
        Some(block)
    }
}

/// Hands out a small block of `class` bytes for a request of `size` bytes.
#[inline(always)]
fn hand_out(parts: Parts, block: NonNull<u8>, size: usize, class: usize) -> *mut u8 {
    let state = states::of(block);
    let before = state.load(Relaxed);
    if states::is_in_use(before) {
        misuse::stop(Misuse::HandedOutTwice, block.as_ptr());
    }
    if parts.zero() && class > wiped::SHORT {
        return hand_out_long(parts, block, size, class);
    }
    // SAFETY: the block has `class` bytes, and was taken by this thread.
    unsafe {
        if parts.zero() {
            if before != ZEROED {
                wiped::wipe_short(block, class);
            } else if !wiped::is_short_zero(block, class) {
                misuse::stop(Misuse::UsedAfterFree, block.as_ptr());
            }
        }
        mark_in_use(parts, block, state, size, class);
    }
    block.as_ptr()
}

/// As [`hand_out`], for a long block that must be zeros.
#[inline(never)]
fn hand_out_long(parts: Parts, block: NonNull<u8>, size: usize, class: usize) -> *mut u8 {
    let state = states::of(block);
    // SAFETY: as in `hand_out`.
    unsafe {
        if state.load(Relaxed) != ZEROED {
            wiped::wipe_longer(block, class);
        } else if !wiped::is_longer_zero(block, class) {
            misuse::stop(Misuse::UsedAfterFree, block.as_ptr());
        }
        mark_in_use(parts, block, state, size, class);
    }
    block.as_ptr()
}

/// Marks a small block of `class` bytes as in use with `size` bytes, and writes its canary.
///
/// # Safety
/// The block has `class` bytes, at least `size`, and the caller owns those from `size` on.
#[inline(always)]
pub(super) unsafe fn mark_in_use(
    parts: Parts,
    block: NonNull<u8>,
    state: &AtomicU8,
    size: usize,
    class: usize,
) {
    let slack = class - size;
    let code = states::in_use(slack);
    if parts.has_canaries() {
        // SAFETY: the caller owns the `slack` bytes.
        unsafe { canary::write(block, class, slack, code == FAR) };
    }
    state.store(code, Relaxed);
}

/// As [`allocate`], with zeros in the block.
pub(in super::super) fn allocate_zeroed(
    parts: Parts,
    asked: &Tuning,
    size: usize,
    align: usize,
) -> *mut u8 {
    let block = allocate(parts, asked, size, align);
    let list = SPACE.list_of(block);
    // A mapping is fresh; a small block is zeros already if freed blocks are zeroed.
    if list == Some(0) || list.is_some() && !parts.zero() {
        // SAFETY: the block has this many bytes.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// Stops the process if `list` is 0 and the block is beyond the memory that its heap has reached,
/// where no state is kept.
#[inline(always)]
pub(super) fn stop_beyond_heap(block: NonNull<u8>, list: u32) {
    if list == 0 && !Heap::of(block.as_ptr()).reaches(block.as_ptr()) {
        misuse::stop(Misuse::NoBlock, block.as_ptr());
    }
}

/// Returns where a block's state is kept, and the state. Stops the process with `misuse` if the
/// block is not in use, or its address is no multiple of a unit, as those of all blocks in hardened
/// mode are.
#[inline(always)]
pub(super) fn checked_state(block: NonNull<u8>, misuse: Misuse) -> (&'static AtomicU8, u8) {
    let state = states::of(block);
    let code = state.load(Relaxed);
    if !states::is_in_use(code) || !block.addr().get().is_multiple_of(UNIT) {
        misuse::stop(misuse, block.as_ptr());
    }
    (state, code)
}

/// Returns the requested bytes of a small block in use, from its state, `code`, and its class.
/// Stops the process if the canary was overwritten. Without canaries the answer may be larger: the
/// whole class, if the state is [`FAR`].
///
/// # Safety
/// The block has `class` bytes, and is in use.
#[inline(always)]
pub(super) unsafe fn small_size(parts: Parts, block: NonNull<u8>, code: u8, class: usize) -> usize {
    let known = states::slack(code);
    if !parts.has_canaries() {
        return class - known.unwrap_or(0);
    }
    // SAFETY: the block has `class` bytes, and `mark_in_use` wrote the canary.
    match unsafe { canary::slack(block, class, known) } {
        Some(slack) => class - slack,
        None => stop_overflown(block),
    }
}

/// Frees a block; `list` is that of its [granule](SPACE), or 0 if it is not small; `size` is its
/// requested size, if the caller knows it.
///
/// # Safety
/// The block is in use and not used afterwards. That it is in use is checked.
#[inline(always)]
pub(in super::super) unsafe fn free(
    parts: Parts,
    asked: &Tuning,
    block: NonNull<u8>,
    list: u32,
    size: Option<usize>,
) {
    type Free = unsafe fn(&Tuning, NonNull<u8>, u32, Option<usize>);
    static FREE: [Free; Parts::SETS] = for_each_set!(free_with);
    // SAFETY: the callee has the same contract.
    unsafe { FREE[parts.set()](asked, block, list, size) }
}

/// As [`free`], with this set of parts.
///
/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_with<const SET: usize>(
    asked: &Tuning,
    block: NonNull<u8>,
    list: u32,
    size: Option<usize>,
) {
    // SAFETY: the caller guarantees that the block is in use; `list` is the list of its class.
    unsafe {
        let Some((lists, own)) = own::of_thread().filter(|_| list > 0) else {
            return free_slowly(asked, block, size);
        };
        let parts = Parts::of_set(SET);
        let (state, code) = checked_state(block, Misuse::FreedNotInUse);
        let class = quick::block_size(lists, list);
        let known = small_size(parts, block, code, class);
        stop_if_wrong(parts, block, code, size, known);
        give_up_small(parts, lists, own, state, Freed::new(block, list, class));
    }
}

/// Stops the process if `size`, which the program gives for a small block in use, is not the
/// `known` one. Without canaries that is unknown if the state, `code`, is [`FAR`].
#[inline(always)]
fn stop_if_wrong(parts: Parts, block: NonNull<u8>, code: u8, size: Option<usize>, known: usize) {
    if size.is_some_and(|size| size != known) && (parts.has_canaries() || code != FAR) {
        misuse::stop(Misuse::WrongSize, block.as_ptr());
    }
}

/// Frees a small block that was checked.
///
/// # Safety
/// The block is of the class of `freed`, in use, and not used afterwards.
#[inline(always)]
pub(super) unsafe fn give_up_small(
    parts: Parts,
    lists: *mut Lists,
    own: &Own,
    state: &AtomicU8,
    freed: Freed,
) {
    // SAFETY: the callees have the same contract.
    unsafe {
        if parts.zero() && freed.bytes() > wiped::SHORT {
            return give_up_long(lists, own, state, freed);
        }
        state.store(wipe_if_wanted(parts, freed.block, freed.bytes()), Relaxed);
    }
    put_back_or_keep(lists, own, freed);
}

/// Zeroes a freed small block, if the parts ask for that; returns its new state.
///
/// # Safety
/// As for [`give_up_small`].
#[inline(always)]
unsafe fn wipe_if_wanted(parts: Parts, block: NonNull<u8>, class: usize) -> u8 {
    if !parts.zero() {
        return NONE;
    }
    // SAFETY: the block has `class` bytes, which its owner gave up.
    unsafe {
        match class <= wiped::SHORT {
            true => wiped::wipe_short(block, class),
            false => wiped::wipe_longer(block, class),
        }
    }
    ZEROED
}

/// As [`give_up_small`], for a long block that must be zeroed.
///
/// # Safety
/// As for [`give_up_small`].
#[inline(never)]
unsafe fn give_up_long(lists: *mut Lists, own: &Own, state: &AtomicU8, freed: Freed) {
    // SAFETY: the block has as many bytes, more than a short one, and its owner gave it up.
    unsafe { wiped::wipe_longer(freed.block, freed.bytes()) };
    state.store(ZEROED, Relaxed);
    put_back_or_keep(lists, own, freed);
}

/// Puts a freed small block into the quarantine, or, if that does not take it, back on its list.
#[inline(always)]
fn put_back_or_keep(lists: *mut Lists, own: &Own, freed: Freed) {
    if !own.keep(lists, freed) && !release::put_on_list(lists, freed) {
        // SAFETY: `lists` are this thread's; the block is free and of the list's class.
        unsafe { release::make_room(lists, freed.list(), freed.block) };
    }
}

/// As [`free`], for a block that is not small, or a thread without lists.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_slowly(asked: &Tuning, block: NonNull<u8>, size: Option<usize>) {
    let _errno = KeepErrno::new();
    let parts = mode::parts();
    // SAFETY: the caller guarantees that the block is in use; a block above FFCROSSOVER starts
    // `front` bytes behind the heap's.
    unsafe {
        let Some(list) = SPACE.list_of(block.as_ptr()) else {
            if size.is_some_and(|size| !mapped::has_len(block.as_ptr(), size)) {
                misuse::stop(Misuse::WrongSize, block.as_ptr());
            }
            return mapped::free(asked, block.as_ptr());
        };
        stop_beyond_heap(block, list);
        let (state, code) = checked_state(block, Misuse::FreedNotInUse);
        if list > 0 {
            // The calling thread has no lists: not yet, or no longer.
            let class = sizes::class_size(list);
            let known = small_size(parts, block, code, class);
            stop_if_wrong(parts, block, code, size, known);
            state.store(wipe_if_wanted(parts, block, class), Relaxed);
            let _ = thread::caller(asked);
            return match own::of_thread() {
                Some((lists, own)) => put_back_or_keep(lists, own, Freed::new(block, list, class)),
                None => Heap::put(&mut [block], Upkeep::IfDue),
            };
        }
        let (known, front) = tagged_size(block);
        if size.is_some_and(|size| size != known) {
            misuse::stop(Misuse::WrongSize, block.as_ptr());
        }
        // Of two threads that free the block at the same moment, one is stopped.
        if state.compare_exchange(code, NONE, Relaxed, Relaxed).is_err() {
            misuse::stop(Misuse::FreedNotInUse, block.as_ptr());
        }
        if parts.zero() {
            wipe(block, known);
        }
        let _ = thread::caller(asked);
        // What it takes, not what was requested: a large alignment takes far more.
        let least = registry::tuning(asked).pages.ffcrossover + 1;
        let freed = Freed::new(block, list, least.max(front + known + canary::BEHIND));
        let is_kept = own::of_thread()
            .is_some_and(|(lists, own)| own.keep(lists, freed) || own.keep_large(lists, freed));
        if !is_kept {
            canary::erase(block, known);
            blocks::free_tagged(block.sub(front));
        }
    }
}
