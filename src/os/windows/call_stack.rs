//! Where a thread is: the addresses its calls return to, and what lies there.

use core::ffi::c_void;
use core::ptr;

use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
    GetModuleFileNameA, GetModuleHandleExA,
};

/// Writes where the calling thread's innermost calls return to.
pub(crate) fn return_addresses(calls: &mut [usize]) {
    let to = calls.as_mut_ptr().cast::<*mut c_void>();
    // SAFETY: the call writes no more than these, addresses only.
    unsafe { RtlCaptureStackBackTrace(0, calls.len() as u32, to, ptr::null_mut()) };
}

/// Calls `tell` with the file that the code at an address is from, and where the file starts; no function's name is
/// known. Whether the file is.
pub(crate) fn origin(address: usize, tell: impl FnOnce(&[u8], usize, Option<&[u8]>)) -> bool {
    let mut module = ptr::null_mut();
    let mut name = [0; 260];
    let flags =
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    // SAFETY: any address may be asked for; the calls write no more than they are given.
    let len = unsafe {
        if GetModuleHandleExA(flags, ptr::without_provenance(address), &raw mut module) == 0 {
            return false;
        }
        GetModuleFileNameA(module, name.as_mut_ptr(), name.len() as u32)
    };
    tell(name.get(..len as usize).unwrap_or(&name), module.addr(), None);
    true
}
