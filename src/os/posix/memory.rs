//! Memory by the calls of POSIX and its relatives: reserved, made accessible, released.

use core::ffi::c_int;
use core::ptr;

#[cfg(target_os = "linux")]
use crate::os::is_sandboxed;
use crate::os::{discard, page_size};

/// Elsewhere no call kills a process.
#[cfg(not(target_os = "linux"))]
const fn is_sandboxed() -> bool {
    false
}

/// Keeps a reservation from counting as memory. Systems without the flag do not count inaccessible
/// pages.
#[cfg(not(target_os = "freebsd"))]
const NORESERVE: c_int = libc::MAP_NORESERVE;
#[cfg(target_os = "freebsd")]
const NORESERVE: c_int = 0;

/// Maps `len` bytes at addresses of the kernel's choice.
fn map(len: usize, protection: c_int, flags: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in
    // use.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Reserves `len` bytes of address space, inaccessible until [committed](commit).
pub(crate) fn reserve(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_NONE, NORESERVE)
}

/// Maps `len` bytes of zeros.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
}

/// Makes the OS pages that cover these bytes of a [reservation](reserve) accessible. Returns
/// whether it did.
///
/// # Safety
/// The pages are in a reservation.
pub(crate) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    let page = page_size();
    let gap = start.addr() & (page - 1);
    let len = (len + gap).next_multiple_of(page);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller guarantees that the pages are ours; they lose no contents.
    unsafe { libc::mprotect(start.wrapping_sub(gap).cast(), len, protection) == 0 }
}

/// Unmaps whole OS pages. Returns whether it did: the system refuses to split a mapping if the
/// process is at its limit on mappings. The pages' memory is given back even then, and only their
/// addresses stay.
///
/// # Safety
/// The pages were mapped here and are no longer used.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the pages are ours and unused.
    unsafe {
        if len == 0 || libc::munmap(start.cast(), len) == 0 {
            return true;
        }
        discard(start, len);
    }
    false
}

/// Gives back the memory of whole OS pages. Their addresses stay reserved and inaccessible. Returns
/// whether it did.
///
/// # Safety
/// The pages were mapped here and are no longer used.
pub(crate) unsafe fn close(start: *mut u8, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller guarantees that the pages are ours and unused.
    unsafe { libc::mmap(start.cast(), len, libc::PROT_NONE, flags, -1, 0) != libc::MAP_FAILED }
}

/// Makes whole OS pages inaccessible: touching them raises SIGSEGV. If the system refuses, nothing
/// changes.
///
/// # Safety
/// The pages were mapped here, and no code may use them.
pub(crate) unsafe fn guard(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are ours and must not be used.
    unsafe { libc::mprotect(start.cast(), len, libc::PROT_NONE) };
}

/// Makes whole OS pages read-only: writing to them raises SIGSEGV. Returns whether it did.
///
/// # Safety
/// The pages are the caller's, and are not written until they are [accessible](commit) again.
pub(crate) unsafe fn forbid_writes(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller guarantees that the pages are its own and are not written.
    unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ) == 0 }
}

/// OS pages that one call of `mincore` is asked about.
const ASKED_AT_ONCE: usize = 1024;

/// Calls `visit` for each run of resident OS pages in `len` bytes from `start`, both multiples of
/// the page size. Takes all pages as resident if the system does not tell.
pub(crate) fn for_each_resident(start: *mut u8, len: usize, visit: &mut dyn FnMut(*mut u8, usize)) {
    let page = page_size();
    let mut states = [0u8; ASKED_AT_ONCE];
    let (mut run_start, mut run) = (0, 0);
    let mut from = 0;
    while from < len {
        let asked = (len - from).min(ASKED_AT_ONCE * page);
        let pages = asked / page;
        // SAFETY: `states` has one element for each page that is asked about.
        let known = !is_sandboxed()
            && unsafe {
                libc::mincore(start.wrapping_add(from).cast(), asked, states.as_mut_ptr().cast())
                    == 0
            };
        for (index, &state) in states[..pages].iter().enumerate() {
            if !known || state & 1 == 1 {
                if run == 0 {
                    run_start = from + index * page;
                }
                run += page;
            } else if run > 0 {
                visit(start.wrapping_add(run_start), core::mem::take(&mut run));
            }
        }
        from += asked;
    }
    if run > 0 {
        visit(start.wrapping_add(run_start), run);
    }
}

/// Returns whether the OS page at `address` is known to be resident.
pub(crate) fn is_resident(address: *mut u8) -> bool {
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1));
    // SAFETY: `state` has room for the one page.
    let known = !is_sandboxed()
        && unsafe { libc::mincore(start.cast(), page, (&raw mut state).cast()) == 0 };
    known && state & 1 == 1
}

/// Returns the limit on this process's address space in bytes (the soft one), `usize::MAX` if there
/// is none.
pub(crate) fn address_space_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 };
    if known { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { usize::MAX }
}
