//! Call stacks: the return addresses of a thread's calls, and which file and function they are in.

use core::ffi::{CStr, c_int, c_void};

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// The state of a walk along the stack.
struct Walk<'a> {
    calls: &'a mut [usize],
    at: usize,
    /// Frames up to this address are skipped.
    beyond: usize,
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    /// The unwinder's codes for continuing and for stopping.
    const NO_REASON: c_int = 0;
    const END_OF_STACK: c_int = 5;
    // SAFETY: the unwinder passes its context and the pointer to `walk`, which lives until
    // `_Unwind_Backtrace` returns.
    unsafe {
        let walk = &mut *walk.cast::<Walk<'_>>();
        // The CFA is the caller's stack pointer at the call.
        if _Unwind_GetCFA(context) <= walk.beyond {
            return NO_REASON;
        }
        let Some(call) = walk.calls.get_mut(walk.at) else { return END_OF_STACK };
        *call = _Unwind_GetIP(context);
        walk.at += 1;
        if walk.at == walk.calls.len() { END_OF_STACK } else { NO_REASON }
    }
}

/// Writes the return addresses of the calling thread's innermost calls to `calls`. The unwinder may
/// allocate.
pub(crate) fn return_addresses(calls: &mut [usize]) {
    return_addresses_beyond(0, calls);
}

/// Like [`return_addresses`], but skips functions whose variables are at `beyond` or further in.
pub(crate) fn return_addresses_beyond(beyond: usize, calls: &mut [usize]) {
    let mut walk = Walk { calls, at: 0, beyond };
    if cfg!(not(miri)) {
        // SAFETY: `each` has the type that the unwinder calls.
        unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    }
}

/// Calls `tell` with the file that the code at `address` comes from, the file's start address, and
/// the function's name if that is known. Returns whether the file is known.
pub(crate) fn origin(address: usize, tell: impl FnOnce(&[u8], usize, Option<&[u8]>)) -> bool {
    // SAFETY: all zeros is a valid value; the call overwrites it and accepts any address. The names
    // that it finds stay valid while their file is loaded.
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
