//! Which forms of `operator new` and `delete` the program has replaced.
//!
//! ```text
//!  new ◀── new[] ◀── new[](nothrow)        delete ◀── delete[] ◀── delete[](size), (nothrow)
//!   ▲───── new(nothrow)                      ▲─────── delete(size), (nothrow)
//! ```
//! and likewise with an alignment. A form that is derived from another one calls that, if the
//! program has replaced any of these eight: `new` and `delete`, of an object or an array, with an
//! alignment or without. Otherwise it calls the allocator at once.
//!
//! Each of the eight begins with a label of its own, so that its address is known whatever function
//! the linker, or the loader, finds by its name. Other processors than x86-64 and AArch64 have no
//! labels here: there the program's forms are never called.

use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::c::free;

/// Whether the program has replaced any of the forms that others are derived from.
pub(super) static ANY: AtomicBool = AtomicBool::new(false);

/// Returns whether the program has replaced any of the forms that others are derived from.
#[inline(always)]
pub(super) fn is_any() -> bool {
    ANY.load(Relaxed)
}

/// Finds out whether the program has replaced any, when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    ANY.store(is_any_seen(), Relaxed);
}

/// Frees a block, for `delete`.
///
/// # Safety
/// The block is null, or in use and from `operator new`.
pub(super) unsafe extern "C" fn delete_own(block: *mut c_void) {
    // SAFETY: the callee has the same contract.
    unsafe { free(block) };
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod forms {
    use core::ffi::c_void;
    use core::mem::transmute;

    use crate::symbols::{called, own};

    /// Returns whether the program calls another function by any of the names.
    pub(in crate::new) fn is_any_seen() -> bool {
        macro_rules! any {
            ($($name:literal)*) => { $(called!($name) != own!(concat!("pagewise_own", $name)))||* };
        }
        any!(
            "_Znwm" "_Znam" "_ZnwmSt11align_val_t" "_ZnamSt11align_val_t"
            "_ZdlPv" "_ZdaPv" "_ZdlPvSt11align_val_t" "_ZdaPvSt11align_val_t"
        )
    }

    /// Defines calls of the program's forms of `delete`.
    macro_rules! calls {
        ($($call:ident = $name:literal($($argument:ident: $type:ty),*);)*) => {$(
            /// Calls the program's `delete`.
            ///
            /// # Safety
            /// As C++ requires.
            #[cold]
            pub(in crate::new) unsafe fn $call(block: *mut c_void $(, $argument: $type)*) {
                type Delete = unsafe extern "C" fn(*mut c_void $(, $type)*);
                let delete = called!($name);
                // SAFETY: the function of this name has this type; the caller guarantees the rest.
                unsafe { transmute::<*const c_void, Delete>(delete)(block $(, $argument)*) };
            }
        )*};
    }

    calls! {
        delete = "_ZdlPv"();
        delete_array = "_ZdaPv"();
        delete_aligned = "_ZdlPvSt11align_val_t"(align: usize);
        delete_aligned_array = "_ZdaPvSt11align_val_t"(align: usize);
    }

    /// Exports a function that begins with a label, and jumps to another one with its arguments.
    macro_rules! labelled {
        ($doc:literal, $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $($jump:tt)*) => {
            #[doc = $doc]
            ///
            /// # Safety
            /// As C++ requires.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
                core::arch::naked_asm!(
                    concat!(".globl pagewise_own", stringify!($name)),
                    concat!(".hidden pagewise_own", stringify!($name)),
                    concat!("pagewise_own", stringify!($name), ":"),
                    $($jump)*
                )
            }
        };
    }

    /// Exports the form of an array, which is derived from that of an object: its own, or the
    /// program's.
    #[cfg(target_arch = "x86_64")]
    macro_rules! array {
        ($doc:literal, $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $base:ident) => {
            labelled!($doc, $name($($argument: $type),*) $(-> $result)?,
                "cmp byte ptr [rip + {any}], 0",
                "jne 2f",
                concat!("jmp pagewise_own", stringify!($base)),
                "2:",
                concat!("jmp qword ptr [rip + ", stringify!($base), "@GOTPCREL]"),
                any = sym super::ANY,
            );
        };
    }

    #[cfg(target_arch = "aarch64")]
    macro_rules! array {
        ($doc:literal, $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $base:ident) => {
            labelled!($doc, $name($($argument: $type),*) $(-> $result)?,
                "adrp x9, {any}",
                "ldrb w9, [x9, :lo12:{any}]",
                "cbnz w9, 2f",
                concat!("b pagewise_own", stringify!($base)),
                "2:",
                concat!("adrp x9, :got:", stringify!($base)),
                concat!("ldr x9, [x9, :got_lo12:", stringify!($base), "]"),
                "br x9",
                any = sym super::ANY,
            );
        };
    }

    #[cfg(target_arch = "x86_64")]
    macro_rules! jump {
        () => {
            "jmp {to}"
        };
    }

    #[cfg(target_arch = "aarch64")]
    macro_rules! jump {
        () => {
            "b {to}"
        };
    }

    labelled!("`delete`", _ZdlPv(block: *mut c_void), jump!(), to = sym super::delete_own,);
    labelled!("`delete(std::align_val_t)`", _ZdlPvSt11align_val_t(block: *mut c_void, align: usize),
        jump!(), to = sym super::delete_own,);
    array!("`delete[]`", _ZdaPv(block: *mut c_void), _ZdlPv);
    array!("`delete[](std::align_val_t)`", _ZdaPvSt11align_val_t(block: *mut c_void, align: usize),
        _ZdlPvSt11align_val_t);
    array!("`new[]`", _Znam(size: usize) -> *mut c_void, _Znwm);
    array!("`new[](std::align_val_t)`", _ZnamSt11align_val_t(size: usize, align: usize) -> *mut c_void,
        _ZnwmSt11align_val_t);
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod forms {
    use core::ffi::c_void;

    use super::delete_own;

    unsafe extern "C-unwind" {
        safe fn _Znwm(size: usize) -> *mut c_void;
        safe fn _ZnwmSt11align_val_t(size: usize, align: usize) -> *mut c_void;
    }

    pub(in crate::new) fn is_any_seen() -> bool {
        false
    }

    /// Exports a form of `delete`, and defines how others call it.
    macro_rules! deletes {
        ($($call:ident = $name:ident($($argument:ident)?);)*) => {$(
            /// `delete`
            ///
            /// # Safety
            /// As C++ requires.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(block: *mut c_void $(, $argument: usize)?) {
                // SAFETY: the callee has the same contract.
                unsafe { delete_own(block) };
            }

            pub(in crate::new) use $name as $call;
        )*};
    }

    /// Exports the forms of an array.
    macro_rules! arrays {
        ($($name:ident($($argument:ident),*) = $base:ident;)*) => {$(
            /// `new[]`
            #[unsafe(no_mangle)]
            pub(crate) extern "C-unwind" fn $name($($argument: usize),*) -> *mut c_void {
                $base($($argument),*)
            }
        )*};
    }

    arrays! {
        _Znam(size) = _Znwm;
        _ZnamSt11align_val_t(size, align) = _ZnwmSt11align_val_t;
    }

    deletes! {
        delete = _ZdlPv();
        delete_array = _ZdaPv();
        delete_aligned = _ZdlPvSt11align_val_t(_align);
        delete_aligned_array = _ZdaPvSt11align_val_t(_align);
    }
}

pub(super) use forms::{delete, delete_aligned, delete_aligned_array, delete_array, is_any_seen};
