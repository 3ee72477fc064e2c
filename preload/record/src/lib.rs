//! `libpagewise_record.so`: records the allocations of any dynamically linked program.
//!
//! When preloaded (`LD_PRELOAD`), it stands between the program and its allocator. It forwards each
//! function of C's `malloc` family to the next one of that name, which need not be the C library's,
//! and records the call in the raw log of [`pagewise_trace::raw`]. `pagewise record` sets the
//! environment and converts the logs.
//!
//! This package is glue: `real` finds the functions to forward to, `thread` numbers threads without
//! allocating, `caller` records the caller's registers, `stack` walks the call stack if that is
//! asked for, and this file has the exported functions. They do not allocate, do not leave a file
//! open, and change `errno` only if the real function does.

#![cfg(target_os = "linux")]

mod caller;
mod real;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod stack;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "no_stack.rs"]
mod stack;
mod thread;

// Exports `dlopen`. Otherwise the allocations of libraries opened with RTLD_DEEPBIND would not be
// recorded.
extern crate pagewise_deepbind;

use core::ffi::{c_int, c_void};
use core::ptr;

use caller::{Caller, noting_its_caller};
use pagewise_trace::raw::{self, Record};
use real::real;

/// Alignment of the blocks that `malloc` returns: that of the largest fundamental type.
const ALIGN_LOG2: u8 = (2 * size_of::<usize>()).trailing_zeros() as u8;

fn address(block: *mut c_void) -> u64 {
    block.addr() as u64
}

/// Records an allocation, unless it failed, and returns the block.
#[inline]
fn allocated(block: *mut c_void, size: usize, align_log2: u8, caller: Caller) -> *mut c_void {
    if !block.is_null() && !real::is_bootstrap(block) {
        let record = Record::Allocated { address: address(block), size: size as u64, align_log2 };
        stack::record(thread::number(), record, caller);
    }
    block
}

/// Returns the binary logarithm of the alignment that the C library gives a request for `align`
/// bytes.
fn exponent(align: usize) -> u8 {
    align.checked_next_power_of_two().map_or(0, |align| align.trailing_zeros().min(31) as u8)
}

noting_its_caller! {
    /// C's `malloc`.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn malloc(size: usize) -> *mut c_void = malloc_for ["rsi" "rdx"]
}

extern "C" fn malloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real() {
        // SAFETY: any size is allowed.
        Some(real) => allocated(unsafe { (real.malloc)(size) }, size, ALIGN_LOG2, caller),
        None => real::bootstrap(size),
    }
}

noting_its_caller! {
    /// C's `calloc`.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn calloc(count: usize, size: usize) -> *mut c_void = calloc_for ["rdx" "rcx"]
}

extern "C" fn calloc_for(count: usize, size: usize, caller: Caller) -> *mut c_void {
    match real() {
        Some(real) => {
            // SAFETY: any arguments are allowed; if the product overflows, the call fails.
            let block = unsafe { (real.calloc)(count, size) };
            allocated(block, count.wrapping_mul(size), ALIGN_LOG2, caller)
        }
        None => count.checked_mul(size).map_or(ptr::null_mut(), real::bootstrap),
    }
}

noting_its_caller! {
    /// C's `realloc`.
    ///
    /// # Safety
    /// `block` is null or a block in use of this allocator.
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void = realloc_for ["rdx" "rcx"]
}

unsafe extern "C" fn realloc_for(block: *mut c_void, size: usize, caller: Caller) -> *mut c_void {
    if real::is_bootstrap(block) {
        let moved = malloc_for(size, caller);
        if !moved.is_null() {
            // SAFETY: a bootstrap block is never freed, and both blocks have at least the bytes
            // copied.
            unsafe { ptr::copy_nonoverlapping(block, moved, real::bootstrap_len(block).min(size)) };
        }
        return moved;
    }
    let Some(real) = real() else { return real::bootstrap(size) };
    let thread = thread::number();
    let begin =
        Record::Reallocating { address: address(block), size: size as u64, align_log2: ALIGN_LOG2 };
    stack::record(thread, begin, caller);
    // SAFETY: the caller guarantees that `block` is null or in use.
    let moved = unsafe { (real.realloc)(block, size) };
    raw::record(thread, Record::Reallocated { address: address(moved) });
    moved
}

noting_its_caller! {
    /// GNU's `reallocarray`. Uses `realloc` as the C library does; the C library's own
    /// `reallocarray` would call `realloc` here, and the request would be recorded twice.
    ///
    /// # Safety
    /// As for [`realloc`].
    fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void
        = reallocarray_for ["rcx" "r8"]
}

