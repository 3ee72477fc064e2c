//! The program's own functions in the place of the C library's, as libraries have them that watch a
//! program, such as UCX and libfaketime: line 15. They also serve the libraries that the program
//! loads, and they allocate.

use std::cell::Cell;
use std::ffi::{c_int, c_uchar, c_void};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::in_child;

/// Whether the functions below allocate.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

/// Held while they do, as by tools that keep a list of calls.
static NOTES: Mutex<()> = Mutex::new(());

/// Whether it is held: not in a child, where its owner may not exist.
static LOCKS: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// How deep the thread is in these functions: an allocator that calls them does not make them
    /// call the allocator without end.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Notes a call, as it were: allocates and frees blocks of several sizes, other ones each time.
fn allocate() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if !ALLOCATES.load(Relaxed) || DEPTH.get() > 1 {
        return;
    }
    let notes = (LOCKS.load(Relaxed) && DEPTH.get() == 0).then(|| NOTES.lock());
    DEPTH.set(DEPTH.get() + 1);
    let number = CALLS.fetch_add(7919, Relaxed) as usize;
    let sizes = [number % 3000 + 1, number % 200_000 + 20_000, 40];
    // SAFETY: each block is freed once, and written to within its size.
    unsafe {
        let blocks = sizes.map(|size| {
            let block = black_box(libc::malloc(size));
            if block.is_null() {
                libc::abort();
            }
            libc::memset(block, 1, size);
            block
        });
        blocks.into_iter().for_each(|block| libc::free(block));
    }
    DEPTH.set(DEPTH.get() - 1);
    drop(notes);
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    start: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    allocate();
    // SAFETY: the caller guarantees what the call requires.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, start, len, protection, flags, file, offset) };
    mapped as *mut c_void
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, len: usize) -> c_int {
    allocate();
    // SAFETY: the caller guarantees what the call requires.
    unsafe { libc::syscall(libc::SYS_munmap, start, len) as c_int }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, len: usize, protection: c_int) -> c_int {
    allocate();
    // SAFETY: the caller guarantees what the call requires.
    unsafe { libc::syscall(libc::SYS_mprotect, start, len, protection) as c_int }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    allocate();
    // SAFETY: the caller guarantees what the call requires.
    unsafe { libc::syscall(libc::SYS_madvise, start, len, advice) as c_int }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mincore(start: *mut c_void, len: usize, pages: *mut c_uchar) -> c_int {
    allocate();
    // SAFETY: the caller guarantees what the call requires.
    unsafe { libc::syscall(libc::SYS_mincore, start, len, pages) as c_int }
}

/// Replaces blocks of many sizes at random, and checks what is in them. Returns whether they held
/// what was written.
fn replace(seed: u64, rounds: usize) -> bool {
    let mut random = Random(seed);
    let mut blocks: Vec<Vec<u8>> = (0..300).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let most = [1500, 1500, 60_000, 3_000_000][random.below(4)];
        let block = vec![round as u8; 1 + random.below(most)];
        let old = std::mem::replace(&mut blocks[random.below(300)], black_box(block));
        if old.first() != old.last() {
            return false;
        }
    }
    true
}

/// Threads allocate, small blocks and large, and children are forked meanwhile.
pub(crate) fn that_allocate() -> Outcome {
    ALLOCATES.store(true, Relaxed);
    let start = Instant::now();
    let threads = [1, 2, 3, 4].map(|seed| {
        thread::spawn(move || {
            let mut seeds = (0..).map(|round| seed + 10 * round);
            let goes_on = || start.elapsed() < Duration::from_secs(3);
            seeds.all(|seed| goes_on() && replace(seed, 1000)) || !goes_on()
        })
    });
    while start.elapsed() < Duration::from_secs(3) {
        let child = in_child(|| {
            LOCKS.store(false, Relaxed);
            if !replace(5, 300) {
                std::process::abort();
            }
        });
        if child.is_err() {
            return Outcome::Fails("a child fails".to_owned());
        }
        thread::sleep(Duration::from_millis(20));
    }
    for thread in threads {
        if !thread.join().unwrap_or(false) {
            return Outcome::Fails("blocks do not hold what was written".to_owned());
        }
    }
    Outcome::Survived
}
