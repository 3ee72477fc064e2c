//! `libpagewise_record.so`: records the allocations of any dynamically linked program.
//!
//! Preloaded (`LD_PRELOAD`), it stands between the program and its allocator: each function of
//! C's `malloc` family is passed on to the next one of that name, which need not be the C
//! library's, and recorded in the raw log of [`pagewise_trace::raw`]. `pagewise record` sets the
//! environment and converts the logs.
//!
//! This package is glue: `real` finds the functions passed on to, `thread` numbers threads
//! without allocating, `caller` notes who calls, `stack` finds out who called that, if it is asked for,
//! and here stand the functions themselves. None of them changes `errno`
//! beyond what the real one does, opens a file that stays open, or allocates.

#![cfg(target_os = "linux")]

mod caller;
mod real;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod stack;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "no_stack.rs"]
mod stack;
mod thread;

// Exports `dlopen`: else what libraries allocate that are opened with RTLD_DEEPBIND would not be recorded.
extern crate pagewise_deepbind;

use core::ffi::{c_int, c_void};
use core::ptr;

use caller::{Caller, noting_its_caller};
use pagewise_trace::raw::{self, Record};
use real::real;

/// Alignment of what `malloc` returns: that of the largest fundamental type.
const ALIGN_LOG2: u8 = (2 * size_of::<usize>()).trailing_zeros() as u8;

fn address(block: *mut c_void) -> u64 {
    block.addr() as u64
}

/// Records an allocation, unless it failed, and passes the block on.
#[inline]
fn allocated(block: *mut c_void, size: usize, align_log2: u8, caller: Caller) -> *mut c_void {
    if !block.is_null() && !real::is_bootstrap(block) {
        let record = Record::Allocated { address: address(block), size: size as u64, align_log2 };
        stack::record(thread::number(), record, caller);
    }
    block
}

/// The exponent of the alignment the C library gives for a request of `align` bytes.
fn exponent(align: usize) -> u8 {
    align.checked_next_power_of_two().map_or(0, |align| align.trailing_zeros().min(31) as u8)
}

noting_its_caller! {
    /// C's `malloc`.
    ///
    /// # Safety
    /// None is asked for: any arguments will do.
    fn malloc(size: usize) -> *mut c_void = malloc_for ["rsi" "rdx"]
}

extern "C" fn malloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real() {
        // SAFETY: any size may be asked for.
        Some(real) => allocated(unsafe { (real.malloc)(size) }, size, ALIGN_LOG2, caller),
        None => real::bootstrap(size),
    }
}

noting_its_caller! {
    /// C's `calloc`.
    ///
    /// # Safety
    /// None is asked for: any arguments will do.
    fn calloc(count: usize, size: usize) -> *mut c_void = calloc_for ["rdx" "rcx"]
}

extern "C" fn calloc_for(count: usize, size: usize, caller: Caller) -> *mut c_void {
    match real() {
        Some(real) => {
            // SAFETY: any size may be asked for. If the product overflows the call fails.
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
    /// `block` is null or a live block of this allocator.
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void = realloc_for ["rdx" "rcx"]
}

unsafe extern "C" fn realloc_for(block: *mut c_void, size: usize, caller: Caller) -> *mut c_void {
    if real::is_bootstrap(block) {
        let moved = malloc_for(size, caller);
        if !moved.is_null() {
            // SAFETY: a bootstrap block is never given back, and both are as long as is copied.
            unsafe { ptr::copy_nonoverlapping(block, moved, real::bootstrap_len(block).min(size)) };
        }
        return moved;
    }
    let Some(real) = real() else { return real::bootstrap(size) };
    let thread = thread::number();
    let begin =
        Record::Reallocating { address: address(block), size: size as u64, align_log2: ALIGN_LOG2 };
    stack::record(thread, begin, caller);
    // SAFETY: the caller's promise.
    let moved = unsafe { (real.realloc)(block, size) };
    raw::record(thread, Record::Reallocated { address: address(moved) });
    moved
}

noting_its_caller! {
    /// GNU's `reallocarray`. It is made of `realloc`, as in the C library, whose own would come back
    /// here and be recorded twice.
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
        // SAFETY: the caller's promise.
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
    if block.is_null() || real::is_bootstrap(block) {
        return;
    }
    let Some(real) = real() else { return };
    raw::record(thread::number(), Record::Freeing { address: address(block) });
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
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
    /// None is asked for: any arguments will do.
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void = aligned_alloc_for ["rdx" "rcx"]
}

extern "C" fn aligned_alloc_for(align: usize, size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.aligned_alloc) {
        Some(function) => {
            // SAFETY: any size and alignment may be asked for.
            allocated(unsafe { function(align, size) }, size, exponent(align), caller)
        }
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `memalign`.
    ///
    /// # Safety
    /// None is asked for: any arguments will do.
    fn memalign(align: usize, size: usize) -> *mut c_void = memalign_for ["rdx" "rcx"]
}

extern "C" fn memalign_for(align: usize, size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.memalign) {
        Some(function) => {
            // SAFETY: any size and alignment may be asked for.
            allocated(unsafe { function(align, size) }, size, exponent(align), caller)
        }
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `valloc`: a block aligned to an OS page.
    ///
    /// # Safety
    /// None is asked for: any arguments will do.
    fn valloc(size: usize) -> *mut c_void = valloc_for ["rsi" "rdx"]
}

extern "C" fn valloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.valloc) {
        // SAFETY: any size may be asked for.
        Some(function) => allocated(unsafe { function(size) }, size, exponent(os_page()), caller),
        None => out_of_memory(),
    }
}

noting_its_caller! {
    /// The traditional `pvalloc`: whole OS pages.
    ///
    /// # Safety
    /// None is asked for: any arguments will do.
    fn pvalloc(size: usize) -> *mut c_void = pvalloc_for ["rsi" "rdx"]
}

extern "C" fn pvalloc_for(size: usize, caller: Caller) -> *mut c_void {
    match real().and_then(|real| real.pvalloc) {
        Some(function) => {
            // SAFETY: any size may be asked for.
            let block = unsafe { function(size) };
            allocated(block, size.next_multiple_of(os_page()), exponent(os_page()), caller)
        }
        None => out_of_memory(),
    }
}

/// GNU's `malloc_usable_size`. Passed on: a program may use what it is told.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if real::is_bootstrap(block) {
        return real::bootstrap_len(block);
    }
    match real().and_then(|real| real.malloc_usable_size) {
        // SAFETY: the caller's promise.
        Some(function) => unsafe { function(block) },
        None => 0,
    }
}

/// The loader's `dlclose`: what lay in the file is forgotten.
///
/// # Safety
/// As for the loader's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(function) = real().and_then(|real| real.dlclose) else { return -1 };
    // SAFETY: the caller's promise.
    let error = unsafe { function(handle) };
    stack::unloaded();
    error
}

fn os_page() -> usize {
    // SAFETY: the call touches no memory of the program.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Fails as `malloc` does.
fn out_of_memory() -> *mut c_void {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}
