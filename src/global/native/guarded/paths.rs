//! Guarded blocks handed out, measured and freed.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Acquire;

use super::super::tuning::UNIT;
use super::pool::{self, Book, PLACES, POOL, Place, State, Trace, book, index_of, with_place};
use super::report::{self, Misuse};
use crate::os;

/// What the bytes between a block's end and its page's hold.
const FILL: u8 = 0xa5;

/// Makes the places, and sees to it that faults there are reported. The calling thread has its lists.
pub(in super::super) fn open() {
    let page = os::page_size();
    let len = (2 * PLACES + 1) * page;
    let Some(memory) = reserve_outside(len) else { return };
    let Some(places) = os::allocate((PLACES * size_of::<Place>()).next_multiple_of(page)) else {
        return;
    };
    // SAFETY: both are fresh, and large enough.
    unsafe { pool::open(memory, len, places.cast()) };
}

/// Addresses that [may be outside](may_be_outside) of all heaps: a block freed with its size would be taken for a heap's
/// at others.
fn reserve_outside(len: usize) -> Option<*mut u8> {
    /// Places that are tried.
    const TRIES: usize = 8;
    let memory = os::reserve(len)?;
    if may_be_outside(memory) {
        return Some(memory);
    }
    // SAFETY: it was reserved just now.
    unsafe { os::release(memory, len) };
    // Windows gives low addresses, and Linux to a process whose stack has no limit.
    (0..TRIES).find_map(|_| {
        let memory = ptr::with_exposed_provenance_mut(place_outside(os::random())?);
        os::reserve_at(memory, len).then_some(memory)
    })
}

/// A place, by a random number, in the lower half of the least addresses that may be outside; `None` if there are none.
fn place_outside(random: u64) -> Option<usize> {
    /// What places are multiples of.
    const ALIGN: usize = 64 << 10;
    let first = 1_usize.checked_shl(BIT)?;
    let places = first / 2 / ALIGN;
    Some(first + random as usize % places * ALIGN)
}

/// The bit of an address that tells whether a block [may be outside](may_be_outside).
const BIT: u32 = if cfg!(any(target_arch = "x86_64", windows)) { 46 } else { 47 };

/// Whether a block may be one that lies in no heap: one bit of the address tells, which none of the window has, and
/// most addresses that the system gives of itself. Without the feature there are no guarded blocks, and no other block
/// is freed with a small size but lies in a heap.
#[inline(always)]
pub(in super::super) fn may_be_outside(block: *mut u8) -> bool {
    cfg!(feature = "guarded") && usize::BITS == 64 && block.addr() as u64 >> BIT & 1 == 1
}

/// A guarded block; `None` if it is too large, or there is no place. Zeros.
#[cold]
pub(in super::super) fn allocate(size: usize, align: usize) -> Option<NonNull<u8>> {
    let page = os::page_size();
    let align = align.max(UNIT);
    let pool = POOL.load(Acquire);
    if pool.is_null() || size > page || align > page {
        return None;
    }
    report::install();
    let allocated = Trace::here();
    let index = book(Book::take).flatten()?;
    let start = pool.wrapping_add((2 * index + 1) * page);
    // SAFETY: the page is the place's, and nobody else's.
    unsafe {
        if !os::commit(start, page) {
            // The process may have no more mappings for now.
            book(|book| book.give_back(index));
            return None;
        }
        // One of no bytes lies in its page, too: behind it is what belongs to the next place.
        let block = start.add((page - size.max(1)) & !(align - 1));
        let behind = start.add(page).addr() - block.add(size).addr();
        block.add(size).write_bytes(FILL, behind);
        let place =
            Place { state: State::InUse, block: block.addr(), size, allocated, ..Place::UNUSED };
        let known = book(|book| book.set(index, place));
        if known.is_none() {
            os::close(start, page);
            return None;
        }
        NonNull::new(block)
    }
}

