//! The system calls of the global allocator. None of them allocates.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Size of an OS page in bytes, asked for once.
pub(super) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: the call touches no memory of ours.
            let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
            let size = size.ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

fn map(len: usize, protection: c_int, flags: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in
    // use.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Reserves `len` bytes of address space, inaccessible until [committed](commit).
pub(super) fn reserve(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_NONE, libc::MAP_NORESERVE)
}

/// Maps `len` bytes of fresh memory, zeros.
pub(super) fn allocate(len: usize) -> Option<*mut u8> {
    map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
}

/// Makes the OS pages that cover these bytes, of a [reservation](reserve), accessible. Whether it
/// could be done.
///
/// # Safety
/// The pages lie in a reservation.
pub(super) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    let page = page_size();
    let gap = start.addr() & (page - 1);
    let len = (len + gap).next_multiple_of(page);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: by the caller's promise the pages are ours; nothing is taken from them.
    unsafe { libc::mprotect(start.wrapping_sub(gap).cast(), len, protection) == 0 }
}

/// Unmaps whole OS pages.
///
/// # Safety
/// The pages were mapped here and are not used any more.
pub(super) unsafe fn release(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(start.cast(), len) };
    }
}

/// Makes a mapping longer or shorter, moving it where it must.
///
/// # Safety
/// The mapping is one of [`allocate`], `len` bytes long, and known by nobody else if it moves.
pub(super) unsafe fn remap(
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

/// Gives the memory of whole OS pages back; they read as zeros when touched again.
///
/// # Safety
/// Nothing in the pages is used any more.
pub(super) unsafe fn discard(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_DONTNEED) };
}

/// Tells the kernel whether to use huge pages here.
///
/// # Safety
/// The pages were mapped here.
pub(super) unsafe fn advise_huge_pages(start: *mut u8, len: usize, wanted: bool) {
    let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the advice changes no contents.
    unsafe { libc::madvise(start.cast(), len, advice) };
}

/// OS pages asked about at one time.
const RESIDENT_WINDOW: usize = 1024;

/// Calls `visit` for the runs of OS pages between two page boundaries that take memory.
pub(super) fn for_each_resident(start: *mut u8, len: usize, visit: &mut dyn FnMut(*mut u8, usize)) {
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

/// Whether there is memory at an address, be it of this allocator or not.
pub(super) fn is_mapped(address: *mut u8) -> bool {
    let page = page_size();
    let mut state = 0u8;
    let start = address.with_addr(address.addr() & !(page - 1));
    // SAFETY: there is a state for the one page asked about.
    unsafe { libc::mincore(start.cast(), page, (&raw mut state).cast()) == 0 }
}

/// Milliseconds of a clock that never goes back.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Lets other threads go on for a moment.
pub(super) fn pause() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}

/// CPUs this process may run on, at least 1.
pub(super) fn cpus() -> usize {
    // SAFETY: all bits zero is an empty set, and the call writes no more than one.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) != 0 {
            return 1;
        }
        usize::try_from(libc::CPU_COUNT(&set)).unwrap_or(1).max(1)
    }
}

/// The least that may limit this process's address space, bytes.
pub(super) fn address_space_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 };
    if known { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { usize::MAX }
}

/// The number an environment variable holds, if it holds one. Reads `environ` itself: `std` would
/// allocate.
pub(super) fn variable(name: &CStr) -> Option<u64> {
    // SAFETY: the environment is read before the program can change it from another thread: at the
    // first allocation. `getenv` returns null or a C string.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))?
    };
    value.to_str().ok()?.trim().parse().ok()
}

/// Sleeps while `word` has this value, until woken.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    let no_timeout = ptr::null::<libc::timespec>();
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_timeout) };
}

/// Wakes one of those who [wait](wait) for the word.
pub(super) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all who [wait](wait) for the word.
pub(super) fn wake_all(word: &AtomicU32) {
    wake_some(word, c_int::MAX);
}

fn wake_some(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

/// An address that is the calling thread's alone.
#[inline]
pub(super) fn thread_address() -> usize {
    // SAFETY: the call may be made at any time.
    unsafe { libc::__errno_location() }.addr()
}

/// Keeps the calling thread's `errno` as it is while this lives: `free` must not change it.
pub(super) struct KeepErrno(c_int);

impl KeepErrno {
    pub(super) fn new() -> Self {
        // SAFETY: the location is the calling thread's own and always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Ends the process with one line on standard error.
#[cold]
pub(super) fn stop(message: &[u8]) -> ! {
    write(message);
    // SAFETY: `abort` does not return.
    unsafe { libc::abort() }
}

/// Writes to standard error.
pub(super) fn write(message: &[u8]) {
    // SAFETY: the message is valid for reads of its length. If it cannot be written, nobody can be
    // told.
    unsafe { libc::write(2, message.as_ptr().cast::<c_void>(), message.len()) };
}