unsafe extern "C" fn reallocarray_for(
    block: *mut c_void,
    count: usize,
    size: usize,
    caller: Caller,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller guarantees that `block` is null or in use.
        Some(size) => unsafe { realloc_for(block, size, caller) },
        None => out_of_memory(),
    }
}

/// C's `free`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the callee has the same contract.
    unsafe { free_recorded(block) };
}

/// C23's `free_sized`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // C says that it does what `free` does, and the C library may not have it.
    // SAFETY: the callee has the same contract.
    unsafe { free_recorded(block) };
}

/// C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the callee has the same contract.
    unsafe { free_recorded(block) };
}

/// Records that a block is freed, and frees it.
///
/// # Safety
/// As for [`realloc`].
unsafe fn free_recorded(block: *mut c_void) {
    if block.is_null() || real::is_bootstrap(block) {
        return;
    }
    let Some(real) = real() else { return };
    raw::record(thread::number(), Record::Freeing { address: address(block) });
    // SAFETY: the caller guarantees that `block` is in use.
    unsafe { (real.free)(block) };
}

noting_its_caller! {
    /// POSIX's `posix_memalign`.
    ///
    /// # Safety
    /// `out` is valid for writes.
    fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int
        = posix_memalign_for ["rcx" "r8"]
}

unsafe extern "C" fn posix_memalign_for(
    out: *mut *mut c_void,
    align: usize,
    size: usize,
    caller: Caller,
) -> c_int {
    let Some(function) = real().and_then(|real| real.posix_memalign) else { return libc::ENOMEM };
    // SAFETY: the caller guarantees that `out` is valid for writes.
    let error = unsafe { function(out, align, size) };
    if error == 0 {
        // SAFETY: the call succeeded and wrote `out`.
        allocated(unsafe { *out }, size, exponent(align), caller);
    }
    error
}

noting_its_caller! {
    /// C's `aligned_alloc`.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void = aligned_alloc_for ["rdx" "rcx"]
}

extern "C" fn aligned_alloc_for(align: usize, size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.aligned_alloc) {
        Some(function) => {
            // SAFETY: any size and alignment are allowed.
            allocated(unsafe { function(align, size) }, size, exponent(align), caller)
        }
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `memalign`.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn memalign(align: usize, size: usize) -> *mut c_void = memalign_for ["rdx" "rcx"]
}

extern "C" fn memalign_for(align: usize, size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.memalign) {
        Some(function) => {
            // SAFETY: any size and alignment are allowed.
            allocated(unsafe { function(align, size) }, size, exponent(align), caller)
        }
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `valloc`: returns a block aligned to an OS page.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn valloc(size: usize) -> *mut c_void = valloc_for ["rsi" "rdx"]
}

extern "C" fn valloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.valloc) {
        // SAFETY: any size is allowed.
        Some(function) => allocated(unsafe { function(size) }, size, exponent(os_page()), caller),
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `pvalloc`: returns a block of whole OS pages.
    ///
    /// # Safety
    /// Any arguments are allowed.
    fn pvalloc(size: usize) -> *mut c_void = pvalloc_for ["rsi" "rdx"]
}

extern "C" fn pvalloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.pvalloc) {
        Some(function) => {
            // SAFETY: any size is allowed.
            let block = unsafe { function(size) };
            allocated(block, size.next_multiple_of(os_page()), exponent(os_page()), caller)
        }
        None => out_of_memory(),
    }
}

/// GNU's `malloc_usable_size`. Forwarded, because a program may use as many bytes as it returns.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if real::is_bootstrap(block) {
        return real::bootstrap_len(block);
    }
    match real().and_then(|real| real.malloc_usable_size) {
        // SAFETY: the caller guarantees that `block` is null or in use.
        Some(function) => unsafe { function(block) },
        None => 0,
    }
}

/// The loader's `dlclose`. Also invalidates what the recorder remembers of the unloaded file.
///
/// # Safety
/// As for the loader's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(function) = real().and_then(|real| real.dlclose) else { return -1 };
    // SAFETY: the caller gives the same guarantees.
    let error = unsafe { function(handle) };
    stack::unloaded();
    error
}

fn os_page() -> usize {
    // SAFETY: the call does not access the program's memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Fails in the way that `malloc` does.
fn out_of_memory() -> *mut c_void {
    // SAFETY: the location belongs to the calling thread and is always valid.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}
