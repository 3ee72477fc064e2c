//! A sandbox refuses a system call, with any error: the allocator continues. It returns null for
//! memory that it cannot get, and keeps memory that it cannot give back; no refusal changes which
//! addresses are blocks.

use std::ffi::c_long;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::ALLOCATOR;
use crate::child::sandbox::{self, Refusal};
use crate::child::{Ended, passes, run};

/// When the refusals of the call begin.
#[derive(Clone, Copy, PartialEq)]
enum When {
    /// Before the program is executed.
    Start,
    /// After all kinds of requests were served once: the program could not be loaded without the
    /// call.
    Later,
}

/// Environment variable for the child: the number of the call, the error, and whether it installs
/// the filter itself.
const REFUSED: &str = "PAGEWISE_TEST_REFUSED";

const ERRORS: [i32; 6] =
    [libc::EPERM, libc::ENOSYS, libc::EINTR, libc::EAGAIN, libc::ENOMEM, libc::EINVAL];

/// Runs the work with this call refused, once with each error.
fn survives(call: c_long, when: When) {
    for error in ERRORS {
        let Ended { code, signal, out, err } = run("refused_calls::work", |command| {
            command.env(REFUSED, format!("{call} {error} {}", u8::from(when == When::Later)));
            if when == When::Start {
                let install = move || {
                    // The call that gives back several runs at once is refused with it.
                    if call == libc::SYS_madvise {
                        let call = libc::SYS_process_madvise;
                        sandbox::install(Refusal { call, error, below: None })?;
                    }
                    sandbox::install(Refusal { call, error, below: None })
                };
                // SAFETY: installing the filter allocates nothing.
                unsafe { command.pre_exec(install) };
            }
        });
        let done = code == Some(0) && out.contains("all done");
        assert!(done, "call {call}, error {error}: code {code:?}, signal {signal:?}\n{out}{err}");
    }
}

macro_rules! refused {
    ($($name:ident: $call:ident, $when:ident;)*) => {$(
        #[test]
        fn $name() {
            survives(libc::$call, When::$when);
        }
    )*};
}

refused! {
    mincore: SYS_mincore, Start;
    madvise: SYS_madvise, Start;
    process_madvise: SYS_process_madvise, Start;
    process_madvise_once_it_was_used: SYS_process_madvise, Later;
    mremap: SYS_mremap, Start;
    sched_getaffinity: SYS_sched_getaffinity, Start;
    prlimit: SYS_prlimit64, Start;
    clock_gettime: SYS_clock_gettime, Start;
    nanosleep: SYS_clock_nanosleep, Start;
    membarrier: SYS_membarrier, Start;
    membarrier_once_threads_rely_on_it: SYS_membarrier, Later;
    mmap: SYS_mmap, Later;
    mprotect: SYS_mprotect, Later;
    munmap: SYS_munmap, Later;
    futex: SYS_futex, Later;
}

/// The calls that docs/global.md lists for a sandbox that kills, without `getcpu`, and those that
/// end the test. The page once lacked the three from `clock_gettime` on, and `clock_nanosleep` in
/// `purge`.
const KNOWN: [c_long; 20] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_membarrier,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigprocmask,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_write,
    libc::SYS_exit_group,
];

#[test]
fn only_listed_calls_are_made() {
    for (variable, value) in
        [("PURGE_DELAY", "1000"), ("PURGE_DELAY", "1"), ("HARDENED", "1"), ("HUGE_PAGES", "1")]
    {
        let Ended { code, signal, out, err } = run("refused_calls::known", |command| {
            command.env(format!("PAGEWISE_{variable}"), value);
        });
        let done = code == Some(0) && out.contains("all done");
        assert!(done, "{variable}={value}: code {code:?}, signal {signal:?}\n{out}{err}");
    }
}

#[test]
#[ignore = "in a process of its own, which is killed for other calls"]
fn known() {
    static KILLING: AtomicBool = AtomicBool::new(false);
    static READY: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    for mark in 0..3 {
        thread::spawn(move || {
            all_kinds(false, mark);
            READY.fetch_add(1, SeqCst);
            wait_until(|| KILLING.load(SeqCst));
            (0..20).for_each(|_| all_kinds(false, mark));
            ENDED.fetch_add(1, SeqCst);
            wait_until(|| false);
        });
    }
    wait_until(|| READY.load(SeqCst) == 3);
    sandbox::allow_only(&KNOWN).expect("the filter is installed");
    KILLING.store(true, SeqCst);
    (0..20).for_each(|_| all_kinds(false, 4));
    ALLOCATOR.maintain();
    ALLOCATOR.purge();
    assert!(ALLOCATOR.stats().heaps > 0);
    wait_until(|| ENDED.load(SeqCst) == 3);
    print_done_and_exit();
}

