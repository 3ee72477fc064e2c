//! `libpagewise.so`: [`Pagewise`] in the place of the C library's allocator, for any dynamically
//! linked program:
//!
//! ```sh
//! LD_PRELOAD=/path/to/libpagewise.so python3
//! ```
//!
//! This package is glue: here stand the functions of C's `malloc` family, with their rules for
//! `errno` and for odd sizes; `new` has C++'s `operator new` and `delete`. Nothing here allocates
//! but through [`PAGEWISE`].

#![cfg(target_os = "linux")]

mod gnu;
mod new;

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr;

use pagewise::global::{HugePages, Pagewise, Tuning};

/// The default, but for huge pages, which begin later: it is any program that this is loaded with,
/// most hold some tens of mebibytes at most, and one huge page that is partly used is a fifth of
/// what a heap of 10 MiB takes.
const TUNING: Tuning = Tuning::new().huge_pages(HugePages::Beyond(32 << 20));

/// The allocator.
static PAGEWISE: Pagewise = Pagewise::with(TUNING);

/// The Rust part of this library, too, must not use the allocator it stands in for.
#[global_allocator]
static OURS: Pagewise = Pagewise::with(TUNING);

/// Opens the allocator when the library is loaded, before the program's own code: it may use up the keys by
/// which the allocator learns that a thread ends.
#[used]
#[unsafe(link_section = ".init_array")]
static OPEN: extern "C" fn() = open;

extern "C" fn open() {
    // SAFETY: the block was just allocated.
    unsafe { PAGEWISE.free(PAGEWISE.allocate(1)) };
}

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
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    or_no_memory(PAGEWISE.allocate(size))
}

/// C's `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(size) => or_no_memory(PAGEWISE.allocate_zeroed(size)),
        None => no_memory(),
    }
}

/// C's `free`. Keeps `errno`.
///
/// # Safety
/// `block` is null or a live block of this allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { PAGEWISE.free(block.cast()) };
}

/// C23's `free_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(block) };
}

/// C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(block) };
}

/// The traditional `cfree`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { free(block) };
}

/// C's `realloc`. As in GNU's library, size 0 frees the block and gives null.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
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
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    or_no_memory(PAGEWISE.allocate_aligned(size, align))
}

/// The traditional `memalign`: an alignment that is no power of two is rounded up to one, as in
/// GNU's library.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => or_no_memory(PAGEWISE.allocate_aligned(size, align)),
        None => {
            set_errno(libc::EINVAL);
            ptr::null_mut()
        }
    }
}

/// The traditional `valloc`: a block aligned to an OS page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    or_no_memory(PAGEWISE.allocate_aligned(size, os_page()))
}

/// The traditional `pvalloc`: whole OS pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(os_page()) {
        Some(size) => valloc(size),
        None => no_memory(),
    }
}

/// GNU's `malloc_usable_size`: all of it may be used.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { PAGEWISE.usable_size(block.cast()) }
}

/// GNU's `malloc_trim`: gives free memory back to the system. 1 if any was given back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> c_int {
    c_int::from(PAGEWISE.purge() > 0)
}

/// For a program's own event loop: gives back what is due. Milliseconds until it is worth calling this
/// again; -1 if nothing is to go back unless the program frees more.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_maintain() -> c_long {
    PAGEWISE
        .maintain()
        .map_or(-1, |pause| c_long::try_from(pause.as_millis()).unwrap_or(c_long::MAX))
}

/// GNU's `mallopt`: nothing can be changed once the allocator is open, which 0 says.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    0
}

/// GNU's `malloc_stats`: writes the statistics to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    PAGEWISE.show_stats();
}

fn os_page() -> usize {
    // SAFETY: the call touches no memory of the program.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Ends the process with one line on standard error.
#[cold]
fn stop(message: &str) -> ! {
    // SAFETY: the message is valid for reads of its length; `abort` does not return.
    unsafe {
        libc::write(2, message.as_ptr().cast::<c_char>().cast(), message.len());
        libc::abort()
    }
}
