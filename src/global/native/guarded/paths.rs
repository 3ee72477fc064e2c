//! Allocates, measures and frees guarded blocks.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Acquire;

use super::pool::{self, Book, PLACES, POOL, Record, State, Trace, book, index_of, with_record};
use super::report::{self, GuardedMisuse};
use crate::global::native::base::sizes;
use crate::global::native::memory::outside;
use crate::global::native::memory::space::WINDOW;
use crate::global::tuning::UNIT;
use crate::os;

/// The value of the bytes between a block's end and its page's end.
const FILL: u8 = 0xa5;

/// Reserves the pool of places. The calling thread has its lists. Faults there are reported from
/// the first block on.
pub(in super::super) fn open() {
    let page = os::page_size();
    let len = (2 * PLACES + 1) * page;
    let Some(memory) = reserve_outside(len) else { return };
    let Some(records) = os::allocate((PLACES * size_of::<Record>()).next_multiple_of(page)) else {
        return;
    };
    // SAFETY: both mappings are fresh, and large enough.
    unsafe { pool::open(memory, len, records.cast()) };
}

/// Reserves `len` bytes of addresses outside of all heaps. A block freed there with its size is not
/// taken for a heap's: its address [tells](may_be_outside), or is looked up.
fn reserve_outside(len: usize) -> Option<*mut u8> {
    /// Random addresses that are tried.
    const TRIES: usize = 8;
    let memory = os::reserve(len)?;
    if may_be_outside(memory) {
        return Some(memory);
    }
    // SAFETY: the addresses were reserved just now.
    unsafe { os::release(memory, len) };
    // Windows gives low addresses, and so does Linux to a process without a stack limit.
    let high = (0..TRIES).find_map(|_| {
        let memory = ptr::with_exposed_provenance_mut(place_outside(os::random())?);
        os::reserve_at(memory, len).then_some(memory)
    });
    high.or_else(|| {
        let memory = outside::reserve(len)?;
        // Nothing tells these addresses from a heap's, as with pointers of 32 bits.
        sizes::look_up_freed();
        Some(memory)
    })
}

/// Returns a random address among the lowest that [may be outside](may_be_outside), an eighth of
/// all addresses; `None` if there are none.
fn place_outside(random: u64) -> Option<usize> {
    /// Alignment of the addresses.
    const ALIGN: u64 = 64 << 10;
    let place = OUTSIDE + random % (ADDRESSES / 8 / ALIGN) * ALIGN;
    usize::try_from(place).ok()
}

/// All addresses that a system with pointers of 64 bits gives a process, unless it is asked for
/// more.
const ADDRESSES: u64 = 1 << if cfg!(any(target_arch = "x86_64", windows)) { 47 } else { 48 };

/// The first address behind all places of the heaps' [window](WINDOW).
const OUTSIDE: u64 = ADDRESSES / 32 * WINDOW.end as u64;

/// Returns whether a block may be outside of all heaps: it is behind their window, as are most
/// addresses that the system chooses. Any other block freed with a small size is in a heap, or
/// [looked up](sizes::LOOKED_UP).
#[inline(always)]
pub(in super::super) fn may_be_outside(block: *mut u8) -> bool {
    block.addr() as u64 >= OUTSIDE
}

/// Allocates a guarded block, zeroed; `None` if it is too large, or there is no free place.
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
    // SAFETY: the page belongs to the place, which this thread has taken.
    unsafe {
        if !os::commit(start, page) {
            // The process may have reached its limit of mappings for now.
            book(|book| book.give_back(index));
            return None;
        }
        // `max(1)` keeps a block of 0 bytes in its page: the address behind the page belongs to the
        // next place.
        let block = start.add((page - size.max(1)) & !(align - 1));
        let behind = start.add(page).addr() - block.add(size).addr();
        block.add(size).write_bytes(FILL, behind);
        let record =
            Record { state: State::InUse, block: block.addr(), size, allocated, ..Record::UNUSED };
        let known = book(|book| book.set(index, record));
        if known.is_none() {
            os::close(start, page);
            return None;
        }
        pool::note_in_use(block, size);
        NonNull::new(block)
    }
}

/// Returns the bytes of a guarded block in use.
///
/// # Safety
/// The block is in the pool. Whether it is in use is checked.
pub(in super::super) unsafe fn len(block: *mut u8) -> usize {
    pool::len_of(block).unwrap_or_else(|| stop_not_in_use(block))
}

