//! Reports faults by a vectored exception handler.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr};

use windows_sys::Win32::Foundation::EXCEPTION_ACCESS_VIOLATION;
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};

use super::threads::thread_id;

/// The function to call on a fault, a `fn(*mut u8)`, or null.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The thread whose fault is being handled; 0 if none.
static HANDLING: AtomicI32 = AtomicI32::new(0);

/// Has `callback` called with the address of each fault, before any other handling. May be called
/// again with the same function.
pub(crate) fn on_fault(callback: fn(*mut u8)) {
    if CALLBACK.swap(callback as *mut c_void, Release).is_null() {
        // SAFETY: the function has the type of a vectored handler.
        unsafe { AddVectoredExceptionHandler(1, Some(fault)) };
    }
}

unsafe extern "system" fn fault(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes valid pointers.
    let record = unsafe { &*(*exception).ExceptionRecord };
    if record.ExceptionCode == EXCEPTION_ACCESS_VIOLATION && record.NumberParameters > 1 {
        let thread = thread_id();
        if HANDLING.swap(thread, Relaxed) != thread {
            // SAFETY: `CALLBACK` holds a function of this type.
            let callback =
                unsafe { core::mem::transmute::<*mut c_void, fn(*mut u8)>(CALLBACK.load(Acquire)) };
            callback(ptr::without_provenance_mut(record.ExceptionInformation[1]));
        }
        HANDLING.store(0, Relaxed);
    }
    EXCEPTION_CONTINUE_SEARCH
}
