//! Sandboxes: line 5. A seccomp filter makes one system call fail, with each of five errors.
//!
//! Calls that the allocator makes when it starts are refused from the start: the program installs
//! the filter and executes itself. Calls that the loader or the C library needs are refused once
//! the program runs.

use std::ffi::{CString, c_int, c_long, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blocks::Blocks;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::{start, trim, wait_for};

const ERRORS: [(&str, c_int); 5] = [
    ("EPERM", libc::EPERM),
    ("ENOSYS", libc::ENOSYS),
    ("EINTR", libc::EINTR),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
];

pub(crate) fn mincore() -> Outcome {
    from_the_start(libc::SYS_mincore)
}

pub(crate) fn madvise() -> Outcome {
    from_the_start(libc::SYS_madvise)
}

pub(crate) fn mremap() -> Outcome {
    from_the_start(libc::SYS_mremap)
}

pub(crate) fn affinity() -> Outcome {
    from_the_start(libc::SYS_sched_getaffinity)
}

pub(crate) fn getrandom() -> Outcome {
    from_the_start(libc::SYS_getrandom)
}

pub(crate) fn prlimit() -> Outcome {
    from_the_start(libc::SYS_prlimit64)
}

/// A request may fail if memory cannot be made accessible; nothing else may go wrong.
pub(crate) fn mprotect() -> Outcome {
    while_running(libc::SYS_mprotect, true)
}

pub(crate) fn munmap() -> Outcome {
    while_running(libc::SYS_munmap, false)
}

pub(crate) fn futex() -> Outcome {
    while_running(libc::SYS_futex, false)
}

/// Makes a system call fail in all threads from now on.
fn refuse(call: c_long, error: c_int) -> bool {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equals = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut steps = [
        step(load, 0, 0, offset_of!(libc::seccomp_data, nr) as u32),
        step(equals, 0, 1, call as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | error.cast_unsigned()),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter is valid for reads during the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &filter,
            ) == 0
    }
}

/// `mincore` reports ENOMEM for unmapped memory: an allocator may believe that.
fn is_refusal(call: c_long, error: c_int) -> bool {
    call != libc::SYS_mincore || error != libc::ENOMEM
}

/// Exit status of a process that could not install its filter, or whose request failed.
const NO_FILTER: c_int = 3;
const NO_MEMORY: c_int = 4;

/// Runs a process for each error, and reports those that fail.
fn each_error(call: c_long, run: impl Fn(c_int)) -> Outcome {
    let mut bad = Vec::new();
    for (name, error) in ERRORS.into_iter().filter(|&(_, error)| is_refusal(call, error)) {
        // SAFETY: the child ends with `_exit` or `execv`; the alarm ends a deadlock.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                run(error);
                libc::_exit(1);
            }
            wait_for(child)
        };
        if libc::WIFSIGNALED(status) {
            let hangs = libc::WTERMSIG(status) == libc::SIGALRM;
            bad.push(format!("{name} {}", if hangs { "hangs" } else { "dies" }));
            continue;
        }
        match libc::WEXITSTATUS(status) {
            0 => {}
            NO_FILTER => return Outcome::Unavailable("no seccomp".to_owned()),
            NO_MEMORY => bad.push(format!("{name} no memory")),
            status => bad.push(format!("{name} ends with {status}")),
        }
    }
    if bad.is_empty() { Outcome::Survived } else { Outcome::Fails(bad.join(", ")) }
}

fn from_the_start(call: c_long) -> Outcome {
    // One more argument: this is the process with the filter.
    if std::env::args().nth(3).is_some() {
        return work(2, false, || true);
    }
    let name = std::env::args().nth(2).expect("the program has a name");
    let name = CString::new(name).expect("an argument has no zeros");
    let arguments =
        [c"survive".as_ptr(), c"inside".as_ptr(), name.as_ptr(), c"filtered".as_ptr(), ptr::null()];
    each_error(call, |error| {
        if !refuse(call, error) {
            // SAFETY: ends the child.
            unsafe { libc::_exit(NO_FILTER) };
        }
        // SAFETY: the arguments are C strings, the last is null; the child's output is discarded.
        unsafe {
            libc::close(1);
            libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
            libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
        }
    })
}

fn while_running(call: c_long, null_allowed: bool) -> Outcome {
    each_error(call, |error| {
        work(2, null_allowed, || refuse(call, error));
    })
}

static READY: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
static NULLS: AtomicUsize = AtomicUsize::new(0);

fn wait_until(place: &AtomicUsize, value: usize) {
    while place.load(Ordering::Acquire) < value {
        // SAFETY: takes no pointers.
        unsafe { libc::sched_yield() };
    }
}

/// Threads started before `refuse` is called allocate and free all kinds of blocks afterwards.
/// Waits without locks, since their system calls may be refused, and ends the process.
fn work(threads: usize, null_allowed: bool, refuse: impl FnOnce() -> bool) -> Outcome {
    extern "C" fn thread(_: *mut c_void) -> *mut c_void {
        drop(Blocks::fill(100, 100));
        wait_until(&READY, 1);
        requests(1);
        DONE.fetch_add(1, Ordering::Release);
        ptr::null_mut()
    }
    for _ in 0..threads {
        start(thread).expect("a thread starts");
    }
    let early = Blocks::fill(3, 40 << 20);
    let status = if refuse() {
        READY.store(1, Ordering::Release);
        requests(2);
        drop(early);
        trim();
        requests(3);
        wait_until(&DONE, threads);
        match NULLS.load(Ordering::Relaxed) {
            0 => 0,
            _ if null_allowed => 0,
            _ => NO_MEMORY,
        }
    } else {
        NO_FILTER
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) };
}

/// Allocates, resizes and frees blocks of all sizes; counts failed requests.
fn requests(seed: u64) {
    let note = |there: bool| {
        if !there {
            NULLS.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut random = Random(seed);
    for _ in 0..20 {
        let mut blocks = Blocks::new();
        for _ in 0..2000 {
            note(blocks.push(16 + random.below(3000)));
        }
        for size in [20_000, 100_000, 600_000, 1 << 20, 3 << 20, 5 << 20] {
            note(blocks.push(size + random.below(size)));
        }
    }
    // SAFETY: every access is within a live block, and each is freed once.
    unsafe {
        for size in [1 << 20, 34 << 20, 70 << 20] {
            let block = libc::malloc(size).cast::<u8>();
            note(!block.is_null());
            if block.is_null() {
                continue;
            }
            block.write_volatile(7);
            block.add(size - 1).write_volatile(8);
            let mut last = block;
            for larger in [size + 5000, size * 3 / 2, size * 2, size / 3] {
                let moved = libc::realloc(last.cast(), larger).cast::<u8>();
                note(!moved.is_null());
                if !moved.is_null() {
                    last = moved;
                }
            }
            assert_eq!(last.read(), 7, "the contents are moved along");
            libc::free(last.cast());
            let zeros = libc::calloc(1, size).cast::<u8>();
            note(!zeros.is_null());
            if !zeros.is_null() {
                let zero = (0..size).step_by(1021).all(|index| zeros.add(index).read() == 0);
                assert!(zero, "the block is zeros");
            }
            libc::free(zeros.cast());
        }
    }
}
