//! A function called when a thread ends: the destructor of a key of the C library's threads.

use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// What is called when a thread ends, with the value that it [gave](at_thread_end).
pub(crate) type ThreadEnd = extern "C" fn(*mut c_void);

/// The key; above the largest number, none.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Deletes the key when the library that has this code is unloaded: threads that end later must not be
/// led to where it was. Runs at the end of a program, too, whose other threads go on: what those keep on
/// their lists no longer matters then.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = close;

#[cfg(not(miri))]
extern "C" fn close() {
    let key = KEY.swap(u32::MAX, Relaxed);
    if key != u32::MAX {
        // SAFETY: the key was made, and is deleted once.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// To be called once, before any thread has [`end` called](at_thread_end).
pub(crate) fn prepare_thread_end(end: ThreadEnd) {
    let mut key = 0;
    // SAFETY: the destructor takes what a thread gives.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key, Relaxed);
    }
}

/// Has `end` called with this value when the calling thread ends. May allocate.
pub(crate) fn at_thread_end(end: ThreadEnd, value: *mut c_void) {
    let key = KEY.load(Relaxed);
    // SAFETY: the key was made.
    if key == u32::MAX || unsafe { libc::pthread_setspecific(key, value) } != 0 {
        end_without_key(end, value);
    }
}

/// As [`at_thread_end`], where there was no key to be had: by what GNU's library calls for C++, which keeps the
/// library that has this code loaded until then.
#[cfg(all(target_env = "gnu", not(miri)))]
#[cold]
fn end_without_key(end: ThreadEnd, value: *mut c_void) {
    use core::ffi::c_int;
    unsafe extern "C" {
        static __dso_handle: u8;
    }
    type Register = unsafe extern "C" fn(ThreadEnd, *mut c_void, *const u8) -> c_int;

    // SAFETY: a function of this name has this type.
    unsafe {
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr());
        if !register.is_null() {
            let register = core::mem::transmute::<*mut c_void, Register>(register);
            register(end, value, &raw const __dso_handle);
        }
    }
}

/// Elsewhere the function is not called: the thread's lists are lost to others, and so are the few blocks on them.
#[cfg(not(all(target_env = "gnu", not(miri))))]
fn end_without_key(_: ThreadEnd, _: *mut c_void) {}
