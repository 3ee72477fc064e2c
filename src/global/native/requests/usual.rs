//! The slow path of the default mode: requests that a thread's quick lists cannot serve.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::blocks::{self, allocate_small, free_tagged, from_any, list_for};
use super::{mapped, thread};
use crate::global::native::base::mode;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::hardened;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::lists::{medium, quick, registry};
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::space::SPACE;
use crate::global::native::memory::zero::KnownZeros;
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Allocates a block that is not small, with zeros in it; null if there is no memory. Memory known
/// to be zeros is not written.
pub(super) fn allocate_zeroed(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let _errno = KeepErrno::new();
    let align = align.max(UNIT);
    let rounded = medium::round(size, align);
    let Ok(layout) = Layout::from_size_align(rounded, align) else {
        return ptr::null_mut();
    };
    let is_listed = medium::serves_zeroed(size);
    if is_listed && let Some(block) = medium::allocate_slowly(size, align) {
        // SAFETY: the block has `size` bytes, and belongs to this thread.
        unsafe { block.write_bytes(0, size) };
        return block.as_ptr();
    }
    let tuning = registry::tuning(asked);
    let Some(caller) = thread::caller(tuning) else {
        return mapped::instead_of_heap(tuning, size, align);
    };
    if mode::is_hardened() {
        // The allocator has just been opened.
        return hardened::paths::allocate_zeroed(mode::parts(), asked, size, align);
    }
    if let Some(block) = allocate_after_work(caller, size, align, 0) {
        // SAFETY: as above.
        unsafe { block.write_bytes(0, size) };
        return block.as_ptr();
    }
    if let Some(block) = mapped::allocate_zeroed(caller, tuning, size, align) {
        return block.as_ptr();
    }
    let mut known = KnownZeros::nothing();
    let block =
        from_any(caller, |heap| heap.take_with(|state| state.allocate_known(layout, &mut known)));
    match block {
        Some(block) => {
            // SAFETY: the block has `size` bytes, belongs to this thread, and is the memory that
            // `known` is about.
            unsafe { known.clear(block.as_ptr(), size) };
            if is_listed {
                medium::set_mark(block, rounded, align);
            }
            block.as_ptr()
        }
        None => mapped::instead_of_heap(tuning, size, align),
    }
}

/// Allocates a block of `size` bytes at a multiple of `align`, where the thread's list has none at
/// once; null if there is no memory.
pub(super) fn allocate(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if let Some(block) = medium::allocate_slowly(size, align) {
        return block.as_ptr();
    }
    let _errno = KeepErrno::new();
    // Rounded up to its alignment, a power of two, no block has more than `isize::MAX` bytes. The
    // sizes below may be rounded up further, but stay below this bound.
    let unit_align = align.max(UNIT);
    if size.max(SMALL_MAX + 1) > isize::MAX as usize + 1 - unit_align {
        return ptr::null_mut();
    }
    let tuning = registry::tuning(asked);
    let Some(caller) = thread::caller(tuning) else {
        // There are still mappings.
        return mapped::instead_of_heap(tuning, size, align);
    };
    if mode::is_hardened() {
        // The allocator has just been opened.
        return hardened::paths::allocate(mode::parts(), asked, size, align);
    }
    let list = list_for(tuning, size, align);
    if let Some(block) = allocate_after_work(caller, size, align, list) {
        return block.as_ptr();
    }
    if list > 0 {
        let beside = || mapped::instead_of_heap(tuning, size, align);
        return allocate_small(caller, list).map_or_else(beside, NonNull::as_ptr);
    }
    if let Some(block) = mapped::allocate_kept(caller, tuning, size, align) {
        return block.as_ptr();
    }
    let align = unit_align;
    // A small size gets here if its alignment is too large for a page.
    let rounded = medium::note_missed(size.max(tuning.pages.ffcrossover + 1), align);
    // SAFETY: the alignment is a power of two. `rounded` is the size checked above, or that of a
    // medium class, at most 1 MiB; rounded up to the alignment, neither exceeds `isize::MAX`.
    let layout = unsafe { Layout::from_size_align_unchecked(rounded, align) };
    let block = match medium::Run::wanted_of(rounded, align) {
        Some(run) => blocks::allocate_medium_run(caller, layout, run),
        None => blocks::allocate_tagged(caller, layout),
    };
    match block {
        Some(block) => {
            medium::set_mark(block, rounded, align);
            block.as_ptr()
        }
        None => mapped::instead_of_heap(tuning, size, align),
    }
}

/// Does the periodic work that is due, if any. Returns a block if this one is to be guarded, or if
/// the work was all that kept a medium list from serving the request. `list` is the quick list that
/// the block would be popped from, or 0.
fn allocate_after_work(
    caller: thread::Caller,
    size: usize,
    align: usize,
    list: u32,
) -> Option<NonNull<u8>> {
    // SAFETY: `lists` are the caller's, and never freed.
    if !unsafe { caller.lists?.as_ref() }.countdown.is_over() {
        return None;
    }
    let guarded = blocks::allocate_guarded_if_due(caller, size, align, list);
    guarded.or_else(|| (list == 0).then(|| medium::allocate_slowly(size, align)).flatten())
}

