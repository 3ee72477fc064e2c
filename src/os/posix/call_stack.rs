//! Where a thread is: the addresses its calls return to, and what lies there.

use core::ffi::{CStr, c_int, c_void};

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// What is written to on the way.
struct Walk<'a> {
    calls: &'a mut [usize],
    at: usize,
    /// Frames up to this address are left out.
    beyond: usize,
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    /// The unwinder's words for going on, and for ending.
    const NO_REASON: c_int = 0;
    const END_OF_STACK: c_int = 5;
    // SAFETY: the unwinder calls this with its context, and with what it was given: `return_addresses` waits.
    unsafe {
        let walk = &mut *walk.cast::<Walk<'_>>();
        // Where the function's stack ended when it called on.
        if _Unwind_GetCFA(context) <= walk.beyond {
            return NO_REASON;
        }
        let Some(call) = walk.calls.get_mut(walk.at) else { return END_OF_STACK };
        *call = _Unwind_GetIP(context);
        walk.at += 1;
        if walk.at == walk.calls.len() { END_OF_STACK } else { NO_REASON }
    }
}

/// Writes where the calling thread's innermost calls return to. May allocate, by way of the unwinder.
pub(crate) fn return_addresses(calls: &mut [usize]) {
    return_addresses_beyond(0, calls);
}

/// As [`return_addresses`], but for the calls of functions whose variables lie at `beyond`, or further in.
pub(crate) fn return_addresses_beyond(beyond: usize, calls: &mut [usize]) {
    let mut walk = Walk { calls, at: 0, beyond };
    if cfg!(not(miri)) {
        // SAFETY: the function is the unwinder's own way to be called.
        unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    }
}

/// Calls `tell` with the file that the code at an address is from, where the file starts, and the function's name,
/// if that is known; whether the file is.
pub(crate) fn origin(address: usize, tell: impl FnOnce(&[u8], usize, Option<&[u8]>)) -> bool {
    // SAFETY: all zeros is a value; the call writes it, and any address may be asked for. The names it finds stay
    // while their file is loaded.
    unsafe {
        let mut found: libc::Dl_info = core::mem::zeroed();
        let place = core::ptr::without_provenance::<c_void>(address);
        if libc::dladdr(place, &raw mut found) == 0 || found.dli_fname.is_null() {
            return false;
        }
        let name = |name| CStr::from_ptr(name).to_bytes();
        let function = (!found.dli_sname.is_null()).then(|| name(found.dli_sname));
        tell(name(found.dli_fname), found.dli_fbase.addr(), function);
    }
    true
}
