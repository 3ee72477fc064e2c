//! Calls a function when a thread ends, by a TLS callback, which the loader calls in each module.
//!
//! A fiber-local slot's destructor will not do. It also runs at the process's end, when the other
//! threads were stopped at any point, perhaps while they held a heap's lock. And it runs for living
//! threads when a library is unloaded.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use windows_sys::Win32::System::Threading::{
    TLS_OUT_OF_INDEXES, TlsAlloc, TlsGetValue, TlsSetValue,
};

/// The loader's code for the end of a thread.
const DLL_THREAD_DETACH: u32 = 3;

/// The function that is called when a thread ends, with the value that the thread passed to
/// [`at_thread_end`].
pub(crate) type ThreadEnd = extern "C" fn(*mut c_void);

/// The slot that holds each thread's value; `TLS_OUT_OF_INDEXES` if there is none.
static SLOT: AtomicU32 = AtomicU32::new(TLS_OUT_OF_INDEXES);

/// The function to call; null until [`prepare_thread_end`] has run.
static END: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Callback = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

/// The callback, in a section after the standard library's (`.CRT$XLB`), whose destructors may
/// allocate.
#[used]
#[unsafe(link_section = ".CRT$XLY")]
static CALLBACK: Callback = on_event;

unsafe extern "system" fn on_event(_: *mut c_void, event: u32, _: *mut c_void) {
    let (slot, end) = (SLOT.load(Acquire), END.load(Acquire));
    if event != DLL_THREAD_DETACH || slot == TLS_OUT_OF_INDEXES || end.is_null() {
        return;
    }
    // SAFETY: the slot is ours; `END` holds a function of this type.
    unsafe {
        let value = TlsGetValue(slot);
        if !value.is_null() {
            TlsSetValue(slot, ptr::null());
            core::mem::transmute::<*mut c_void, ThreadEnd>(end)(value);
        }
    }
}

/// Allocates the slot. Call it once, before any thread calls [`at_thread_end`].
pub(crate) fn prepare_thread_end(end: ThreadEnd) {
    // SAFETY: reads a static. The read makes the linker keep the static.
    unsafe { (&raw const CALLBACK).read_volatile() };
    END.store(end as *mut c_void, Release);
    // SAFETY: the call may be made at any time.
    SLOT.store(unsafe { TlsAlloc() }, Release);
}

/// Has `end` called with `value` when the calling thread ends. If there is no slot, it is not
/// called, and the few blocks on the thread's lists are lost.
pub(crate) fn at_thread_end(_: ThreadEnd, value: *mut c_void) {
    let slot = SLOT.load(Relaxed);
    if slot != TLS_OUT_OF_INDEXES {
        // SAFETY: the slot is ours.
        unsafe { TlsSetValue(slot, value) };
    }
}