/// Frees a block that no list of the thread takes at once.
///
/// # Safety
/// As for [`free`](super::paths::free).
#[cold]
#[inline(never)]
pub(super) unsafe fn free(asked: &Tuning, block: NonNull<u8>) {
    // SAFETY: the callees have the same contract; the address tells which one is responsible for
    // the block.
    unsafe {
        let _errno = KeepErrno::new();
        match SPACE.list_of(block.as_ptr()) {
            None => return mapped::free(asked, block.as_ptr()),
            Some(0) if medium::free_slowly(block) => {}
            Some(0) => return free_tagged(block),
            Some(list) => return free_small(asked, quick::unshadowed(list), block),
        }
    }
    thread::start_background();
}

/// Frees a small block, and makes room for it on the thread's list if that is full.
///
/// # Safety
/// As for [`free`](super::paths::free); the block is of this list's class.
unsafe fn free_small(asked: &Tuning, list: u32, block: NonNull<u8>) {
    let lists = thread::caller(asked).and_then(|caller| caller.lists);
    // SAFETY: the caller guarantees that the block is in use and of the list's class; `lists` are
    // this thread's.
    unsafe {
        let Some(lists) = lists.map(NonNull::as_ptr) else {
            return Heap::put(&mut [block], Upkeep::IfDue);
        };
        if quick::is_last(lists, list, block) {
            misuse::stop(Misuse::FreedTwice, block.as_ptr());
        }
        if !quick::push(lists, list, block) {
            quick::push_slowly(lists, list, block);
        }
        (*lists).start_background_after_free();
    }
}

/// Resizes a block in place, or moves it to a mapping where one is better; `None`, and nothing
/// changed, if it must be copied to a new block.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate).
#[inline]
pub(super) unsafe fn resize_or_move(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    // SAFETY: the callees have the same contract; a block that moves could not be resized in place.
    unsafe {
        resize(asked, block, align, new_size)
            .or_else(|| mapped::move_to_mapping(asked, block, size, align, new_size))
    }
}

/// Resizes a block without copying; `None`, and nothing changed, if that cannot be done. A mapping
/// stays one down to a quarter of [`mapping_from`](Tuning::mapping_from).
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate).
unsafe fn resize(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let address = NonNull::new(block)?;
    let tuning = registry::tuning(asked);
    let new_list = list_for(tuning, new_size, align);
    match SPACE.list_of(block) {
        // The bound is that of `allocate`, since the size becomes part of a layout.
        Some(0) if new_list == 0 && new_size <= isize::MAX as usize + 1 - UNIT => {
            let rounded = medium::round(new_size, align);
            // SAFETY: the caller guarantees that the block is in use, and alone uses it.
            if unsafe { medium::size_of_block(address) } == Some(rounded) {
                return Some(address);
            }
            let _errno = KeepErrno::new();
            // SAFETY: the caller guarantees that the block is in use, and uses only the one
            // returned.
            let done = unsafe { Heap::of(block).resize_in_place(address, rounded) };
            if done {
                medium::clear_mark(address);
                medium::set_mark(address, rounded, align);
            }
            done.then_some(address)
        }
        Some(list) => (list > 0 && quick::unshadowed(list) == new_list).then_some(address),
        None => {
            let _errno = KeepErrno::new();
            // SAFETY: the caller guarantees that the block is in use, and uses only the one
            // returned.
            unsafe { mapped::resize(asked, block, align, new_size) }
        }
    }
}

#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests {
    use crate::global::Pagewise;
    use crate::global::native::lists::{current, medium};
    use crate::os::alone;

    /// Medium lists keep no more blocks than were free at a time, however often their thread has
    /// periodic work to do, and whether the blocks are zeroed or not.
    #[test]
    fn medium_lists_serve_whatever_is_due() {
        alone::passes("global::native::requests::usual::tests::whatever_is_due");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn whatever_is_due() {
        const PAGEWISE: Pagewise = Pagewise::new();
        const BLOCKS: usize = 4;
        type Allocate = fn(usize) -> *mut u8;
        let ways: [(Allocate, usize); 2] = [
            (|size| PAGEWISE.allocate(size), 40 << 10),
            (|size| PAGEWISE.allocate_zeroed(size), 80 << 10),
        ];
        for (allocate, size) in ways {
            let kept = || medium::of(current::lists()).kept().blocks;
            let (before, mut full) = (kept(), 0);
            for wave in 0..10_000 {
                let blocks: [*mut u8; BLOCKS] = core::array::from_fn(|_| allocate(size));
                // SAFETY: each block is in use, and freed once.
                blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
                let listed = kept() - before;
                assert!(listed <= BLOCKS, "{listed} blocks of {size} after {wave} waves");
                full += usize::from(listed == BLOCKS);
            }
            assert!(full > 5_000, "after {full} waves all blocks of {size} were on the list");
        }
    }
}
