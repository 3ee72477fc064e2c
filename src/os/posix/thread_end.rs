//! A function called when a thread ends: the destructor of a key of the C library's threads.

use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// What is called when a thread ends, with the value that it [gave](at_thread_end).
pub(crate) type ThreadEnd = extern "C" fn(*mut c_void);

/// The key, a small number on every system, of whatever type; the largest number: none.
static KEY: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;

/// Deletes the key when the library that has this code is unloaded: threads that end later must not be
/// led to where it was. Runs at the end of a program, too, whose other threads go on: what those keep on
/// their lists no longer matters then. (macOS never unloads a library with thread-local variables, as this is.)
#[cfg(not(any(miri, target_os = "macos")))]
#[used]
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = close;

#[cfg(not(any(miri, target_os = "macos")))]
extern "C" fn close() {
    let key = KEY.swap(NONE, Relaxed);
    if key != NONE {
        // SAFETY: the key was made, and is deleted once.
        unsafe { libc::pthread_key_delete(key as libc::pthread_key_t) };
    }
}

/// To be called once, before any thread has [`end` called](at_thread_end).
pub(crate) fn prepare_thread_end(end: ThreadEnd) {
    let mut key = 0;
    // SAFETY: the destructor takes what a thread gives.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key as usize, Relaxed);
    }
}

/// Has `end` called with this value when the calling thread ends. May allocate.
pub(crate) fn at_thread_end(end: ThreadEnd, value: *mut c_void) {
    let key = KEY.load(Relaxed);
    // SAFETY: the key was made.
    let set = || unsafe { libc::pthread_setspecific(key as libc::pthread_key_t, value) == 0 };
    if key == NONE || !set() {
        end_without_key(end, value);
    }
}

/// As [`at_thread_end`], where there was no key to be had: by what GNU's library calls for C++, which keeps the
/// library that has this code loaded until then.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
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
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn end_without_key(_: ThreadEnd, _: *mut c_void) {}
