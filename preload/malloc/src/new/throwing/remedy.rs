//! What the forms that throw do in Rust: they look for memory, and say what to call when there is
//! none.

use crate::new::find;
use crate::{PAGEWISE, stop};

/// A function that returns when there may be memory, or throws.
pub(super) type Remedy = unsafe extern "C-unwind" fn();

/// Returns what to call when there is no memory for a block of this alignment: the program's
/// `new_handler`, or without one `std::__throw_bad_alloc`. Ends the process if there is neither.
#[cold]
pub(super) extern "C" fn remedy(align: usize) -> Remedy {
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

/// Does the same as the allocator's own, for assembly code.
pub(super) extern "C" fn allocate(size: usize) -> *mut u8 {
    PAGEWISE.allocate(size)
}

/// Does the same as the allocator's own, for assembly code.
pub(super) extern "C" fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    PAGEWISE.allocate_aligned(size, align)
}