/// Bytes of a guarded block in use; `None` if the lock cannot be had.
///
/// # Safety
/// The block lies among the places: what is wrong is noticed.
pub(in super::super) unsafe fn known_len(block: *mut u8) -> Option<usize> {
    match with_place(block, |place| (place.state, place.block, place.size))? {
        (State::InUse, start, size) if start == block.addr() => Some(size),
        (State::Freed, start, _) if start == block.addr() => {
            report::misuse(block, &Misuse::FreedTwice)
        }
        _ => report::misuse(block, &Misuse::NoBlock),
    }
}

/// Bytes of a guarded block in use, or up to the page's end, which is the most it can be.
///
/// # Safety
/// As for [`known_len`].
pub(in super::super) unsafe fn len_of(block: *mut u8) -> usize {
    let most = os::page_size() - (block.addr() & (os::page_size() - 1));
    // SAFETY: passed on.
    unsafe { known_len(block) }.unwrap_or(most)
}

/// Frees a guarded block.
///
/// # Safety
/// As for [`len_of`]; the block is not used any more.
pub(in super::super) unsafe fn free(block: *mut u8) {
    let page = os::page_size();
    let freed = Trace::here();
    let start = block.with_addr(block.addr() & !(page - 1));
    // SAFETY: the caller's promise.
    let size = unsafe { len_of(block) };
    let end = block.addr() + size;
    let behind = start.addr() + page - end;
    // SAFETY: the block is in use, so its page can be read.
    let rest = unsafe { core::slice::from_raw_parts(block.with_addr(end), behind) };
    if rest.iter().any(|&byte| byte != FILL) {
        report::misuse(block, &Misuse::Overflow);
    }
    // SAFETY: the page is the block's, which nobody uses any more.
    unsafe {
        if !os::close(start, page) {
            // Where a limit of the address space is reached there are no new pages in the place of others. The next block
            // here is zeros all the same.
            start.write_bytes(0, page);
            os::guard(start, page);
        }
    }
    let index = index_of(block);
    book(|book| {
        let place = Place { state: State::Freed, freed, ..book.get(index) };
        book.set(index, place);
        book.give_back(index);
    });
}

#[cfg(all(test, feature = "guarded", not(miri)))]
mod tests {
    use std::sync::Once;

    use super::*;
    use crate::global::Pagewise;
    use crate::global::native::blocks;
    use crate::os::alone;

    /// Makes the places, which the process does once.
    fn opened() {
        static OPENED: Once = Once::new();
        OPENED.call_once(open);
    }

    /// Where no block is to be guarded, there are no places, and faults are none of the allocator's business.
    #[test]
    fn there_are_no_places_where_nothing_is_guarded() {
        alone::passes("global::native::guarded::paths::tests::unguarded");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn unguarded() {
        let pagewise = Pagewise::new();
        let block = pagewise.allocate(100);
        assert!(!block.is_null() && POOL.load(Acquire).is_null());
        // SAFETY: the block is in use, and freed once.
        unsafe { pagewise.free(block) };
    }

    /// While the process could have no more mappings, a place was lost for good with each block.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_place_that_cannot_be_opened_is_free_later() {
        alone::passes("global::native::guarded::paths::tests::refused");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "in a process of its own, which has no more mappings"]
    fn refused() {
        open();
        let blocks = || (0..PLACES + 3).filter_map(|_| allocate(100, UNIT)).count();
        let few = alone::without_more_mappings(blocks);
        assert!(few < PLACES / 2, "{few} blocks");
        assert_eq!(few + blocks(), PLACES);
    }

