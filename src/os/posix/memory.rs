//! Memory reserved, made accessible, given up, by the calls that POSIX and its kin have.

use core::ffi::c_int;
use core::ptr;

use crate::os::{discard, page_size};

/// What has a reservation take no memory, nor count as memory; without the flag, what nobody may touch does not.
#[cfg(not(target_os = "freebsd"))]
const NORESERVE: c_int = libc::MAP_NORESERVE;
#[cfg(target_os = "freebsd")]
const NORESERVE: c_int = 0;

/// What has a mapping take all its memory now.
#[cfg(any(target_os = "linux", target_os = "android"))]
const POPULATE: c_int = libc::MAP_POPULATE;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const POPULATE: c_int = 0;

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

/// Maps `len` bytes of fresh memory, zeros.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
}

/// As [`allocate`], of memory that is written at once: it need not come by an OS page at a time.
pub(crate) fn allocate_populated(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, POPULATE)
}

/// Makes the OS pages that cover these bytes, of a [reservation](reserve), accessible. Whether it
/// could be done.
///
/// # Safety
/// The pages lie in a reservation.
pub(crate) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    let page = page_size();
    let gap = start.addr() & (page - 1);
    let len = (len + gap).next_multiple_of(page);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: by the caller's promise the pages are ours; nothing is taken from them.
    unsafe { libc::mprotect(start.wrapping_sub(gap).cast(), len, protection) == 0 }
}

/// Unmaps whole OS pages. Whether it could be done: a mapping may not be cut in two where the system
/// allows for no more mappings. If not, the pages' memory goes back and only their addresses stay.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if len == 0 || libc::munmap(start.cast(), len) == 0 {
            return true;
        }
        discard(start, len);
    }
    false
}

/// Gives the memory of whole OS pages back, whose addresses stay taken, and inaccessible. Whether it could be
/// done.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(crate) unsafe fn close(start: *mut u8, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { libc::mmap(start.cast(), len, libc::PROT_NONE, flags, -1, 0) != libc::MAP_FAILED }
}

/// Makes whole OS pages inaccessible: who touches them gets SIGSEGV. Where the system refuses, they stay as
/// they are.
///
/// # Safety
/// The pages were mapped here, and nobody is to use them.
pub(crate) unsafe fn guard(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::mprotect(start.cast(), len, libc::PROT_NONE) };
}

/// Makes whole OS pages read-only: who writes there gets SIGSEGV. Whether it could be done.
///
/// # Safety
/// The pages are the caller's, and nobody writes there until they are [accessible](commit) again.
pub(crate) unsafe fn forbid_writes(start: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ) == 0 }
}

/// OS pages asked about at one time.
const RESIDENT_WINDOW: usize = 1024;

/// Calls `visit` for the runs of OS pages between two page boundaries that take memory; for all of them
/// where the system does not tell.
pub(crate) fn for_each_resident(start: *mut u8, len: usize, visit: &mut dyn FnMut(*mut u8, usize)) {
    let page = page_size();
    let mut states = [0u8; RESIDENT_WINDOW];
    let (mut run_start, mut run) = (0, 0);
    let mut from = 0;
    while from < len {
        let window = (len - from).min(RESIDENT_WINDOW * page);
        let pages = window / page;
        // SAFETY: there is a state for every page of the window.
        let known = unsafe {
            libc::mincore(start.wrapping_add(from).cast(), window, states.as_mut_ptr().cast()) == 0
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
        from += window;
    }
    if run > 0 {
        visit(start.wrapping_add(run_start), run);
    }
}

/// Whether the OS page at an address is known to take memory.
pub(crate) fn is_resident(address: *mut u8) -> bool {
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1));
    // SAFETY: there is a state for the one page asked about.
    let known = unsafe { libc::mincore(start.cast(), page, (&raw mut state).cast()) == 0 };
    known && state & 1 == 1
}

/// The least that may limit this process's address space, bytes.
pub(crate) fn address_space_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 };
    if known { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { usize::MAX }
}
