//! C's `malloc` family: its rules for `errno` and for odd sizes, those of POSIX, C23 and GNU's library.
//! `prefixed` and `names` export it. Nothing here is but arithmetic and calls of [`PAGEWISE`], so that a fuzz target has
//! these rules, too, without the names.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::PAGEWISE;

/// Passes a block on; if there is none, says so in `errno`.
#[inline(always)]
fn or_no_memory(block: *mut u8) -> *mut c_void {
    if block.is_null() { no_memory() } else { block.cast() }
}

#[cold]
fn no_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

fn set_errno(error: c_int) {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() = error };
}

/// C's `malloc`. A block of size 0 is a block like others.
#[inline(always)]
pub(super) fn malloc(size: usize) -> *mut c_void {
    or_no_memory(PAGEWISE.allocate(size))
}

/// C's `calloc`.
#[inline(always)]
pub(super) fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(size) => or_no_memory(PAGEWISE.allocate_zeroed(size)),
        None => no_memory(),
    }
}

/// C's `free`. Keeps `errno`.
///
/// # Safety
/// `block` is null or a live block of this allocator.
#[inline(always)]
pub(super) unsafe fn free(block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { PAGEWISE.free(block.cast()) };
}

/// C23's `free_sized`. In hardened mode another size than the one asked for stops the process.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_sized(block: *mut c_void, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { PAGEWISE.free_sized(block.cast(), size) };
}

/// C23's `free_aligned_sized`. As [`free_sized`]; the alignment makes no difference.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_aligned_sized(block: *mut c_void, _align: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { free_sized(block, size) };
}

/// C's `realloc`. As in GNU's library, size 0 frees the block and gives null.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise; the block is not null.
    or_no_memory(unsafe { PAGEWISE.reallocate(block.cast(), size) })
}

/// GNU's `reallocarray`.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(size) => unsafe { realloc(block, size) },
        None => no_memory(),
    }
}

/// POSIX's `posix_memalign`. Leaves `errno` and, on an error, `*out` as they are.
///
/// # Safety
/// `out` is valid for writes.
#[inline(always)]
pub(super) unsafe fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = PAGEWISE.allocate_aligned(size, align);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(block.cast()) };
    0
}

/// C's `aligned_alloc`.
#[inline(always)]
pub(super) fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    or_no_memory(PAGEWISE.allocate_aligned(size, align))
}

/// The traditional `memalign`: an alignment that is no power of two is rounded up to one, as in
/// GNU's library.
#[inline(always)]
pub(super) fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => or_no_memory(PAGEWISE.allocate_aligned(size, align)),
        None => {
            set_errno(libc::EINVAL);
            ptr::null_mut()
        }
    }
}

/// The traditional `valloc`: a block aligned to an OS page.
#[inline(always)]
pub(super) fn valloc(size: usize) -> *mut c_void {
    or_no_memory(PAGEWISE.allocate_aligned(size, os_page()))
}

/// The traditional `pvalloc`: whole OS pages.
#[inline(always)]
pub(super) fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(os_page()) {
        Some(size) => valloc(size),
        None => no_memory(),
    }
}

/// GNU's `malloc_usable_size`: all of it may be used.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { PAGEWISE.usable_size(block.cast()) }
}

fn os_page() -> usize {
    // SAFETY: the call touches no memory of the program.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
