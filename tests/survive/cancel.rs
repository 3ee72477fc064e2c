//! A cancelled thread runs to its next cancellation point, usually a blocking call. No call of the
//! allocator is one, since it may hold locks, or be about to abort.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{mem, ptr, thread};

use crate::ALLOCATOR;
use crate::child::{Ended, passes, run};

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

/// Runs `work` in a cancelled thread, which must still finish it.
fn in_a_cancelled_thread(work: extern "C" fn(*mut c_void) -> *mut c_void) {
    // SAFETY: the calls initialise what they write to; the thread is joined.
    unsafe {
        let (mut thread, mut answer) = (mem::zeroed(), ptr::null_mut());
        assert_eq!(libc::pthread_create(&mut thread, ptr::null(), work, ptr::null_mut()), 0);
        assert_eq!(libc::pthread_join(thread, &mut answer), 0);
        assert!(answer.is_null(), "the thread ended before its end");
    }
}

fn cancel() {
    // SAFETY: the calling thread ends at its next cancellation point, if there is one.
    assert_eq!(unsafe { pthread_cancel(libc::pthread_self()) }, 0);
}

#[test]
fn a_misuse_stops_the_process() {
    for hardened in ["0", "1"] {
        let Ended { signal, out, err, .. } = run("cancel::misuse", |command| {
            command.env("PAGEWISE_HARDENED", hardened);
        });
        assert_eq!(signal, Some(libc::SIGABRT), "{out}{err}");
        assert!(err.contains("pagewise: a block was freed twice"), "{err}");
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn misuse() {
    extern "C" fn free_twice(_: *mut c_void) -> *mut c_void {
        cancel();
        let block = black_box(ALLOCATOR.allocate(100));
        // SAFETY: the second free is the misuse.
        unsafe {
            ALLOCATOR.free(block);
            ALLOCATOR.free(block);
        }
        ptr::null_mut()
    }
    in_a_cancelled_thread(free_twice);
}

/// The thread used to wait for locks before the fork, and end there while it held some.
#[test]
fn a_cancelled_thread_completes_its_fork() {
    passes("cancel::forks");
}

#[test]
#[ignore = "in a process of its own"]
fn forks() {
    static STOP: AtomicBool = AtomicBool::new(false);
    extern "C" fn fork(_: *mut c_void) -> *mut c_void {
        cancel();
        for _ in 0..300 {
            // SAFETY: the child ends at once.
            unsafe {
                match libc::fork() {
                    0 => libc::_exit(0),
                    child => assert!(child > 0),
                }
            }
        }
        ptr::null_mut()
    }
    // Do not wait for the children: waiting is a cancellation point.
    // SAFETY: there are no other children.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let allocate = || {
        let mut blocks = vec![Vec::new(); 100];
        for index in (0..100).cycle().take_while(|_| !STOP.load(Relaxed)) {
            blocks[index] = black_box(vec![1_u8; 20_000 + 900 * index]);
        }
    };
    let threads = [(); 3].map(|()| thread::spawn(allocate));
    in_a_cancelled_thread(fork);
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}
