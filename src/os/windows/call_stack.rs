//! Call stacks: the return addresses of a thread's calls, and which file they are in.

use core::ffi::c_void;
use core::ptr;

use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
    GetModuleFileNameA, GetModuleHandleExA,
};

/// Writes the return addresses of the calling thread's innermost calls to `calls`.
pub(crate) fn return_addresses(calls: &mut [usize]) {
    let to = calls.as_mut_ptr().cast::<*mut c_void>();
    // SAFETY: the call writes at most `calls.len()` addresses.
    unsafe { RtlCaptureStackBackTrace(0, calls.len() as u32, to, ptr::null_mut()) };
}

/// Calls `tell` with the file that the code at `address` comes from and the file's start address;
/// the function's name is never known. Returns whether the file is known.
pub(crate) fn origin(address: usize, tell: impl FnOnce(&[u8], usize, Option<&[u8]>)) -> bool {
    let mut module = ptr::null_mut();
    let mut name = [0; 260];
    let flags =
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    // SAFETY: any address may be asked for; the calls write at most the sizes that they are given.
    let len = unsafe {
        if GetModuleHandleExA(flags, ptr::without_provenance(address), &raw mut module) == 0 {
            return false;
        }
        GetModuleFileNameA(module, name.as_mut_ptr(), name.len() as u32)
    };
    tell(name.get(..len as usize).unwrap_or(&name), module.addr(), None);
    true
}