/// Stops the process: no block in use starts at this address in the pool.
#[cold]
fn stop_not_in_use(block: *mut u8) -> ! {
    let is_freed = |record: Record| record.state != State::Unused && record.block == block.addr();
    let misuse = match with_record(block, is_freed) {
        Some(true) => GuardedMisuse::FreedTwice,
        _ => GuardedMisuse::NoBlock,
    };
    report::misuse(block, &misuse)
}

/// Records that a guarded block has fewer bytes.
///
/// # Safety
/// As for [`len`]; the block's bytes from `new_size` on, which it has, are not used any more.
pub(in super::super) unsafe fn shorten(block: *mut u8, new_size: usize) {
    // SAFETY: the callee has the same contract; the caller does not use the bytes that are cut off.
    unsafe {
        let cut_off = len(block).saturating_sub(new_size);
        block.add(new_size).write_bytes(FILL, cut_off);
    }
    pool::note_in_use(block, new_size);
    book(|book| {
        let index = index_of(block);
        book.set(index, Record { size: new_size, ..book.get(index) });
    });
}

/// Frees a guarded block.
///
/// # Safety
/// As for [`len`]; the block is not used afterwards.
pub(in super::super) unsafe fn free(block: *mut u8) {
    let page = os::page_size();
    let freed = Trace::here();
    let start = block.with_addr(block.addr() & !(page - 1));
    // Of two threads that free the block, one gets on.
    let size = pool::take_from_use(block).unwrap_or_else(|| stop_not_in_use(block));
    let end = block.addr() + size;
    let behind = start.addr() + page - end;
    // SAFETY: the block was in use until now, so its page can be read.
    let rest = unsafe { core::slice::from_raw_parts(block.with_addr(end), behind) };
    if rest.iter().any(|&byte| byte != FILL) {
        report::misuse(block, &GuardedMisuse::Overflow);
    }
    // SAFETY: the page holds only this block, which is not used any more.
    unsafe {
        if !os::close(start, page) {
            // `close` maps new pages over the old ones, which fails at the limit of the address
            // space. The next block here must be zeros even so.
            start.write_bytes(0, page);
            os::guard(start, page);
        }
    }
    let index = index_of(block);
    book(|book| {
        let record = Record { state: State::Freed, freed, ..book.get(index) };
        book.set(index, record);
        book.give_back(index);
    });
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::Once;

    use super::*;
    use crate::global::Pagewise;
    use crate::global::native::requests::mapped;
    use crate::os::alone;

    /// Opens the pool, once in a process.
    fn opened() {
        static OPENED: Once = Once::new();
        OPENED.call_once(open);
    }

    /// Where no block is guarded, there is no pool.
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

    /// A place whose page could not be opened, for want of mappings, is given back.
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

    /// Where the system gives unsuitable addresses, random ones are tried: all of them may be
    /// outside, up to the pool's end, and there are many.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn places_outside_are_told_by_their_addresses() {
        const ALIGN: usize = 64 << 10;
        let first = OUTSIDE as usize;
        let places = ADDRESSES / 8 / ALIGN as u64;
        let at = |random| place_outside(random).expect("there are some");
        for number in [0, 1, 2, places / 2 + 1, places - 1] {
            let place = first + number as usize * ALIGN;
            assert_eq!([at(number), at(number + places)], [place; 2], "{number}");
            for address in [place, place + (2 * PLACES + 1) * os::page_size() - 1] {
                assert!(may_be_outside(ptr::without_provenance_mut(address)), "{address:#x}");
            }
        }
        assert!(!may_be_outside(ptr::without_provenance_mut(first - 1)));
    }

    /// No place of the heaps' window may be outside. (Regression: those from 64 TiB on were, after
    /// the window had moved: half of all programs freed every block on the slow path.)
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn nothing_in_the_window_may_be_outside() {
        if let Some(all) = os::addresses() {
            for part in [WINDOW.start, 16, 17, WINDOW.end] {
                let address = all / 32 * part - usize::from(part == WINDOW.end);
                assert!(!may_be_outside(ptr::without_provenance_mut(address)), "{address:#x}");
            }
        }
    }

    /// A fault in a closed page belongs to the nearer block, before or behind it; in the first
    /// page, to the one behind it.
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
            report::describe_fault(address)
                .map(|(what, record)| (what, index_of(ptr::without_provenance_mut(record.block))))
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
        // The pool ends with a closed page, which belongs to the last place.
        let last = pool.wrapping_add((2 * PLACES + 1) * page - 1);
        assert!(pool::contains(pool) && pool::contains(last) && index_of(last) == PLACES - 1);
        assert!(!pool::contains(pool.wrapping_sub(1)) && !pool::contains(last.wrapping_add(1)));
        // Before the first block there is no other.
        assert_eq!(
            [0, page / 2 - 1].map(|from| at(pool.wrapping_add(from))),
            [Some((BEFORE, 0)); 2]
        );
        // Behind the last place that was used there was never a block.
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

    /// C programs ask for blocks of 0 bytes, which must be inside their place's page as well.
    #[test]
    fn a_block_of_no_bytes_lies_in_its_page() {
        opened();
        for align in [UNIT, 64, os::page_size()] {
            let Some(block) = allocate(0, align) else { return };
            // SAFETY: the block is in use, and freed once.
            unsafe {
                assert!(block.addr().get().is_multiple_of(align));
                assert_eq!(len(block.as_ptr()), 0);
                free(block.as_ptr());
            }
        }
    }

    /// A block that is longer than an OS page, or aligned to more, is not guarded. Without a pool,
    /// no block is.
    #[test]
    fn a_guarded_block_fits_into_a_page() {
        alone::passes("global::native::guarded::paths::tests::fits");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn fits() {
        let page = os::page_size();
        assert!(!pool::contains(ptr::null_mut()));
        assert_eq!(allocate(100, UNIT), None);
        open();
        for (size, align) in [(page + 1, UNIT), (100, 2 * page), (page + 1, 2 * page)] {
            assert_eq!(allocate(size, align), None, "{size}, {align}");
        }
        for (size, align) in [(page, UNIT), (100, page), (page, page)] {
            let block = allocate(size, align).expect("there are places");
            // SAFETY: the block is in use, and freed once.
            unsafe {
                assert_eq!(len(block.as_ptr()), size);
                block.write_bytes(1, size);
                free(block.as_ptr());
            }
        }
    }

    /// A block is measured and resized as at other times while another thread has the book.
    /// (Regression: its size was not known then. It counted as long enough to stay where it is, and
    /// what was written beyond its old end as an overflow.)
    #[test]
    fn a_block_is_as_long_while_the_book_is_busy() {
        alone::passes("global::native::guarded::paths::tests::busy");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn busy() {
        let pagewise = Pagewise::new();
        // The allocator opens here: under the book's lock it may not.
        assert!(!pagewise.allocate(100).is_null());
        open();
        let block = allocate(100, UNIT).expect("there are places").as_ptr();
        // SAFETY: a block is in use until it is replaced or freed, once.
        unsafe {
            let grown = book(|_| {
                assert_eq!(pagewise.usable_size(block), 100);
                assert!(mapped::has_len(block, 100) && !mapped::has_len(block, 99));
                pagewise.reallocate(block, 110)
            });
            let grown = grown.expect("the book is there");
            assert!(grown != block && pagewise.usable_size(grown) >= 110);
            grown.write_bytes(1, 110);
            pagewise.free(grown);
        }
    }

    /// Of two frees of a block at the same moment, one gets it. (Regression: both could, and two
    /// later blocks had one place.)
    #[test]
    fn a_block_is_taken_from_use_once() {
        opened();
        let Some(block) = allocate(100, UNIT) else { return };
        let block = block.as_ptr();
        assert_eq!([pool::len_of(block), pool::len_of(block.wrapping_add(16))], [Some(100), None]);
        assert_eq!(pool::len_of(block.wrapping_sub(os::page_size())), None);
        assert_eq!(pool::take_from_use(block), Some(100));
        assert_eq!([pool::take_from_use(block), pool::len_of(block)], [None; 2]);
        pool::note_in_use(block, 100);
        // SAFETY: the block is in use, and freed once.
        unsafe { free(block) };
    }

    /// A fork takes the book, so that it is whole in the child, where blocks are guarded as before.
    /// (Regression: if another thread had it, none was, and each request for one waited.)
    #[cfg(unix)]
    #[test]
    fn the_child_of_a_fork_has_the_book() {
        alone::passes("global::native::guarded::paths::tests::forked");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn forked() {
        use std::sync::mpsc::channel;
        // With this, the fork's handlers are registered.
        assert!(!Pagewise::new().allocate(100).is_null());
        open();
        let (taken, is_taken) = channel();
        let holder = std::thread::spawn(move || {
            book(|_| {
                taken.send(()).expect("the test waits");
                std::thread::sleep(std::time::Duration::from_millis(50));
            })
        });
        is_taken.recv().expect("the thread has the book");
        assert!(alone::in_child(|| allocate(100, UNIT).is_some()));
        assert!(holder.join().expect("it ends").is_some());
        assert!(allocate(100, UNIT).is_some());
    }
}
