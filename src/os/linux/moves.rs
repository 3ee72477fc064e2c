//! Moves mappings to addresses of the caller's choice.
//!
//! `mremap` unmaps its destination first, and kernels up to 6.16 may refuse the move only
//! afterwards. The destination is free then, and another thread may map it at any moment. So
//! [`may_grow`] first makes a call that finds most reasons to refuse and unmaps nothing. If the
//! move is refused all the same, [`is_whole`] asks the kernel whether the reservation is still one
//! mapping. The reservation's pages are marked, and only one thread has marked pages at a time, so
//! the kernel cannot merge another thread's mapping in the gap with them.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::os::{OsPageRun, errno, page_size, release};

/// Whether mappings can move: they can.
pub(crate) const MOVES: bool = true;

/// Whether a thread has marked pages. No thread waits for it: in the child of a fork it may stay
/// set for ever.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Moves a mapping, or a part of one, to `to`, in a reservation whose other parts stay, and makes
/// it `new_len` bytes long. Returns whether it did; otherwise the mapping is
/// unchanged and the reservation is released.
///
/// # Safety
/// `new_len` is more than the bytes of the pages, or the same, and then they are [movable]. Only
/// the caller knows of the pages and of the reservation. The reservation has at least `new_len`
/// bytes and one OS page from `to` on.
pub(crate) unsafe fn move_into(
    pages: OsPageRun,
    reservation: OsPageRun,
    to: *mut u8,
    new_len: usize,
) -> bool {
    let OsPageRun { start, len } = pages;
    let OsPageRun { start: reserved, len: reserved_len } = reservation;
    debug_assert!(len <= new_len && to.addr() + new_len < reservation.end().addr());
    let is_first = !BUSY.swap(true, Acquire);
    // SAFETY: the caller guarantees that mapping and reservation are its own; only parts that are
    // still the caller's are released.
    let moved = unsafe {
        if !is_first || len < new_len && !may_grow(start, len) {
            release(reserved, reserved_len);
            false
        } else {
            let is_marked = libc::madvise(reserved.cast(), reserved_len, libc::MADV_DONTDUMP) == 0;
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let moved = libc::mremap(start.cast(), len, new_len, flags, to) != libc::MAP_FAILED;
            if !moved {
                if is_marked && is_whole(reserved, reserved_len) {
                    release(reserved, reserved_len);
                } else {
                    release(reserved, to.offset_from_unsigned(reserved));
                    let rest = to.add(new_len);
                    release(rest, reservation.end().offset_from_unsigned(rest));
                }
            }
            moved
        }
    };
    if is_first {
        BUSY.store(false, Release);
    }
    moved
}

/// Returns how many of these bytes, from `start` on, can move by one call; 0 if the kernel refuses
/// to move any. Pages that moved here from elsewhere, or on which other advice was given, cannot
/// move with those beside them.
///
/// # Safety
/// The pages are the caller's.
pub(crate) unsafe fn movable(start: *mut u8, len: usize) -> usize {
    // SAFETY: the caller guarantees that the pages are its own.
    let moves = |len| unsafe { may_grow(start, len) };
    if moves(len) {
        return len;
    }
    // `most` OS pages can move, `least` cannot.
    let (mut most, mut least) = (0, len / page_size());
    while most + 1 < least {
        let middle = most.midpoint(least);
        if moves(middle * page_size()) {
            most = middle;
        } else {
            least = middle;
        }
    }
    most * page_size()
}

/// Returns whether the kernel can make this mapping longer, or fails only for lack of addresses or
/// memory. Any other failure means that it lacks the call, or that advice on a part has split the
/// mapping.
///
/// # Safety
/// The mapping is the caller's.
unsafe fn may_grow(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the mapping is its own; the added page is released again.
    unsafe {
        match lengthen(start, len) {
            Ok(()) => release(start.add(len), page_size()),
            Err(error) => error == libc::ENOMEM,
        }
    }
}

/// Returns whether these addresses are still one mapping to the kernel.
///
/// # Safety
/// The last page is the caller's, and so is every other page that no other thread has mapped.
unsafe fn is_whole(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the last page is its own; the added page is released
    // again.
    unsafe {
        match lengthen(start, len) {
            Ok(()) => release(start.add(len), page_size()),
            Err(error) => matches!(error, libc::ENOMEM | libc::EAGAIN),
        }
    }
}

/// Makes a mapping one page longer in place.
///
/// # Safety
/// The last page of the mapping is the caller's.
unsafe fn lengthen(start: *mut u8, len: usize) -> Result<(), c_int> {
    // SAFETY: the caller guarantees that the last page is its own; nothing is moved or unmapped.
    unsafe {
        if libc::mremap(start.cast(), len, len + page_size(), 0) == libc::MAP_FAILED {
            return Err(errno());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::{allocate, alone, is_readable, reserve};

    /// Moves a whole mapping, and one split in two, which the kernel refuses to move.
    #[test]
    fn a_mapping_that_cannot_move_stays_where_it_was() {
        alone::passes("os::linux::moves::tests::moves");
    }

    #[test]
    #[ignore = "in a process of its own: no other test may map what goes back"]
    fn moves() {
        let page = page_size();
        for pieces in [1, 2] {
            let (len, new_len, reserved_len) = (4 * page, 6 * page, 9 * page);
            let start = allocate(len).expect("there is memory");
            let reserved = reserve(reserved_len).expect("there are addresses");
            let to = reserved.wrapping_add(2 * page);
            // SAFETY: all of it is the test's own.
            unsafe {
                start.write_bytes(pieces, len);
                if pieces == 2 {
                    libc::madvise(start.cast(), page, libc::MADV_DONTFORK);
                }
                let pages = OsPageRun { start, len };
                let reservation = OsPageRun { start: reserved, len: reserved_len };
                let moved = move_into(pages, reservation, to, new_len);
                assert_eq!(moved, pieces == 1);
                let there = if moved { to } else { start };
                assert!((0..len).all(|at| there.add(at).read() == pieces));
                assert_eq!(is_readable(start), !moved);
                assert_eq!(is_readable(to), moved);
                release(there, if moved { new_len } else { len });
                release(reserved, 2 * page);
                release(to.add(new_len), page);
            }
        }
        assert!(!BUSY.load(Acquire));
    }

    /// A mapping in the gap does not make the reservation whole, even if it is mapped as a
    /// reservation is.
    #[test]
    fn a_reservation_with_a_gap_is_not_whole() {
        alone::passes("os::linux::moves::tests::whole");
    }

    #[test]
    #[ignore = "in a process of its own: no other test may map the gap"]
    fn whole() {
        let page = page_size();
        let reserved = reserve(9 * page).expect("there are addresses");
        let gap = reserved.wrapping_add(2 * page);
        // SAFETY: all of it is the test's own.
        unsafe {
            libc::madvise(reserved.cast(), 9 * page, libc::MADV_DONTDUMP);
            assert!(is_whole(reserved, 9 * page));
            release(gap, 6 * page);
            assert!(!is_whole(reserved, 9 * page));
            for access in [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE] {
                let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                let flags = kind | libc::MAP_FIXED_NOREPLACE;
                let own = libc::mmap(gap.cast(), 6 * page, access, flags, -1, 0);
                assert_eq!(own, gap.cast());
                assert!(!is_whole(reserved, 9 * page), "{access}");
                release(gap, 6 * page);
            }
            release(reserved, 2 * page);
            release(gap.add(6 * page), page);
        }
    }
}
