//! Calls a function when a thread ends, as the destructor of a pthread key.

use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// The function that is called when a thread ends, with the value that the thread passed to
/// [`at_thread_end`].
pub(crate) type ThreadEnd = extern "C" fn(*mut c_void);

/// The key, which is a small number on every system, whatever its type; [`NONE`] if there is none.
static KEY: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;

/// Deletes the key, so that threads that end later call nothing. The blocks on the lists of threads
/// that go on while the program exits no longer matter.
#[cfg(not(any(miri, target_os = "macos")))]
pub(super) fn delete_key() {
    let key = KEY.swap(NONE, Relaxed);
    if key != NONE {
        // SAFETY: the key was created, and is deleted only once.
        unsafe { libc::pthread_key_delete(key as libc::pthread_key_t) };
    }
}

/// Creates the key. Call it once, before any thread calls [`at_thread_end`].
pub(crate) fn prepare_thread_end(end: ThreadEnd) {
    let mut key = 0;
    // SAFETY: the destructor takes the value that a thread stores.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key as usize, Relaxed);
    }
}

/// Has `end` called with `value` when the calling thread ends. May allocate.
pub(crate) fn at_thread_end(end: ThreadEnd, value: *mut c_void) {
    let key = KEY.load(Relaxed);
    // SAFETY: only called if the key was created.
    let set = || unsafe { libc::pthread_setspecific(key as libc::pthread_key_t, value) == 0 };
    if key == NONE || !set() {
        end_without_key(end, value);
    }
}

/// Registers `end` when there is no key to be had, by the function that glibc has for C++. It keeps
/// the library with this code loaded until the thread ends.
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

/// Does nothing: on other systems the function is not called, and the few blocks on the thread's
/// lists are lost.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn end_without_key(_: ThreadEnd, _: *mut c_void) {}
