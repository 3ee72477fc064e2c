//! Simulates pages of 64 KiB, as kernels for aarch64 and ppc64 may have, on a kernel with smaller
//! ones: preloaded into a program, this library answers its memory calls as such a kernel would.
//!
//! ```sh
//! cargo build && LD_PRELOAD=target/debug/libpages.so PROGRAM
//! ```
//! Mappings start at multiples of 64 KiB and are multiples of it long; any other address, which
//! that kernel would refuse with `EINVAL`, ends the process with a line that names the call. Calls
//! within the C library are not intercepted: it knows the kernel's own page size.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;

/// Bytes of a page.
const PAGE: usize = 64 << 10;

/// Bytes of the kernel's own page.
const SMALL: usize = 4 << 10;

/// Ends the process unless the address is a multiple of a page.
fn demand_aligned(call: &str, address: *mut c_void) {
    if !address.addr().is_multiple_of(PAGE) {
        let message = format!("{call} at {address:p}: no multiple of a page of {PAGE} bytes\n");
        // SAFETY: the message is valid for reads of its length.
        unsafe {
            libc::write(2, message.as_ptr().cast(), message.len());
            libc::abort();
        }
    }
}

fn whole_pages(len: usize) -> usize {
    len.saturating_add(PAGE - 1) / PAGE * PAGE
}

/// Unmaps memory in units of the kernel's own pages.
///
/// # Safety
/// The memory is no longer used.
unsafe fn unmap(address: *mut c_void, len: usize) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { libc::syscall(libc::SYS_munmap, address, len) as c_int }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's arguments are passed on; the parts cut off belong to the fresh mapping,
    // which nobody else knows yet.
    unsafe {
        let map = |address: *mut c_void, len: usize, flags: c_int, file: c_int, offset: i64| {
            let call = libc::SYS_mmap;
            libc::syscall(call, address, len, protection, flags, file, offset) as *mut c_void
        };
        let fixed = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;
        if flags & fixed != 0 || len == 0 {
            demand_aligned("mmap", address);
            return map(address, whole_pages(len), flags, file, offset);
        }
        let len = whole_pages(len);
        let Some(more) = len.checked_add(PAGE) else {
            *libc::__errno_location() = libc::ENOMEM;
            return libc::MAP_FAILED;
        };
        let anonymous = flags & libc::MAP_NORESERVE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = map(ptr::null_mut(), more, anonymous, -1, 0);
        if base == libc::MAP_FAILED {
            return base;
        }
        let gap = base.addr().wrapping_neg() % PAGE;
        let start = base.wrapping_byte_add(gap);
        if gap > 0 {
            unmap(base, gap);
        }
        unmap(start.wrapping_byte_add(len), PAGE - gap);
        if flags & libc::MAP_ANONYMOUS == 0 {
            return map(start, len, flags | libc::MAP_FIXED, file, offset);
        }
        start
    }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller guarantees it.
    unsafe { mmap(address, len, protection, flags, file, offset) }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, len: usize) -> c_int {
    demand_aligned("munmap", address);
    // SAFETY: the caller guarantees it.
    unsafe { unmap(address, whole_pages(len)) }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, len: usize, protection: c_int) -> c_int {
    demand_aligned("mprotect", address);
    // SAFETY: the caller guarantees it.
    unsafe { libc::syscall(libc::SYS_mprotect, address, whole_pages(len), protection) as c_int }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    demand_aligned("madvise", address);
    // SAFETY: the caller guarantees it.
    unsafe { libc::syscall(libc::SYS_madvise, address, whole_pages(len), advice) as c_int }
}

/// As in C, except that a moved mapping starts at a multiple of 64 KiB.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    len: usize,
    new_len: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    demand_aligned("mremap", address);
    let (len, new_len) = (whole_pages(len), whole_pages(new_len));
    // SAFETY: the caller's arguments are passed on; a moved mapping goes to a place reserved for
    // it, which it replaces completely.
    unsafe {
        let remap = |flags: c_int, place: *mut c_void| {
            libc::syscall(libc::SYS_mremap, address, len, new_len, flags, place) as *mut c_void
        };
        if flags & libc::MREMAP_FIXED != 0 {
            demand_aligned("mremap", place);
            return remap(flags, place);
        }
        let stayed = remap(flags & !libc::MREMAP_MAYMOVE, place);
        if stayed != libc::MAP_FAILED || flags & libc::MREMAP_MAYMOVE == 0 {
            return stayed;
        }
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let to = mmap(ptr::null_mut(), new_len, libc::PROT_NONE, private, -1, 0);
        if to == libc::MAP_FAILED {
            return to;
        }
        let moved = remap(flags | libc::MREMAP_FIXED, to);
        if moved == libc::MAP_FAILED {
            unmap(to, new_len);
        }
        moved
    }
}

/// As in C: a page is resident if any part of it is.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mincore(address: *mut c_void, len: usize, states: *mut u8) -> c_int {
    demand_aligned("mincore", address);
    for index in 0..whole_pages(len) / PAGE {
        let mut parts = [0u8; PAGE / SMALL];
        let page = address.wrapping_byte_add(index * PAGE);
        // SAFETY: `parts` has a byte for each part of the page, `states` one for each page.
        unsafe {
            if libc::syscall(libc::SYS_mincore, page, PAGE, parts.as_mut_ptr()) != 0 {
                return -1;
            }
            states.add(index).write(parts.iter().fold(0, |any, part| any | part & 1));
        }
    }
    0
}

/// As in C.
#[unsafe(no_mangle)]
pub extern "C" fn sysconf(name: c_int) -> c_long {
    if name == libc::_SC_PAGESIZE {
        return PAGE as c_long;
    }
    // SAFETY: the name is a C string, and the C library has the function.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"sysconf".as_ptr());
        std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_long>(next)(name)
    }
}
