//! A walk along a thread's stack by the system's unwinder, which trusts what it finds there.

use core::ffi::{c_int, c_void};

// `std` links the unwinder itself, wherever it is from.
#[cfg_attr(not(feature = "std"), link(name = "gcc_s"))]
unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Calls `each` with the return address and the stack pointer of the calling thread's frames, from
/// this function's outwards, until it returns `false`.
pub(super) fn walk<F: FnMut(usize, usize) -> bool>(mut each: F) {
    extern "C" fn enter<F: FnMut(usize, usize) -> bool>(
        context: *mut c_void,
        each: *mut c_void,
    ) -> c_int {
        /// The unwinder's codes for continuing and for stopping.
        const NO_REASON: c_int = 0;
        const END_OF_STACK: c_int = 5;
        // SAFETY: the unwinder passes its context and the pointer to `each`, which lives until
        // `_Unwind_Backtrace` returns.
        unsafe {
            let each = &mut *each.cast::<F>();
            let goes_on = each(_Unwind_GetIP(context), _Unwind_GetCFA(context));
            if goes_on { NO_REASON } else { END_OF_STACK }
        }
    }
    // SAFETY: `enter` has the type that the unwinder calls.
    unsafe { _Unwind_Backtrace(enter::<F>, (&raw mut each).cast()) };
}
