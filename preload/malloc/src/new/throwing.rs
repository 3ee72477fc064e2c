//! The forms of `operator new` that throw.
//!
//! An exception of the handler, or `std::bad_alloc`, passes through the frames of `new` into the
//! program. It must not pass through Rust code that is built not to unwind. So these frames are in
//! assembly code, which calls the handler and the function that throws; Rust code says which, and
//! looks for memory. Each processor has a file.
//!
//! ```text
//!  _Znwm ──▶ allocate: a block? ──▶ return it
//!   └─ null ──▶ again ──▶ remedy: the handler, or what throws ──▶ call it
//!                 ▲                                                │ it returned
//!                 └── null ◀── allocate_aligned: a block? ◀────────┘
//! ```

use super::{PAGEWISE, find, stop};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod others;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// A function that returns when there may be memory, or throws.
type Remedy = unsafe extern "C-unwind" fn();

/// Returns what to call when there is no memory for a block of this alignment: the program's
/// `new_handler`, or without one `std::__throw_bad_alloc`. Ends the process if there is neither.
#[cold]
extern "C" fn remedy(align: usize) -> Remedy {
    // An alignment that is not a power of two can never be served.
    if align.is_power_of_two()
        && let Some(handler) = handler()
    {
        return handler;
    }
    // SAFETY: the function of this name may be called as one that returns.
    let throw = unsafe { find::<Remedy>(libc::RTLD_DEFAULT, c"_ZSt17__throw_bad_allocv") };
    throw.unwrap_or_else(|| stop("pagewise: operator new found no memory\n"))
}

/// `std::get_new_handler()`.
fn handler() -> Option<Remedy> {
    // SAFETY: the function of this name has this type, and may be called at any time.
    unsafe {
        let name = c"_ZSt15get_new_handlerv";
        find::<unsafe extern "C" fn() -> Option<Remedy>>(libc::RTLD_DEFAULT, name)?()
    }
}

extern "C" fn allocate(size: usize) -> *mut u8 {
    PAGEWISE.allocate(size)
}

extern "C" fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    PAGEWISE.allocate_aligned(size, align)
}
