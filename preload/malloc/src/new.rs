//! C++'s `operator new` and `operator delete` in all their forms, under their mangled names
//! (Itanium C++ ABI; `m` is `size_t` where that is `unsigned long`).
//!
//! When there is no memory, `new` calls the program's `new_handler` repeatedly, and throws
//! `std::bad_alloc` if there is none, as the standard requires. It does both through the C++
//! run-time library, which every program that uses `new` has. `throwing` has these forms. Those
//! with `std::nothrow` must return null even if a handler throws, and only C++ code can catch that.
//! When there is no memory, they therefore call the run-time library's own form, which calls the
//! throwing form and catches.
//!
//! A program may replace some of the forms. The others, the [derived](replaced) ones, then call
//! these, as the standard requires: `delete` with a size calls the program's `delete`, `new[]` its
//! `new`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::{mem, ptr};

use crate::PAGEWISE;
use crate::c::{free, free_sized};

mod replaced;
mod throwing;

/// Finds a function of the program's C++ library: with `RTLD_DEFAULT` in all objects, with
/// `RTLD_NEXT` in those after this library. Where a program in C opened what needs a C++ library,
/// as Python does with its extensions, neither sees that library, so it is asked itself.
///
/// # Safety
/// `F` is the pointer type of the function called `name`.
unsafe fn find<F>(within: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name is a C string.
    let seen = unsafe { libc::dlsym(within, name.as_ptr()) };
    let symbol = if seen.is_null() { find_unseen(name) } else { seen };
    // SAFETY: the caller guarantees that the symbol is a function of type `F`.
    (!symbol.is_null()).then(|| unsafe { mem::transmute_copy(&symbol) })
}

/// Finds a symbol in the C++ libraries that are loaded; null if there is none.
#[cold]
fn find_unseen(name: &CStr) -> *mut c_void {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    const LIBRARIES: [&CStr; 3] = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"];
    // Not called by its name: the linker would warn of it where all is linked statically.
    // SAFETY: the name is a C string, and a function of this name has this type.
    let open = unsafe {
        let open = libc::dlsym(libc::RTLD_DEFAULT, c"dlopen".as_ptr());
        mem::transmute::<*mut c_void, Option<Open>>(open)
    };
    let find = |library: &&CStr| {
        // SAFETY: the names are C strings. The library is not loaded by the call, nor unloaded: the
        // caller of `new` needs it.
        unsafe {
            let handle = open?(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                return None;
            }
            let symbol = libc::dlsym(handle, name.as_ptr());
            libc::dlclose(handle);
            (!symbol.is_null()).then_some(symbol)
        }
    };
    LIBRARIES.iter().find_map(find).unwrap_or(ptr::null_mut())
}

#[inline(always)]
fn try_new(size: usize, align: usize) -> *mut u8 {
    if align == 16 { PAGEWISE.allocate(size) } else { PAGEWISE.allocate_aligned(size, align) }
}

/// The types of `new(std::nothrow)`, without an alignment and with one.
type Nothrow = unsafe extern "C" fn(usize, *const c_void) -> *mut c_void;
type AlignedNothrow = unsafe extern "C" fn(usize, usize, *const c_void) -> *mut c_void;

/// Allocates a block for `new(std::nothrow)`. If there is no memory, or `new` is the program's,
/// `call` calls the C++ library's own form of this `name`, which calls the throwing form and catches
/// what that, or a handler, throws.
///
/// # Safety
/// `F` is the type of the functions of this name.
#[inline(always)]
unsafe fn new_nothrow<F>(
    name: &CStr,
    size: usize,
    align: usize,
    call: impl FnOnce(F) -> *mut c_void,
) -> *mut c_void {
    let block = if replaced::is_any() { ptr::null_mut() } else { try_new(size, align) };
    if !block.is_null() {
        return block.cast();
    }
    // SAFETY: the caller guarantees the type.
    unsafe { find(libc::RTLD_NEXT, name) }.map_or(ptr::null_mut(), call)
}

/// Exports functions under their mangled names.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As C++ requires: a pointer to be freed is null or a block in use from `operator new`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body
    )*};
}

operators! {
    /// `new(std::nothrow)`
    _ZnwmRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut c_void {
        // SAFETY: functions of this name have this type.
        unsafe { new_nothrow(c"_ZnwmRKSt9nothrow_t", size, 16, |new: Nothrow| new(size, tag)) }
    }
    /// `new[](std::nothrow)`
    _ZnamRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut c_void {
        // SAFETY: functions of this name have this type.
        unsafe { new_nothrow(c"_ZnamRKSt9nothrow_t", size, 16, |new: Nothrow| new(size, tag)) }
    }
    /// `new(std::align_val_t, std::nothrow)`
    _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, tag: *const c_void) -> *mut c_void {
        // SAFETY: functions of this name have this type.
        unsafe {
            let call = |new: AlignedNothrow| new(size, align, tag);
            new_nothrow(c"_ZnwmSt11align_val_tRKSt9nothrow_t", size, align, call)
        }
    }
    /// `new[](std::align_val_t, std::nothrow)`
    _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, tag: *const c_void) -> *mut c_void {
        // SAFETY: functions of this name have this type.
        unsafe {
            let call = |new: AlignedNothrow| new(size, align, tag);
            new_nothrow(c"_ZnamSt11align_val_tRKSt9nothrow_t", size, align, call)
        }
    }
}

/// Exports the forms of `delete` that are derived from another one, `=>`, which a program may have
/// replaced. Alignment and tag are ignored, a size is checked in hardened mode.
macro_rules! deletes {
    ($($name:ident($($argument:ident),*) => $base:ident($($passed:ident),*), $free:ident($($size:ident)?);)*) => {
        operators! {$(
            /// `delete`
            $name(block: *mut c_void $(, $argument: usize)*) {
                // SAFETY: the caller guarantees that the block is null or in use.
                unsafe {
                    match replaced::is_any() {
                        true => replaced::$base(block $(, $passed)*),
                        false => $free(block $(, $size)?),
                    }
                }
            }
        )*}
    };
}

deletes! {
    _ZdlPvRKSt9nothrow_t(_tag) => delete(), free();
    _ZdaPvRKSt9nothrow_t(_tag) => delete_array(), free();
    _ZdlPvSt11align_val_tRKSt9nothrow_t(align, _tag) => delete_aligned(align), free();
    _ZdaPvSt11align_val_tRKSt9nothrow_t(align, _tag) => delete_aligned_array(align), free();
    _ZdlPvm(size) => delete(), free_sized(size);
    _ZdaPvm(size) => delete_array(), free_sized(size);
    _ZdlPvmSt11align_val_t(size, align) => delete_aligned(align), free_sized(size);
    _ZdaPvmSt11align_val_t(size, align) => delete_aligned_array(align), free_sized(size);
}
