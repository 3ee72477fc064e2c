//! Threads that come and go, or are the process's last ones: lines 11 and 19.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::blocks::Blocks;
use crate::early::KEYS;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::{join, mebibytes, resident, start, wait_for};

/// Allocates blocks of many sizes and frees them, which leaves blocks on every list.
extern "C" fn allocates(_: *mut c_void) -> *mut c_void {
    let (mut blocks, mut random) = (Blocks::new(), Random(1));
    for _ in 0..200 {
        blocks.push(16 + random.below(2000));
    }
    ptr::null_mut()
}

/// Runs 5,000 threads, four at a time. [`crate::early`] decides which keys the program has created
/// before.
pub(crate) fn short_lived() -> Outcome {
    for _ in 0..5000 / 4 {
        let threads = [(); 4].map(|()| start(allocates));
        for thread in threads {
            match thread {
                Ok(thread) => join(thread),
                Err(error) => return Outcome::Fails(format!("no thread: error {error}")),
            }
        }
    }
    // If a program wanted keys and got none, it would test nothing.
    let wanted = std::env::args().nth(2).is_some_and(|name| name.starts_with("keys"));
    if wanted && KEYS.load(Ordering::Relaxed) == 0 {
        return Outcome::Unavailable("no .preinit_array".to_owned());
    }
    Outcome::Mebibytes(mebibytes(resident()))
}

/// The status that the exit function of [`that_end_the_process`] gives its process.
const EXITED: c_int = 7;

unsafe extern "C" {
    fn atexit(run: extern "C" fn()) -> c_int;
}

/// Makes a child that nobody calls `exit` in: its main thread ends, then the other, which has freed
/// so much that the allocator's background thread is wanted. The C library then ends the process,
/// as the allocator's thread does not count for the program.
pub(crate) fn that_end_the_process() -> Outcome {
    static STATUS: AtomicI32 = AtomicI32::new(-1);
    /// Needs more stack than an allocator's thread has.
    extern "C" fn at_exit() {
        black_box([1_u8; 1 << 20]);
        // SAFETY: ends the process.
        unsafe { libc::_exit(EXITED) };
    }
    extern "C" fn frees(_: *mut c_void) -> *mut c_void {
        drop(Blocks::fill(60_000, 1000));
        ptr::null_mut()
    }
    /// The thread that forks becomes the child's main thread, and ends by its return.
    extern "C" fn forks(_: *mut c_void) -> *mut c_void {
        // SAFETY: the child only starts a thread.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                if atexit(at_exit) != 0 || start(frees).is_err() {
                    libc::_exit(1);
                }
            } else {
                STATUS.store(wait_for(child), Ordering::Relaxed);
            }
        }
        ptr::null_mut()
    }
    match start(forks) {
        Ok(thread) => join(thread),
        Err(error) => return Outcome::Fails(format!("no thread: error {error}")),
    }
    let status = STATUS.load(Ordering::Relaxed);
    match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == EXITED {
        true => Outcome::Survived,
        false => Outcome::Fails(format!("the child's exit function does not run: {status:#x}")),
    }
}
