//! Call stacks: the return addresses of a thread's calls, and which file and function they are in.

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod frames;
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
#[path = "call_stack/system_frames.rs"]
mod frames;

/// Writes the return addresses of the calling thread's innermost calls to `calls`. The unwinder may
/// allocate.
#[cfg(feature = "guarded")]
pub(crate) fn return_addresses(calls: &mut [usize]) {
    return_addresses_beyond(0, calls);
}

/// Writes the return addresses of the calling thread's innermost calls to `calls`, without
/// functions whose variables are at `beyond` or further in. The unwinder may allocate.
pub(crate) fn return_addresses_beyond(beyond: usize, calls: &mut [usize]) {
    let mut calls = calls.iter_mut();
    if cfg!(not(miri)) {
        frames::walk(|address, stack| {
            // The stack pointer is the function's at its call of the next.
            if stack <= beyond {
                return true;
            }
            let Some(call) = calls.next() else { return false };
            *call = address;
            calls.len() > 0
        });
    }
}

/// Calls `tell` with the file that the code at `address` comes from, the file's start address, and
/// the function's name if that is known. Returns whether the file is known.
#[cfg(feature = "guarded")]
pub(crate) fn origin(address: usize, tell: impl FnOnce(&[u8], usize, Option<&[u8]>)) -> bool {
    use core::ffi::{CStr, c_void};
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
