//! The system calls of the global allocator. None of them allocates.
//!
//! Those for memory are in `memory`. Miri, which interprets the allocator's tests, knows few of
//! them: `interpreted` fulfils the same contracts there.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

#[cfg(miri)]
mod interpreted;
#[cfg(not(miri))]
mod memory;

#[cfg(miri)]
use interpreted as memory;

pub(super) use memory::*;

/// Size of an OS page in bytes, asked for once.
pub(super) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: the call touches no memory of ours.
            let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
            let size = size.ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// Milliseconds of a clock that never goes back.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Lets other threads go on for a moment.
pub(super) fn pause() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}

/// CPUs this process may run on, at least 1.
pub(super) fn cpus() -> usize {
    /// The kernel refuses a set smaller than its own, whose size nothing tells.
    const WORDS: [usize; 3] = [16, 128, 1024];
    WORDS.into_iter().find_map(|words| affine_cpus(&mut [0; 1024][..words])).unwrap_or_else(|| {
        // SAFETY: the call touches no memory of ours.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
            .map_or(1, |n| n.max(1))
    })
}

/// The number of CPUs in the set of those this process may run on, if the set has room for it.
fn affine_cpus(set: &mut [usize]) -> Option<usize> {
    // SAFETY: the call writes no more than the set's bytes.
    let got = unsafe {
        libc::sched_getaffinity(0, size_of_val(set), set.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    let cpus = set.iter().map(|word| word.count_ones() as usize).sum();
    (got == 0 && cpus > 0).then_some(cpus)
}

/// Sleeps while `word` has this value, until woken, or for no reason. Where a sandbox refuses to let it
/// sleep, others go first.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    let no_timeout = ptr::null::<libc::timespec>();
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call; `errno` is the calling thread's own.
    unsafe {
        let answer = libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_timeout);
        if answer != 0 && *libc::__errno_location() != libc::EAGAIN {
            libc::sched_yield();
        }
    }
}

/// As [`wait`], but for so many milliseconds at most.
pub(super) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is enough for everybody, and no timeout is too long for the system's types then.
    let milliseconds = milliseconds.min(3_600_000) as i32;
    let timeout = libc::timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout live as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const timeout) };
}

/// Bytes of stack that a thread of ours has at least.
const STACK: usize = 128 << 10;

/// Starts a thread with every signal blocked and a small stack; `None` if the system does not.
pub(super) fn start_thread(run: extern "C" fn(*mut c_void) -> *mut c_void) -> Option<usize> {
    // SAFETY: what is written to is initialised by the calls, and lives as long as they do; the calling
    // thread's signals are blocked only while the other is made, which inherits that.
    unsafe {
        let mut all = core::mem::zeroed();
        let mut before = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut attributes = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let mut made = false;
        if libc::pthread_attr_init(&raw mut attributes) == 0 {
            // Where so little is not enough, for a program with much thread-local memory, it is refused.
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
            made =
                libc::pthread_create(&raw mut thread, &raw const attributes, run, ptr::null_mut())
                    == 0;
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        if !made {
            let none = ptr::null();
            made = libc::pthread_create(&raw mut thread, none, run, ptr::null_mut()) == 0;
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        made.then_some(thread as usize)
    }
}

/// Waits for the end of a thread that was [started](start_thread).
pub(super) fn join_thread(thread: usize) {
    // SAFETY: the thread was started here, and nobody else waits for it.
    unsafe { libc::pthread_join(thread as libc::pthread_t, ptr::null_mut()) };
}

/// Wakes one of those who [wait](wait) for the word.
pub(super) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all who [wait](wait) for the word.
pub(super) fn wake_all(word: &AtomicU32) {
    wake_some(word, c_int::MAX);
}

fn wake_some(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

/// An address that is the calling thread's alone.
#[inline]
pub(super) fn thread_address() -> usize {
    // SAFETY: the call may be made at any time.
    unsafe { libc::__errno_location() }.addr()
}

/// Keeps the calling thread's `errno` as it is while this lives: `free` must not change it.
pub(super) struct KeepErrno(c_int);

impl KeepErrno {
    pub(super) fn new() -> Self {
        // SAFETY: the location is the calling thread's own and always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Ends the process with one line on standard error.
#[cold]
pub(super) fn stop(message: &[u8]) -> ! {
    write(message);
    // SAFETY: `abort` does not return.
    unsafe { libc::abort() }
}

/// Writes to standard error. If that cannot be done, nobody can be told.
pub(super) fn write(mut message: &[u8]) {
    while !message.is_empty() {
        // SAFETY: the message is valid for reads of its length; `errno` is the calling thread's own.
        let written = unsafe { libc::write(2, message.as_ptr().cast::<c_void>(), message.len()) };
        match usize::try_from(written) {
            Ok(written) => message = &message[written..],
            // SAFETY: as above.
            Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            Err(_) => return,
        }
    }
}

/// What tells a file from all others that are there: device, number and type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileIdentity(libc::dev_t, libc::ino_t, libc::mode_t);

/// Which file has the number of standard error; `None` if none has.
pub(super) fn standard_error() -> Option<FileIdentity> {
    // SAFETY: zeros are a valid value of the type, and the call writes no more than that.
    let (answer, file) = unsafe {
        let mut file: libc::stat = core::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &raw mut file), file)
    };
    let identity = FileIdentity(file.st_dev, file.st_ino, file.st_mode & libc::S_IFMT);
    (answer == 0).then_some(identity)
}

/// Whether standard error is a terminal.
pub(super) fn has_terminal() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::isatty(libc::STDERR_FILENO) == 1 }
}

/// Has these called before each fork, and after it in the parent and in the child.
pub(super) fn at_fork(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
) {
    // Miri has no `fork`.
    if cfg!(not(miri)) {
        // SAFETY: the handlers may run at any time.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}
