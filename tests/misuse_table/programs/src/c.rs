//! C's `malloc` family, called so that the compiler knows nothing about it: it would assume that
//! misuse cannot happen, and might remove it.

use std::ffi::c_void;
use std::hint::black_box;
use std::mem;

/// C's `malloc`. Exits if there is no memory, which is not the subject of any misuse here.
pub(crate) fn malloc(size: usize) -> *mut u8 {
    // SAFETY: `malloc` may be called at any time.
    let block =
        unsafe { black_box(libc::malloc as unsafe extern "C" fn(usize) -> *mut c_void)(size) };
    if block.is_null() {
        crate::stage::end("no memory");
    }
    black_box(block.cast())
}

/// C's `free`.
///
/// # Safety
/// As for `free`, unless this call is the misuse.
pub(crate) unsafe fn free(block: *mut u8) {
    // SAFETY: the caller guarantees it.
    unsafe { black_box(libc::free as unsafe extern "C" fn(*mut c_void))(black_box(block).cast()) };
}

/// C's `realloc`.
///
/// # Safety
/// As for `realloc`, unless this call is the misuse.
pub(crate) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    let realloc = libc::realloc as unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    // SAFETY: the caller guarantees it.
    unsafe { black_box(realloc)(black_box(block).cast(), size).cast() }
}

/// Calls GNU's `malloc_trim`, if the library or the C library has it, to give free memory back.
pub(crate) fn trim() {
    // SAFETY: the name is NUL-terminated; the symbol is the function of this name.
    unsafe {
        let trim = libc::dlsym(libc::RTLD_DEFAULT, c"malloc_trim".as_ptr());
        if !trim.is_null() {
            mem::transmute::<*mut c_void, extern "C" fn(usize) -> i32>(trim)(0);
        }
    }
}