    /// Where the system gives addresses of no use, places are tried at random: all of them may be outside, to their ends, and
    /// there are many.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn places_outside_are_told_by_their_addresses() {
        const ALIGN: usize = 64 << 10;
        let first = 1_usize << BIT;
        let places = (first / 2 / ALIGN) as u64;
        let at = |random| place_outside(random).expect("there are some");
        for number in [0, 1, 2, places / 2 + 1, places - 1] {
            let place = first + number as usize * ALIGN;
            assert_eq!([at(number), at(number + places)], [place; 2], "{number}");
            for address in [place, place + (2 * PLACES + 1) * os::page_size() - 1] {
                assert!(may_be_outside(ptr::without_provenance_mut(address)), "{address:#x}");
            }
        }
        assert!(!may_be_outside(ptr::without_provenance_mut(first - 1)));
        assert!(!may_be_outside(ptr::without_provenance_mut(2 * first)));
    }

    /// A fault in a closed page is of the nearer block, before it or behind it; of the first page, the one behind it.
    #[test]
    fn a_fault_is_of_the_nearest_block() {
        alone::passes("global::native::guarded::paths::tests::faults");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn faults() {
        open();
        let page = os::page_size();
        let pool = POOL.load(Acquire);
        let blocks = [(); 3].map(|()| allocate(page - 100, UNIT).expect("there are places"));
        let start = |place: usize| pool.wrapping_add((2 * place + 1) * page);
        for (place, block) in blocks.iter().enumerate() {
            assert_eq!(
                (index_of(block.as_ptr()), block.as_ptr().addr() & !(page - 1)),
                (place, start(place).addr())
            );
        }
        let at = |address: *mut u8| {
            report::at_fault(address)
                .map(|(what, place)| (what, index_of(ptr::without_provenance_mut(place.block))))
        };
        const BEFORE: &str = "memory was used before the start of a block";
        const BEYOND: &str = "memory was used beyond the end of a block";
        for place in 0..3 {
            for near in [0, 1, page / 2 - 1] {
                assert_eq!(at(start(place).wrapping_add(page + near)), Some((BEYOND, place)));
            }
            for near in [1, 2, page / 2] {
                assert_eq!(at(start(place).wrapping_sub(near)), Some((BEFORE, place)));
            }
            for within in [0, page / 2, page - 1] {
                let fault = at(start(place).wrapping_add(within));
                assert_eq!(fault, Some(("a fault in a block in use", place)));
            }
        }
        // Before the first block there is no other.
        assert_eq!(
            [0, page / 2 - 1].map(|from| at(pool.wrapping_add(from))),
            [Some((BEFORE, 0)); 2]
        );
        // Behind the last one that was used there was none.
        assert_eq!(at(start(3)), None);
        assert_eq!(at(start(3).wrapping_sub(1)), None);
        assert_eq!(at(start(PLACES - 1).wrapping_add(2 * page - 1)), None);
        // SAFETY: the block is in use, and freed once.
        unsafe { free(blocks[1].as_ptr()) };
        let used = Some(("memory was used after it was freed", 1));
        for from in [0, page - 1, page] {
            assert_eq!(at(start(1).wrapping_add(from)), used);
        }
        assert_eq!(at(start(1).wrapping_sub(1)), used);
    }

    /// C programs ask for blocks of no bytes; one lay behind its page, and was no block when it was freed.
    #[test]
    fn a_block_of_no_bytes_lies_in_its_page() {
        opened();
        for align in [UNIT, 64, os::page_size()] {
            let Some(block) = allocate(0, align) else { return };
            // SAFETY: the block is in use, and freed once.
            unsafe {
                assert!(block.addr().get().is_multiple_of(align));
                assert!(matches!(known_len(block.as_ptr()), None | Some(0)));
                free(block.as_ptr());
            }
        }
    }

    /// A thread that frees with the right size was stopped while another had the lock.
    #[test]
    fn a_size_that_is_not_known_is_not_wrong() {
        opened();
        let Some(block) = allocate(100, UNIT) else { return };
        // SAFETY: the block is in use, and freed once.
        unsafe {
            let held = book(|_| {
                assert_eq!(known_len(block.as_ptr()), None);
                assert!(blocks::has_len(block.as_ptr(), 100));
            });
            assert!(held.is_some());
            assert!(blocks::has_len(block.as_ptr(), 100) && !blocks::has_len(block.as_ptr(), 99));
            free(block.as_ptr());
        }
    }
}
