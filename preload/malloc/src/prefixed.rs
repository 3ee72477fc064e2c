//! The interface of `pagewise.h`: C's `malloc` family under the prefix `pagewise_`, returning
//! memory, statistics, and heap profiles.
//!
//! The header documents these functions for C programmers. `tests/header.rs` compares each
//! signature here with its declaration there; `tests/c.rs` checks the layout of the structures with
//! a C compiler, if there is one.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::offset_of;

use pagewise::global::{ClassStats, ProfileError, Stats};

use crate::{PAGEWISE, c};

/// Does the same as C's `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_malloc(size: usize) -> *mut c_void {
    c::malloc(size)
}

/// Does the same as C's `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_calloc(count: usize, size: usize) -> *mut c_void {
    c::calloc(count, size)
}

/// Does the same as GNU's `realloc`.
///
/// # Safety
/// `block` is null or a block in use of this allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::realloc(block, size) }
}

/// Does the same as GNU's `reallocarray`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::reallocarray(block, count, size) }
}

/// Does the same as C's `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    c::aligned_alloc(alignment, size)
}

/// Does the same as POSIX's `posix_memalign`.
///
/// # Safety
/// `out` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_posix_memalign(
    out: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::posix_memalign(out, alignment, size) }
}

/// Does the same as C's `free`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free(block: *mut c_void) {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::free(block) };
}

/// Does the same as C23's `free_sized`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free_sized(block: *mut c_void, size: usize) {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::free_sized(block, size) };
}

/// Does the same as C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
) {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::free_aligned_sized(block, alignment, size) };
}

/// Does the same as GNU's `malloc_usable_size`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_malloc_usable_size(block: *const c_void) -> usize {
    // SAFETY: the caller gives the same guarantees.
    unsafe { c::malloc_usable_size(block.cast_mut()) }
}

/// Gives all free memory back to the system, and returns the number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_purge() -> u64 {
    PAGEWISE.purge()
}

/// Gives back the memory that is due; for a program's own event loop. Returns the milliseconds
/// until the next call is worthwhile, or -1 if nothing will become due unless the program frees
/// more.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_maintain() -> c_long {
    PAGEWISE
        .maintain()
        .map_or(-1, |pause| c_long::try_from(pause.as_millis()).unwrap_or(c_long::MAX))
}

/// Puts back the free blocks on the calling thread's lists; for a thread that will not allocate for
/// a while.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_thread_idle() {
    PAGEWISE.thread_idle();
}

/// `struct pagewise_stats`: the fields of [`Stats`], which documents them. New fields are added at
/// the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct pagewise_stats {
    blocks: usize,
    live: usize,
    quick: usize,
    held: usize,
    peak_held: usize,
    resident: usize,
    purged: u64,
    mapped: usize,
    mappings: usize,
    heaps: usize,
    threads: usize,
}

impl From<Stats> for pagewise_stats {
    fn from(stats: Stats) -> Self {
        Self {
            blocks: stats.blocks,
            live: stats.live,
            quick: stats.quick,
            held: stats.held,
            peak_held: stats.peak_held,
            resident: stats.resident,
            purged: stats.purged,
            mapped: stats.mapped,
            mappings: stats.mappings,
            heaps: stats.heaps,
            threads: stats.threads,
        }
    }
}

/// Fills the first `size` bytes of a `struct pagewise_stats`; `size` is the structure's size when
/// the program was compiled. Bytes beyond the fields known here become 0.
///
/// # Safety
/// `stats` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_get_stats(stats: *mut pagewise_stats, size: usize) {
    let known = pagewise_stats::from(PAGEWISE.stats());
    // SAFETY: the caller guarantees that `stats` is valid for writes of `size` bytes; `known` has
    // no padding.
    unsafe { copy_known(&raw const known, stats, size) };
}

/// `struct pagewise_class`: [`ClassStats`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct pagewise_class {
    size: usize,
    blocks: usize,
    quick: usize,
    pages: usize,
    held: usize,
}

/// Calls `visit` with the statistics of each size class in use, smallest first, and with `context`.
///
/// # Safety
/// `visit` may be called with `context` and any class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_for_each_class(
    visit: Option<unsafe extern "C" fn(*const pagewise_class, *mut c_void)>,
    context: *mut c_void,
) {
    let Some(visit) = visit else { return };
    PAGEWISE.for_each_class(|ClassStats { size, blocks, quick, pages, held, .. }| {
        let class = pagewise_class { size, blocks, quick, pages, held };
        // SAFETY: the caller guarantees that `visit` may be called with `context`.
        unsafe { visit(&raw const class, context) };
    });
}

/// Writes the statistics, including those of each class, to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_show_stats() {
    PAGEWISE.show_stats();
}

/// Starts a heap profile with one sample in every `bytes_per_sample` bytes on average. Returns 0 or
/// an error number as in `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_profile_start(bytes_per_sample: usize) -> c_int {
    PAGEWISE.profiler().start(bytes_per_sample).map_or_else(error_number, |()| 0)
}

/// Stops the heap profile, which can still be written. Returns 0 or an error number as in `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_profile_stop() -> c_int {
    PAGEWISE.profiler().stop().map_or_else(error_number, |()| 0)
}

/// Writes the heap profile to a file for pprof. Returns 0 or an error number as in `errno`.
///
/// # Safety
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_profile_dump(path: *const c_char) -> c_int {
    if path.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller guarantees that `path` is a C string; it is not null.
    let path = unsafe { CStr::from_ptr(path) };
    match PAGEWISE.profiler().snapshot() {
        Ok(snapshot) => snapshot.dump_to(path).map_or_else(|number| number, |()| 0),
        Err(error) => error_number(error),
    }
}

/// Returns an error's number as in `errno`.
fn error_number(error: ProfileError) -> c_int {
    match error {
        ProfileError::Memory => libc::ENOMEM,
        ProfileError::Busy => libc::EAGAIN,
        ProfileError::Unsupported => libc::ENOTSUP,
        _ => libc::EINVAL,
    }
}

/// Returns the library's version as a C string, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Writes `size` bytes to `out`: first the bytes of `known`, then zeros.
///
/// # Safety
/// `out` is valid for writes of `size` bytes, and no byte of `known` is padding.
unsafe fn copy_known<T>(known: *const T, out: *mut T, size: usize) {
    let copied = size.min(size_of::<T>());
    // SAFETY: the caller guarantees that `out` is valid for writes of `size` bytes and that `known`
    // has no padding.
    unsafe {
        known.cast::<u8>().copy_to_nonoverlapping(out.cast::<u8>(), copied);
        out.cast::<u8>().add(copied).write_bytes(0, size - copied);
    }
}

// `copy_known` reads the structure as bytes, so it must have no padding.
const _: () = {
    assert!(
        offset_of!(pagewise_stats, threads) + size_of::<usize>() == size_of::<pagewise_stats>()
    );
    assert!(offset_of!(pagewise_stats, purged) == 6 * size_of::<usize>());
    assert!(align_of::<pagewise_stats>() == align_of::<u64>());
};
