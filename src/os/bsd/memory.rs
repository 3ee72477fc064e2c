//! Memory on systems that lack Linux's own calls: giving it back, and looking at it.

use core::ffi::c_int;

use crate::os::errno;

/// Never maps: only FreeBSD has a flag for exactly this address, and macOS takes the address as a
/// hint.
///
/// # Safety
/// None: nothing is mapped.
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

/// Returns `None`: there is no window (see [`map_at`]). The heaps' addresses come from one
/// reservation.
pub(crate) fn addresses() -> Option<usize> {
    None
}

/// Never resizes: the system neither grows a mapping in place nor moves it.
///
/// # Safety
/// The mapping came from [`allocate`](crate::os::allocate) and is `len` bytes long; if it moves,
/// only the caller knows of it.
pub(crate) unsafe fn remap(_: *mut u8, _: usize, _: usize, _: bool) -> Option<*mut u8> {
    None
}

/// Whether [discarded](discard) pages read as zeros: they may keep their old contents until the
/// system needs the memory.
pub(crate) const DISCARDED_ARE_ZEROS: bool = false;

/// Gives back the memory of whole OS pages, which stay accessible with arbitrary contents. Returns
/// whether it did. The system takes the pages when it needs memory; until then they count as
/// resident.
///
/// Mapping new pages over the old ones would zero them at once. But if the system refuses, POSIX
/// allows the old pages to be gone, and the program would lose memory that it was promised.
///
/// # Safety
/// The contents of the pages are no longer used.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the contents are unused.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_FREE) == 0 }
}

/// Does nothing: the system uses large pages as it chooses, or has none.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}

/// See `advise_huge_pages`.
pub(crate) const ADVISES_HUGE_PAGES: bool = false;

/// Returns false: systems that use huge pages unasked do not build them from pages that take no
/// memory.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    false
}

/// Returns whether the word at `address` may be readable, whether or not it is this allocator's.
/// The call reads a limit at the address before it finds that no such limit exists: EFAULT means
/// that it could not read. Any other error means nothing. (Linux takes null for no limit, and reads
/// nothing.)
pub(crate) fn is_readable(address: *mut u8) -> bool {
    /// More limits than any system has. (Linux refuses negative numbers before it reads.)
    const NO_LIMIT: c_int = 1 << 20;
    let limit = address.with_addr(address.addr() & !(size_of::<libc::rlimit>() - 1));
    // SAFETY: the call only reads at the address, if it can. It sets nothing, as no such limit
    // exists.
    let refused = unsafe { libc::setrlimit(NO_LIMIT as _, limit.cast()) != 0 };
    !limit.is_null() && !(refused && errno() == libc::EFAULT)
}
