//! System calls of the programs, without `malloc`.

use std::ffi::c_int;
use std::time::{Duration, Instant};
use std::{mem, ptr};

/// Returns the resident bytes of this process, without allocating.
pub(crate) fn resident() -> usize {
    let mut text = [0u8; 128];
    // SAFETY: the path is NUL-terminated; the buffer is valid for its length.
    let read = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = &text[..usize::try_from(read).expect("there is a /proc")];
    let pages = str::from_utf8(text).ok().and_then(|text| text.split(' ').nth(1)?.parse().ok());
    // SAFETY: a plain query.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    pages.unwrap_or(0) * page_size
}

pub(crate) fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Returns the peak of this process's resident bytes.
pub(crate) fn peak_resident() -> usize {
    // SAFETY: all bits zero is a valid value, and the place is valid for writes.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss as usize * 1024
}

/// Repeats `action` for `duration`, and at least `least` times, since a program gets little done in
/// that time on a busy machine.
pub(crate) fn for_duration(duration: Duration, least: usize, mut action: impl FnMut()) {
    let end = Instant::now() + duration;
    let mut calls = 0;
    while calls < least || Instant::now() < end {
        action();
        calls += 1;
    }
}

/// Forks, runs `action` in the child, which exits with status 0, and waits for it.
pub(crate) fn in_child(action: impl FnOnce()) -> Result<(), String> {
    // SAFETY: the child ends by `_exit`.
    unsafe {
        let child = libc::fork();
        match child {
            -1 => return Err("cannot fork".to_owned()),
            0 => {
                action();
                libc::_exit(0);
            }
            _ => {}
        }
        match wait_for(child) {
            0 => Ok(()),
            status if libc::WIFSIGNALED(status) => Err("the child dies".to_owned()),
            _ => Err("the child fails".to_owned()),
        }
    }
}

/// Waits for a child; returns its status.
pub(crate) fn wait_for(child: c_int) -> c_int {
    let mut status = 0;
    // SAFETY: the status is valid for writes.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {
        // Interrupted by a signal.
    }
    status
}

/// Gives memory back with `malloc_trim`, if the library or the C library has it.
pub(crate) fn trim() {
    // SAFETY: the name is NUL-terminated; the symbol is the function of this name.
    unsafe {
        let trim = libc::dlsym(libc::RTLD_DEFAULT, c"malloc_trim".as_ptr());
        if !trim.is_null() {
            let trim = mem::transmute::<*mut libc::c_void, extern "C" fn(usize) -> c_int>(trim);
            trim(0);
        }
    }
}

/// Starts a thread without `std`, so that only `malloc` allocates for it.
pub(crate) fn start(
    run: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
) -> Result<libc::pthread_t, c_int> {
    let mut thread = 0;
    // SAFETY: the thread's function has the right type and takes no argument.
    match unsafe { libc::pthread_create(&mut thread, ptr::null(), run, ptr::null_mut()) } {
        0 => Ok(thread),
        error => Err(error),
    }
}

/// Waits for a thread to end.
pub(crate) fn join(thread: libc::pthread_t) {
    // SAFETY: the thread was started here and is joined once.
    unsafe { libc::pthread_join(thread, ptr::null_mut()) };
}
