//! A library with the allocator was loaded, used by a thread, and unloaded: at its exit, the thread
//! jumped to where the library's code had been.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;
use std::{env, mem, ptr, thread};

use crate::child::passes_when;
use crate::package;

/// Environment variable with the library's path, for the child.
const LIBRARY: &str = "PAGEWISE_TEST_LIBRARY";

/// Builds the library; returns its path.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unloaded");
    package::build("tests/unloaded", &target, |_| {});
    target.join("debug/libunloaded.so")
}

#[test]
fn a_thread_ends_after_the_library_it_used() {
    if cfg!(target_feature = "crt-static") {
        return println!("skipped: a program that is linked statically loads no library");
    }
    let library = library();
    passes_when("a_library_that_is_unloaded::unloaded", |command| {
        command.env(LIBRARY, library).env("PAGEWISE_SHOW_STATS", "1");
    });
}

/// Loads the library; returns its handle, and `use_memory` and `lists`, valid while it is loaded.
fn load(path: &CString) -> (*mut libc::c_void, [extern "C" fn() -> usize; 2]) {
    // SAFETY: the functions have this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "the library is loaded");
        let functions = [c"use_memory", c"lists"].map(|name| {
            let function = libc::dlsym(library, name.as_ptr());
            assert!(!function.is_null(), "{name:?} is there");
            mem::transmute::<*mut libc::c_void, extern "C" fn() -> usize>(function)
        });
        (library, functions)
    }
}

/// Loads the library, uses it and unloads it. Returns whether it is gone.
fn use_library(path: &CString) -> bool {
    let (library, [use_memory, _]) = load(path);
    assert_eq!(use_memory(), (0..1000).sum());
    // SAFETY: nothing of the library is used afterwards.
    unsafe {
        assert_eq!(libc::dlclose(library), 0);
        let kept = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        kept.is_null()
    }
}

#[test]
#[ignore = "in a process of its own"]
fn unloaded() {
    let path = env::var(LIBRARY).expect("it is set");
    let path = CString::new(path).expect("a path");
    for _ in 0..3 {
        let path = path.clone();
        let gone = thread::spawn(move || use_library(&path)).join().expect("the thread ends");
        // Other C libraries than glibc never unload a library.
        assert!(gone || !cfg!(target_env = "gnu"), "the library was unloaded");
    }
    // Neither a fork nor the exit calls anything of it.
    // SAFETY: the child ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        let mut status = 0;
        assert!(libc::waitpid(child, &mut status, 0) == child && status == 0);
    }
}

/// The handlers of guarded blocks and of profiles stayed after the library was unloaded: a fault
/// that the program handles, or the signal for a profile, jumped to where they had been.
#[test]
fn signals_are_handled_after_it() {
    if cfg!(target_feature = "crt-static") {
        return println!("skipped: a program that is linked statically loads no library");
    }
    let library = library();
    passes_when("a_library_that_is_unloaded::signals", |command| {
        command.env(LIBRARY, library).env("PAGEWISE_GUARDED", "1");
        command.env("PAGEWISE_PROFILE", "/dev/null").env("PAGEWISE_PROFILE_SIGNAL", "USR2");
    });
}

/// A page that the handler opens when it is touched.
static PAGE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

extern "C" fn open_page(_: libc::c_int) {
    // SAFETY: the page is the test's, and has as many bytes.
    unsafe { libc::mprotect(PAGE.load(Relaxed).cast(), 4096, libc::PROT_READ | libc::PROT_WRITE) };
}

#[test]
#[ignore = "in a process of its own, with guarded blocks and a profile"]
fn signals() {
    let path = CString::new(env::var(LIBRARY).expect("it is set")).expect("a path");
    // SAFETY: the handler has the type of one; the page is a fresh mapping, which the handler opens
    // before it is written.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
        PAGE.store(page.cast(), Relaxed);
        libc::signal(libc::SIGSEGV, open_page as *const () as libc::sighandler_t);
        use_library(&path);
        libc::raise(libc::SIGUSR2);
        page.cast::<u8>().write_volatile(1);
    }
}

/// In a program that had used up the keys by which the allocator learns of a thread's exit, the
/// lists of every ended thread were lost.
#[test]
#[cfg(target_env = "gnu")]
fn threads_leave_their_lists_without_a_key() {
    let library = library();
    passes_when("a_library_that_is_unloaded::without_keys", |command| {
        command.env(LIBRARY, library);
    });
}

#[test]
#[ignore = "in a process of its own, without keys"]
fn without_keys() {
    let mut key = 0;
    // SAFETY: the key has no destructor.
    while unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 {}
    let path = CString::new(env::var(LIBRARY).expect("it is set")).expect("a path");
    let (_, [use_memory, lists]) = load(&path);
    for _ in 0..100 {
        thread::spawn(move || assert_eq!(use_memory(), (0..1000).sum())).join().expect("it ends");
    }
    assert!(lists() < 4, "{} threads' lists for one thread at a time", lists());
}
