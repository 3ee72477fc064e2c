//! The kernel's calls for memory: reserved, made accessible, given back. `interpreted` has the same
//! functions for Miri.

use core::ffi::c_int;
use core::ptr;

use crate::os::page_size;

fn map(len: usize, protection: c_int, flags: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in
    // use.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Reserves `len` bytes of address space, inaccessible until [committed](commit).
pub(crate) fn reserve(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_NONE, libc::MAP_NORESERVE)
}

/// Maps `len` bytes of fresh memory, zeros.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
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

/// Maps whole OS pages of fresh memory, zeros, at this address and no other. Whether it could be done:
/// not where there is memory already.
///
/// # Safety
/// Whoever uses the pages knows of this.
pub(crate) unsafe fn map_at(start: *mut u8, len: usize) -> bool {
    map_exactly(start, len, libc::PROT_READ | libc::PROT_WRITE).is_ok()
}

/// Whether nothing is mapped at these addresses. Where a limit is in the way, the first page speaks for
/// all.
pub(crate) fn is_free(start: *mut u8, len: usize) -> bool {
    let try_to_map = |len| {
        // SAFETY: these pages were mapped just now.
        map_exactly(start, len, libc::PROT_NONE).map(|()| unsafe { release(start, len) })
    };
    match try_to_map(len) {
        Err(libc::ENOMEM) => try_to_map(page_size()).is_ok(),
        answer => answer.is_ok(),
    }
}

/// Maps pages at this address; what the system answers if it does not.
fn map_exactly(start: *mut u8, len: usize, protection: c_int) -> Result<(), c_int> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the call takes no memory that is in use.
    let mapped = unsafe { libc::mmap(start.cast(), len, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        // SAFETY: the location is the calling thread's own and always valid.
        return Err(unsafe { *libc::__errno_location() });
    }
    if mapped != start.cast() {
        // A kernel before Linux 4.17 takes the address for a wish.
        // SAFETY: these pages were mapped just now.
        unsafe { release(mapped.cast(), len) };
        return Err(libc::EEXIST);
    }
    Ok(())
}

/// Bytes of all addresses that a process may use, as far as those of its own memory show: a power of
/// two. `None` where there are too few of them for a window.
pub(crate) fn addresses() -> Option<usize> {
    let here = 0_u8;
    // A stack lies at the upper end.
    let all = 1_usize.checked_shl(usize::BITS - (&raw const here).addr().leading_zeros())?;
    (usize::BITS == 64 && all >> 19 >> 19 > 0).then_some(all)
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

/// Makes a mapping longer or shorter, moving it where it must.
///
/// # Safety
/// The mapping is one of [`allocate`], `len` bytes long, and known by nobody else if it moves.
pub(crate) unsafe fn remap(
    start: *mut u8,
    len: usize,
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: the caller's promise.
    let moved = unsafe { libc::mremap(start.cast(), len, new_len, flags) };
    (moved != libc::MAP_FAILED).then_some(moved.cast())
}

/// Makes a mapping longer, and moves it to an address, whose pages are replaced. Whether it could be done.
///
/// # Safety
/// The mapping is `len` bytes long, and known by nobody else; the `new_len` bytes moved to are the caller's,
/// and hold nothing.
pub(crate) unsafe fn move_to(start: *mut u8, len: usize, new_len: usize, to: *mut u8) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { libc::mremap(start.cast(), len, new_len, flags, to) != libc::MAP_FAILED }
}

/// Gives the memory of whole OS pages back, whose addresses stay taken, and inaccessible. Whether it could be
/// done.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(crate) unsafe fn close(start: *mut u8, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
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

/// Memory [given back](discard) reads as zeros.
pub(crate) const DISCARDED_ARE_ZEROS: bool = true;

/// Gives the memory of whole OS pages back; they read as zeros when touched again. Whether it could be
/// done: before Linux 5.18 the memory of a program that called `mlockall` stays.
///
/// # Safety
/// Nothing in the pages is used any more.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    /// As `MADV_DONTNEED`, of locked memory too, which stays locked: what is touched again is.
    const MADV_DONTNEED_LOCKED: c_int = 24;
    let advice = [libc::MADV_DONTNEED, MADV_DONTNEED_LOCKED];
    // SAFETY: the caller's promise.
    advice.into_iter().any(|advice| unsafe { libc::madvise(start.cast(), len, advice) == 0 })
}

/// Tells the kernel whether to use huge pages here.
///
/// # Safety
/// The pages were mapped here.
pub(crate) unsafe fn advise_huge_pages(start: *mut u8, len: usize, wanted: bool) {
    let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the advice changes no contents.
    unsafe { libc::madvise(start.cast(), len, advice) };
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

/// Whether the word at an address may be readable, be it of this allocator or not. Neither of two calls
/// may answer ENOMEM, as they do where nothing is mapped, nor a third EFAULT, which it does where reading is
/// not allowed. Any other error is that of a sandbox or of an emulator, and tells nothing.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1)).cast();
    // SAFETY: there is a state for the one page asked about; the second call changes nothing. The third reads
    // a set of signals, before it finds that it is not told what to do with them.
    unsafe {
        let fails = |failed, error| failed && *libc::__errno_location() == error;
        let absent = fails(libc::mincore(start, page, (&raw mut state).cast()) != 0, libc::ENOMEM)
            && fails(libc::msync(start, page, libc::MS_ASYNC) != 0, libc::ENOMEM);
        let set = address.with_addr(address.addr() & !7);
        let none = ptr::null_mut::<u8>();
        let call = libc::SYS_rt_sigprocmask;
        !absent && !fails(libc::syscall(call, -1_isize, set, none, 8_usize) != 0, libc::EFAULT)
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
