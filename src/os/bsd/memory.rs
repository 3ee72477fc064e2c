//! Memory given back and looked at, where the system has none of Linux's own calls.

use core::ffi::c_int;

/// Memory at an address and no other is not asked for: what says so is FreeBSD's alone, and macOS takes an address for a
/// wish.
///
/// # Safety
/// Whoever uses the pages knows of this.
pub(crate) unsafe fn map_at(_: *mut u8, _: usize) -> bool {
    false
}

/// See [`map_at`].
pub(crate) const NEEDS_RESERVATION: bool = false;

/// See [`map_at`].
pub(crate) fn reserve_at(_: *mut u8, _: usize) -> bool {
    false
}

/// See [`map_at`].
pub(crate) fn is_free(_: *mut u8, _: usize) -> bool {
    false
}

/// See [`map_at`]: there is no window. The heaps' addresses are a reservation.
pub(crate) fn addresses() -> Option<usize> {
    None
}

/// Nothing becomes longer in place, nor moves.
///
/// # Safety
/// The mapping is one of [`allocate`](crate::os::allocate), `len` bytes long, and known by nobody else if it moves.
pub(crate) unsafe fn remap(_: *mut u8, _: usize, _: usize, _: bool) -> Option<*mut u8> {
    None
}

/// Memory [given back](discard) may hold what it held until it is wanted elsewhere.
pub(crate) const DISCARDED_ARE_ZEROS: bool = false;

/// Gives the memory of whole OS pages back, which stay accessible, and hold anything. Whether it could be done. The
/// system takes them when it needs memory; until then they count as resident.
///
/// (To map new pages in their place would make them zeros at once; but where the system refuses, POSIX allows for the
/// old ones to be gone, and the program would lack memory that it was promised.)
///
/// # Safety
/// Nothing in the pages is used any more.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_FREE) == 0 }
}

/// There is nothing to tell: the system uses large pages as it sees fit, or has none.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}

/// See `advise_huge_pages`.
pub(crate) const ADVISES_HUGE_PAGES: bool = false;

/// Where huge pages are used unasked, they are not made of memory that takes none.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    false
}

/// Whether the word at an address may be readable, be it of this allocator or not: a call that reads a limit there, before
/// it finds that there is no such limit, answers EFAULT where it cannot. Any other error tells nothing.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    /// No system has so many limits. (Linux refuses negative numbers first.)
    const NO_LIMIT: c_int = 1 << 20;
    let limit = address.with_addr(address.addr() & !(size_of::<libc::rlimit>() - 1));
    // SAFETY: the call reads what it is given, if it can, and sets nothing, as there is no such limit.
    unsafe {
        let refused = libc::setrlimit(NO_LIMIT as _, limit.cast()) != 0;
        !(refused && *crate::os::errno_location() == libc::EFAULT)
    }
}
