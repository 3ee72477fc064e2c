//! Where a thread is: the addresses its calls return to.

use core::ffi::{c_int, c_void};
use core::fmt::Write;

use super::super::text::Text;

/// Calls that are remembered.
const DEPTH: usize = 16;

/// The innermost calls of a thread; 0 behind the last.
#[derive(Clone, Copy)]
pub(super) struct Stack([usize; DEPTH]);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// What is written to on the way.
struct Walk {
    stack: Stack,
    at: usize,
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    /// The unwinder's words for going on, and for ending.
    const NO_REASON: c_int = 0;
    const END_OF_STACK: c_int = 5;
    // SAFETY: the unwinder calls this with its context, and with what it was given: `here` waits.
    unsafe {
        let walk = &mut *walk.cast::<Walk>();
        walk.stack.0[walk.at] = _Unwind_GetIP(context);
        walk.at += 1;
        if walk.at == DEPTH { END_OF_STACK } else { NO_REASON }
    }
}

impl Stack {
    pub(super) const EMPTY: Self = Self([0; DEPTH]);

    /// The calling thread's. May allocate, by way of the unwinder.
    pub(super) fn here() -> Self {
        let mut walk = Walk { stack: Self::EMPTY, at: 0 };
        if cfg!(not(miri)) {
            // SAFETY: the function is the unwinder's own way to be called.
            unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
        }
        walk.stack
    }

    /// Writes a line for each call: the file and the place in it, as `addr2line` takes them, and the function's
    /// name where the file has one.
    pub(super) fn show(&self, text: &mut Text) {
        for &address in self.0.iter().take_while(|&&address| address > 0) {
            // SAFETY: all zeros is a value; the call writes it, and any address may be asked for. The
            // names it finds stay while their file is loaded.
            unsafe {
                let mut found: libc::Dl_info = core::mem::zeroed();
                let place = core::ptr::without_provenance::<c_void>(address);
                if libc::dladdr(place, &raw mut found) == 0 || found.dli_fname.is_null() {
                    let _ = writeln!(text, "pagewise:     {address:#x}");
                    continue;
                }
                let name = |name| core::ffi::CStr::from_ptr(name).to_bytes().escape_ascii();
                let offset = address - found.dli_fbase.addr();
                let _ = write!(text, "pagewise:     {}+{offset:#x}", name(found.dli_fname));
                if !found.dli_sname.is_null() {
                    let _ = write!(text, " {}", name(found.dli_sname));
                }
                let _ = writeln!(text);
            }
        }
    }
}
