//! C's `malloc` family, with the rules of C23, POSIX and GNU's library for `errno` and for unusual
//! sizes. `prefixed` and `names` export it. The functions only compute sizes and call [`PAGEWISE`],
//! so a fuzz target can test these rules without exporting the names.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::PAGEWISE;

/// Returns the block; if it is null, sets `errno`.
#[inline(always)]
fn or_no_memory(block: *mut u8) -> *mut c_void {
    if block.is_null() { no_memory() } else { block.cast() }
}

#[cold]
pub(crate) fn no_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

fn set_errno(error: c_int) {
    // SAFETY: the location belongs to the calling thread and is always valid.
    unsafe { *libc::__errno_location() = error };
}

/// C's `malloc`. Size 0 gives a block that must be freed like any other.
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

/// C's `free`. Preserves `errno`.
///
/// # Safety
/// `block` is null or a block in use of this allocator.
#[inline(always)]
pub(super) unsafe fn free(block: *mut c_void) {
    // SAFETY: the caller guarantees that the block is null or in use.
    unsafe { PAGEWISE.free(block.cast()) };
}

/// C23's `free_sized`. In hardened mode a wrong size stops the process.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_sized(block: *mut c_void, size: usize) {
    // SAFETY: the caller guarantees that the block is null or in use.
    unsafe { PAGEWISE.free_sized(block.cast(), size) };
}

/// C23's `free_aligned_sized`. Does the same as [`free_sized`]; the alignment is ignored.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_aligned_sized(block: *mut c_void, _align: usize, size: usize) {
    // SAFETY: the caller guarantees that the block is null or in use.
    unsafe { free_sized(block, size) };
}

/// C's `realloc`. As in GNU's library, size 0 frees the block and returns null.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // SAFETY: the caller guarantees that the block is in use.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller guarantees that the block is in use; it is not null.
    or_no_memory(unsafe { PAGEWISE.reallocate(block.cast(), size) })
}

/// GNU's `reallocarray`.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller guarantees that the block is null or in use.
        Some(size) => unsafe { realloc(block, size) },
        None => no_memory(),
    }
}

/// POSIX's `posix_memalign`. Preserves `errno` and, on an error, `*out`.
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
    // SAFETY: the caller guarantees that `out` is valid for writes.
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

/// The traditional `memalign`. Rounds `align` up to a power of two, as GNU's library does.
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

/// The traditional `valloc`: returns a block aligned to an OS page.
#[inline(always)]
pub(super) fn valloc(size: usize) -> *mut c_void {
    or_no_memory(PAGEWISE.allocate_aligned(size, os_page()))
}

/// The traditional `pvalloc`: returns a block of whole OS pages.
#[inline(always)]
pub(super) fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(os_page()) {
        Some(size) => valloc(size),
        None => no_memory(),
    }
}

/// GNU's `malloc_usable_size`. The program may use all of the bytes returned.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller guarantees that the block is null or in use.
    unsafe { PAGEWISE.usable_size(block.cast()) }
}

fn os_page() -> usize {
    // SAFETY: the call does not access the program's memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