/// A purge once read from the system's files how huge pages are set, long after the start: a
/// sandbox that forbids opening files killed the process.
#[test]
fn no_file_is_opened_after_the_start() {
    passes("refused_calls::without_files");
}

#[test]
#[ignore = "in a process of its own, which is killed for opening a file"]
fn without_files() {
    const LEN: usize = 100 << 10;
    drop(black_box(vec![1_u8; 100]));
    sandbox::install(Refusal { call: libc::SYS_openat, error: 0, below: None })
        .expect("the filter is installed");
    let mut blocks: Vec<_> = (0..400).map(|_| black_box(vec![1_u8; LEN])).collect();
    let mut number = 0..;
    blocks.retain(|_| number.next().is_some_and(|number: u32| number.is_multiple_of(16)));
    ALLOCATOR.purge();
    assert!(blocks.iter().all(|block| block.len() == LEN));
}

#[test]
#[ignore = "in a process of its own, where a call is refused"]
fn work() {
    let refused = std::env::var(REFUSED).expect("it is set");
    let mut numbers = refused.split(' ').map(|number| number.parse::<i32>().expect("a number"));
    let mut number = || numbers.next().expect("three numbers");
    let (call, error, later) = (c_long::from(number()), number(), number() == 1);
    let may_fail = [libc::SYS_mmap, libc::SYS_mprotect].contains(&call);
    all_kinds(false, 1);
    // The threads are started first, since starting one needs many calls, and are not joined: the C
    // library aborts where it cannot wait.
    static REFUSING: AtomicBool = AtomicBool::new(false);
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    for mark in 0..3 {
        thread::spawn(move || {
            all_kinds(false, mark);
            STARTED.fetch_add(1, SeqCst);
            wait_until(|| REFUSING.load(SeqCst));
            all_kinds(may_fail, mark);
            ENDED.fetch_add(1, SeqCst);
        });
    }
    wait_until(|| STARTED.load(SeqCst) == 3);
    if later {
        sandbox::install(Refusal { call, error, below: None }).expect("the filter is installed");
    }
    REFUSING.store(true, SeqCst);
    for mark in 2..4 {
        all_kinds(may_fail, mark);
    }
    wait_until(|| ENDED.load(SeqCst) == 3);
    ALLOCATOR.purge();
    let mut classes = 0;
    ALLOCATOR.for_each_class(|_| classes += 1);
    let stats = ALLOCATOR.stats();
    // Kept mappings are given back without `madvise`.
    assert!(call != libc::SYS_madvise || stats.purged == 0, "no heap gave memory back");
    let is_alone = call == libc::SYS_process_madvise;
    assert!(!is_alone || stats.purged > 0, "what goes back does so a run at a time");
    assert!(classes > 0 && stats.mappings == 0 && stats.live < 1 << 20, "{stats}");
    // Do not end like a usual test: with a refused call, the standard or the C library may not get
    // that far.
    print_done_and_exit();
}

/// Ends the process with two system calls only.
fn print_done_and_exit() -> ! {
    let done = b"all done\n";
    // SAFETY: the bytes are valid for reads.
    unsafe {
        libc::write(1, done.as_ptr().cast(), done.len());
        libc::_exit(0);
    }
}

/// Allocates blocks of all kinds, resizes and frees them.
fn all_kinds(may_fail: bool, mark: u8) {
    for size in [24, 600, 9000, 40_000, 900_000, 3 << 20, 40 << 20] {
        let mut blocks = [std::ptr::null_mut::<u8>(); 30];
        let count = if size < 1 << 20 { 30 } else { 2 };
        let blocks = &mut blocks[..count];
        // SAFETY: blocks are written to within their size, and freed once.
        unsafe {
            for (index, block) in blocks.iter_mut().enumerate() {
                *block = match index % 2 {
                    0 => ALLOCATOR.allocate(size),
                    _ => ALLOCATOR.allocate_zeroed(size),
                };
                assert!(may_fail || !block.is_null(), "{size} bytes");
                if !block.is_null() {
                    assert!(
                        index % 2 == 0 || (block.read() == 0 && block.add(size - 1).read() == 0)
                    );
                    block.write(mark);
                    block.add(size / 4).write(mark);
                }
            }
            for block in blocks {
                for new_size in [size + size / 2, size * 2, size / 3] {
                    if !block.is_null() {
                        let moved = ALLOCATOR.reallocate(*block, new_size);
                        assert!(may_fail || !moved.is_null(), "{size} to {new_size} bytes");
                        *block = if moved.is_null() { *block } else { moved };
                        assert!(block.read() == mark && block.add(size / 4).read() == mark);
                    }
                }
                ALLOCATOR.free(black_box(*block));
            }
        }
    }
}

/// Waits without any system call that may be refused.
fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}
