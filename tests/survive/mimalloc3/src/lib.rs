//! C's `malloc` family over mimalloc 3: each function forwards its arguments.

// Links the crate.
use libmimalloc_sys as _;

use std::ffi::{c_int, c_void};

macro_rules! pass_on {
    ($($name:ident = $theirs:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        unsafe extern "C" {
            $(fn $theirs($($argument: $of),*) -> $answer;)*
        }
        $(
            #[doc = concat!("C's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the C function demands.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $of),*) -> $answer {
                // SAFETY: the caller guarantees it.
                unsafe { $theirs($($argument),*) }
            }
        )*
    };
}

pass_on! {
    malloc = mi_malloc(size: usize) -> *mut c_void;
    calloc = mi_calloc(count: usize, size: usize) -> *mut c_void;
    realloc = mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    reallocarray = mi_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    free = mi_free(block: *mut c_void) -> ();
    cfree = mi_cfree(block: *mut c_void) -> ();
    posix_memalign = mi_posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
    aligned_alloc = mi_aligned_alloc(align: usize, size: usize) -> *mut c_void;
    memalign = mi_memalign(align: usize, size: usize) -> *mut c_void;
    valloc = mi_valloc(size: usize) -> *mut c_void;
    pvalloc = mi_pvalloc(size: usize) -> *mut c_void;
    malloc_usable_size = mi_malloc_usable_size(block: *const c_void) -> usize;
}
