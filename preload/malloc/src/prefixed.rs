//! The interface of `pagewise.h`: C's `malloc` family under names of its own, memory that goes back, statistics.
//!
//! The header documents these functions for C programmers. A test compares each signature here with its
//! declaration there (`tests/header.rs`), and has a C compiler check the structures, where there is one.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::offset_of;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use pagewise::global::{ClassStats, Stats};

use crate::{PAGEWISE, c};

/// As C's `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_malloc(size: usize) -> *mut c_void {
    c::malloc(size)
}

/// As C's `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_calloc(count: usize, size: usize) -> *mut c_void {
    c::calloc(count, size)
}

/// As GNU's `realloc`.
///
/// # Safety
/// `block` is null or a live block of this allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { c::realloc(block, size) }
}

/// As GNU's `reallocarray`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { c::reallocarray(block, count, size) }
}

/// As C's `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    c::aligned_alloc(alignment, size)
}

/// As POSIX's `posix_memalign`.
///
/// # Safety
/// `out` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_posix_memalign(
    out: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { c::posix_memalign(out, alignment, size) }
}

/// As C's `free`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free(block: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { c::free(block) };
}

/// As C23's `free_sized`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free_sized(block: *mut c_void, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { c::free_sized(block, size) };
}

/// As C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { c::free_aligned_sized(block, alignment, size) };
}

/// As GNU's `malloc_usable_size`.
///
/// # Safety
/// As for [`pagewise_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_malloc_usable_size(block: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { c::malloc_usable_size(block.cast_mut()) }
}

/// Gives all free memory back to the system; returns its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_purge() -> u64 {
    PAGEWISE.purge()
}

/// For a program's own event loop: gives back what is due. Milliseconds until it is worth calling this
/// again; -1 if nothing is to go back unless the program frees more.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_maintain() -> c_long {
    PAGEWISE
        .maintain()
        .map_or(-1, |pause| c_long::try_from(pause.as_millis()).unwrap_or(c_long::MAX))
}

/// To be called by a thread that will not allocate for a while: puts back the free blocks that it keeps at hand.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_thread_idle() {
    PAGEWISE.thread_idle();
}

/// `struct pagewise_stats`: [`Stats`], whose fields say what they are. New ones are added at the end.
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

/// Fills the first `size` bytes of a `struct pagewise_stats`, as many as the program was compiled with; what
/// is beyond the fields known here becomes 0.
///
/// # Safety
/// `stats` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_get_stats(stats: *mut pagewise_stats, size: usize) {
    let known = pagewise_stats::from(PAGEWISE.stats());
    // SAFETY: the caller's promise; both structures have no padding, and no more is read than is there.
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

/// Calls `visit` with what there is of each size class in use, the smallest first, and with `context`.
///
/// # Safety
/// `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_for_each_class(
    visit: Option<unsafe extern "C" fn(*const pagewise_class, *mut c_void)>,
    context: *mut c_void,
) {
    let Some(visit) = visit else { return };
    PAGEWISE.for_each_class(|ClassStats { size, blocks, quick, pages, held, .. }| {
        let class = pagewise_class { size, blocks, quick, pages, held };
        // SAFETY: the caller's promise.
        unsafe { visit(&raw const class, context) };
    });
}

/// Writes the statistics to standard error, those of each class, too.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_show_stats() {
    PAGEWISE.show_stats();
}

/// Begins a heap profile, with a sample in so many bytes; 0, or a number as in `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_profile_start(bytes_per_sample: usize) -> c_int {
    told(PAGEWISE.profiler().start(bytes_per_sample).map_err(io::Error::from))
}

/// Ends the heap profile, which can be written then; 0, or a number as in `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_profile_stop() -> c_int {
    told(PAGEWISE.profiler().stop().map_err(io::Error::from))
}

/// Writes the heap profile to a file, for pprof; 0, or a number as in `errno`.
///
/// # Safety
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_profile_dump(path: *const c_char) -> c_int {
    if path.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    told(PAGEWISE.profiler().dump(path))
}

/// The number of an error; 0 if there is none.
fn told(result: io::Result<()>) -> c_int {
    let Err(error) = result else { return 0 };
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::ResourceBusy => libc::EAGAIN,
        io::ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EINVAL,
    })
}

/// The version of the library, as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Writes `size` bytes: those of `known`, as far as they go, then zeros.
///
/// # Safety
/// `out` is valid for writes of `size` bytes, and no byte of `known` is padding.
unsafe fn copy_known<T>(known: *const T, out: *mut T, size: usize) {
    let copied = size.min(size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe {
        known.cast::<u8>().copy_to_nonoverlapping(out.cast::<u8>(), copied);
        out.cast::<u8>().add(copied).write_bytes(0, size - copied);
    }
}

// No padding, which must not be read as bytes.
const _: () = {
    assert!(
        offset_of!(pagewise_stats, threads) + size_of::<usize>() == size_of::<pagewise_stats>()
    );
    assert!(offset_of!(pagewise_stats, purged) == 6 * size_of::<usize>());
    assert!(align_of::<pagewise_stats>() == align_of::<u64>());
};
