//! A function called when a thread ends: the loader calls each module's TLS callbacks then.
//!
//! (Not a fiber-local slot's destructor: that is called at the process's end, too, when other threads were stopped
//! wherever they were, perhaps with a heap's lock; and for threads that live, when a library is unloaded.)

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use windows_sys::Win32::System::Threading::{
    TLS_OUT_OF_INDEXES, TlsAlloc, TlsGetValue, TlsSetValue,
};

/// The loader's word for that.
const DLL_THREAD_DETACH: u32 = 3;

/// What is called when a thread ends, with the value that it [gave](at_thread_end).
pub(crate) type ThreadEnd = extern "C" fn(*mut c_void);

/// The slot that has a thread's value; none, if the system has none left.
static SLOT: AtomicU32 = AtomicU32::new(TLS_OUT_OF_INDEXES);

/// The function; null before there is one.
static END: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Callback = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

/// After the standard library's (`.CRT$XLB`), whose destructors may allocate.
#[used]
#[unsafe(link_section = ".CRT$XLY")]
static CALLBACK: Callback = on_event;

unsafe extern "system" fn on_event(_: *mut c_void, event: u32, _: *mut c_void) {
    let (slot, end) = (SLOT.load(Acquire), END.load(Acquire));
    if event != DLL_THREAD_DETACH || slot == TLS_OUT_OF_INDEXES || end.is_null() {
        return;
    }
    // SAFETY: the slot is ours; the function is of this type.
    unsafe {
        let value = TlsGetValue(slot);
        if !value.is_null() {
            TlsSetValue(slot, ptr::null());
            core::mem::transmute::<*mut c_void, ThreadEnd>(end)(value);
        }
    }
}

/// To be called once, before any thread has [`end` called](at_thread_end).
pub(crate) fn prepare_thread_end(end: ThreadEnd) {
    // SAFETY: reads a static. That somebody does has the linker keep it.
    unsafe { (&raw const CALLBACK).read_volatile() };
    END.store(end as *mut c_void, Release);
    // SAFETY: the call may be made at any time.
    SLOT.store(unsafe { TlsAlloc() }, Release);
}

/// Has `end` called with this value when the calling thread ends. Where the system had no slot left it is not: the
/// thread's lists are lost to others then, and so are the few blocks on them.
pub(crate) fn at_thread_end(_: ThreadEnd, value: *mut c_void) {
    let slot = SLOT.load(Relaxed);
    if slot != TLS_OUT_OF_INDEXES {
        // SAFETY: the slot is ours.
        unsafe { TlsSetValue(slot, value) };
    }
}
