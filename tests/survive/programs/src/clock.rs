//! The program's own clock, as libfaketime has one: line 14. It takes the place of the C library's
//! also in the libraries that the program loads.

use std::cell::Cell;
use std::ffi::c_int;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;

/// Whether the functions below allocate.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the thread is in one of these functions: an allocator that calls them does not make
    /// them call the allocator without end.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Reads a file of settings, as it were: allocates and frees blocks of several sizes.
fn allocate() {
    if ALLOCATES.load(Relaxed) && !INSIDE.replace(true) {
        for size in [40, 3000, 40_000, 900_000] {
            // SAFETY: the block is freed once, and written to within its size.
            unsafe {
                let block = black_box(libc::malloc(size));
                if block.is_null() {
                    libc::abort();
                }
                libc::memset(block, 1, size);
                libc::free(block);
            }
        }
        INSIDE.set(false);
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    allocate();
    // SAFETY: the caller guarantees that the time may be written.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    allocate();
    // SAFETY: the caller guarantees that the time may be read, and the rest written.
    unsafe { libc::syscall(libc::SYS_nanosleep, time, left) as c_int }
}

/// Threads allocate, small blocks and large, while memory goes back and a child is forked now and
/// then.
pub(crate) fn that_allocates() -> Outcome {
    ALLOCATES.store(true, Relaxed);
    let start = Instant::now();
    let threads = [(); 3].map(|()| {
        thread::spawn(move || {
            while start.elapsed() < Duration::from_secs(3) {
                for large in [50, 0] {
                    let small: Vec<Vec<u8>> = (0..3000).map(|size| vec![1; size]).collect();
                    let large: Vec<Vec<u8>> = (0..large).map(|n| vec![2; 100_000 + n]).collect();
                    black_box((small, large));
                }
            }
        })
    });
    while start.elapsed() < Duration::from_secs(3) {
        // SAFETY: the child ends at once.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                allocate();
                libc::_exit(0);
            }
            let mut status = 0;
            while libc::waitpid(child, &mut status, 0) < 0 {}
            if status != 0 {
                return Outcome::Fails(format!("a child ends with {status:x}"));
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    for thread in threads {
        if thread.join().is_err() {
            return Outcome::Fails("a thread".to_owned());
        }
    }
    Outcome::Survived
}
