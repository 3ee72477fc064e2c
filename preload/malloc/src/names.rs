//! Exports C's `malloc` family under its own names, and under glibc's internal names for it, by
//! which programs that replace `malloc` themselves call glibc's allocator.

use core::ffi::{c_int, c_void};

/// GNU's `reallocarray`. As the C library's, it calls the program's `realloc`, which is not ours if
/// the program brings a `malloc` family without `reallocarray`.
///
/// # Safety
/// As for the C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller gives the same guarantees.
        Some(size) => unsafe { called_realloc()(block, size) },
        None => crate::c::no_memory(),
    }
}

/// Returns the `realloc` that the program calls.
#[inline(always)]
fn called_realloc() -> unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    {
        type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
        let address = crate::symbols::called!("realloc");
        // SAFETY: a function of this name has this type.
        unsafe { core::mem::transmute::<*const c_void, Realloc>(address) }
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    realloc
}

/// Exports functions of [`c`](crate::c) under the given names.
macro_rules! names {
    ($($name:ident = $function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// Does the same as the function in `c`.
        ///
        /// # Safety
        /// As for the function in `c`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            #[allow(unused_unsafe, reason = "some of them are safe")]
            // SAFETY: the caller gives the same guarantees.
            unsafe {
                crate::c::$function($($argument),*)
            }
        }
    )*};
}

names! {
    malloc = malloc(size: usize) -> *mut c_void;
    calloc = calloc(count: usize, size: usize) -> *mut c_void;
    realloc = realloc(block: *mut c_void, size: usize) -> *mut c_void;
    free = free(block: *mut c_void);
    cfree = free(block: *mut c_void);
    free_sized = free_sized(block: *mut c_void, size: usize);
    free_aligned_sized = free_aligned_sized(block: *mut c_void, align: usize, size: usize);
    posix_memalign = posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
    aligned_alloc = aligned_alloc(align: usize, size: usize) -> *mut c_void;
    memalign = memalign(align: usize, size: usize) -> *mut c_void;
    valloc = valloc(size: usize) -> *mut c_void;
    pvalloc = pvalloc(size: usize) -> *mut c_void;
    malloc_usable_size = malloc_usable_size(block: *mut c_void) -> usize;

    __libc_malloc = malloc(size: usize) -> *mut c_void;
    __libc_calloc = calloc(count: usize, size: usize) -> *mut c_void;
    __libc_realloc = realloc(block: *mut c_void, size: usize) -> *mut c_void;
    __libc_reallocarray = reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    __libc_free = free(block: *mut c_void);
    __libc_cfree = free(block: *mut c_void);
    __libc_memalign = memalign(align: usize, size: usize) -> *mut c_void;
    __libc_valloc = valloc(size: usize) -> *mut c_void;
    __libc_pvalloc = pvalloc(size: usize) -> *mut c_void;
    __posix_memalign = posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
}
