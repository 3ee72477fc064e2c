//! C's `malloc` family over `rusty_alloc`: each function forwards its arguments.

use std::ffi::{c_int, c_void};

use rusty_alloc::alloc;

macro_rules! pass_on {
    ($($name:ident = $theirs:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {$(
        #[doc = concat!("C's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the C function demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> $answer {
            #[allow(unused_unsafe, reason = "some of them are safe")]
            // SAFETY: the caller guarantees it.
            unsafe {
                alloc::$theirs($($argument as _),*) as $answer
            }
        }
    )*};
}

pass_on! {
    malloc = malloc(size: usize) -> *mut c_void;
    calloc = calloc(count: usize, size: usize) -> *mut c_void;
    realloc = realloc(block: *mut c_void, size: usize) -> *mut c_void;
    reallocarray = reallocn(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    free = free(block: *mut c_void) -> ();
    cfree = free(block: *mut c_void) -> ();
    malloc_usable_size = usable_size(block: *mut c_void) -> usize;
}

/// C's `memalign`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    alloc::malloc_aligned(size, align).cast()
}

/// C's `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// C's `valloc`.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(4096, size)
}

/// C's `posix_memalign`: here only the C library itself calls it, with valid arguments.
///
/// # Safety
/// As the C function demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { out.write(memalign(align, size)) };
    0
}
