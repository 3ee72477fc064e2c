//! A fork at any moment. The conditions are those of glibc's tests of its own `malloc`:
//! tst-malloc-fork-deadlock, tst-mallocfork and tst-mallocfork2.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use crate::ALLOCATOR;
use crate::child::fork::{in_child, status_of_child};
use crate::child::{LIMIT, passes};
use crate::random::Random;

/// Allocates and frees blocks of many sizes, and checks their contents.
fn use_memory(mark: u8) {
    let blocks: Vec<Vec<u8>> = (0..120).map(|size| vec![mark; size * size]).collect();
    assert!(blocks.iter().flatten().all(|&byte| byte == mark));
}

/// A test whose child failed passed, or did not end if the child had a second thread.
#[test]
fn a_child_that_panics_is_noticed() {
    passes("fork::panics");
}

#[test]
#[ignore = "in a process of its own"]
fn panics() {
    let status = status_of_child(|| {
        thread::spawn(thread::park);
        panic!("on purpose");
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 101, "{status:#x}");
}

#[test]
fn forking_while_stdio_is_in_use() {
    passes("fork::stdio");
}

unsafe extern "C" {
    fn flockfile(stream: *mut libc::FILE);
    fn funlockfile(stream: *mut libc::FILE);
}

/// Threads hold stdio locks while they allocate; fork takes these locks after our handlers ran.
#[test]
#[ignore = "in a process of its own"]
fn stdio() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let flush = || {
        while !STOP.load(Relaxed) {
            // SAFETY: null means all streams.
            unsafe { libc::fflush(ptr::null_mut()) };
        }
    };
    let print = || {
        // SAFETY: the stream is open; each lock is followed by an unlock.
        unsafe {
            let stream = libc::fopen(c"/dev/null".as_ptr(), c"we".as_ptr());
            assert!(!stream.is_null());
            while !STOP.load(Relaxed) {
                flockfile(stream);
                // If the library were preloaded, stdio itself would allocate a buffer or a line
                // here.
                drop(black_box(Vec::<u8>::with_capacity(50_000)));
                funlockfile(stream);
            }
        }
    };
    let threads = [thread::spawn(flush), thread::spawn(print), thread::spawn(print)];
    // Stdio's locks are unfair: on a busy machine a fork may take a second.
    let start = Instant::now();
    for _ in 0..200 {
        in_child(|| use_memory(3));
        if start.elapsed() > LIMIT / 10 {
            break;
        }
    }
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    use_memory(5);
}

/// Whether the handlers below allocate.
static HANDLERS: AtomicBool = AtomicBool::new(false);
/// Blocks that they allocated.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler() {
    if HANDLERS.load(Relaxed) {
        use_memory(7);
        HANDLED.fetch_add(1, Relaxed);
    }
}

extern "C" fn register() {
    // SAFETY: the handler may be called at any time.
    unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
}

/// Called before `main`, hence before this program's first allocation.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

#[test]
fn fork_handlers_registered_first_may_allocate() {
    passes("fork::handlers");
}

#[test]
#[ignore = "in a process of its own"]
fn handlers() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let allocate = || {
        while !STOP.load(Relaxed) {
            use_memory(9);
        }
    };
    let threads = [thread::spawn(allocate), thread::spawn(allocate)];
    HANDLERS.store(true, Relaxed);
    for _ in 0..50 {
        in_child(|| use_memory(3));
    }
    HANDLERS.store(false, Relaxed);
    assert_eq!(HANDLED.load(Relaxed), 100, "before each fork, and after it in the parent");
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// Forks made by the signal handler, and those whose child did not exit normally.
static FORKED: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);

/// The thread that allocates, and forks in its signal handlers.
static ALLOCATING: AtomicI32 = AtomicI32::new(0);

fn this_thread() -> i32 {
    // SAFETY: a plain query.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Forks in a signal handler; the child ends at once, after some allocations if `ALLOCATES`.
extern "C" fn fork_now<const ALLOCATES: bool>(signal: c_int) {
    // SAFETY: as glibc's tests do; `errno` is restored for the interrupted code.
    unsafe {
        // The thread waiting for this test may be in the C library's `malloc`, whose lock a fork
        // takes.
        if this_thread() != ALLOCATING.load(Relaxed) {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), ALLOCATING.load(Relaxed), signal);
            return;
        }
        let errno = *libc::__errno_location();
        let child = libc::fork();
        if child == 0 {
            if ALLOCATES {
                for size in 1..200_usize {
                    let block = ALLOCATOR.allocate(black_box(size * 70));
                    if block.is_null() {
                        libc::_exit(1);
                    }
                    ALLOCATOR.free(block);
                }
            }
            libc::_exit(0);
        }
        let mut status = 0;
        while libc::waitpid(child, &mut status, 0) < 0 {}
        FORKED.fetch_add(1, Relaxed);
        FAILED.fetch_add(u32::from(status != 0), Relaxed);
        *libc::__errno_location() = errno;
    }
}

/// Installs `handler` for the signal in this thread.
fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    ALLOCATING.store(this_thread(), Relaxed);
    // SAFETY: the handler is one for this kind of signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const c_void as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}

/// Runs `action` with this signal blocked: forking code holds a lock of the C library, on which a
/// handler that interrupts it and forks would deadlock.
fn with_signal_blocked<R>(signal: c_int, action: impl FnOnce() -> R) -> R {
    // SAFETY: the sets are valid; the thread's mask is restored at the end.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut blocked);
        libc::sigaddset(&mut blocked, signal);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut before), 0);
        let done = action();
        assert_eq!(libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()), 0);
        done
    }
}

/// Uses memory until the handler has forked this many times, mostly while a heap's lock is held.
fn allocate_until_forked(forks: u32) {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut random = Random(1);
    while FORKED.load(Relaxed) < forks {
        kept.push(vec![1; 20_000 + random.below(90_000)]);
        if kept.len() > 40 {
            kept.swap_remove(random.below(40));
        }
    }
    assert_eq!(FAILED.load(Relaxed), 0, "every child ended by itself");
}

#[test]
fn forking_in_a_handler_that_interrupted_an_allocation() {
    passes("fork::in_a_handler");
}

#[test]
#[ignore = "in a process of its own"]
fn in_a_handler() {
    handle(libc::SIGPROF, fork_now::<false>);
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 1000 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: 1000 },
    };
    // SAFETY: the timer is valid for reads.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, ptr::null_mut()) }, 0);
    allocate_until_forked(300);
}

#[test]
fn forking_in_a_handler_of_a_signal_from_another_process() {
    passes("fork::signalled");
}

/// As tst-mallocfork2: another process sends signals as fast as they are handled.
#[test]
#[ignore = "in a process of its own"]
fn signalled() {
    handle(libc::SIGUSR1, fork_now::<true>);
    // SAFETY: the child sends signals to this process only, and is killed at the end.
    unsafe {
        let parent = libc::getpid();
        let sender = with_signal_blocked(libc::SIGUSR1, || libc::fork());
        if sender == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            while libc::getppid() == parent {
                libc::kill(parent, libc::SIGUSR1);
                libc::usleep(500);
            }
            libc::_exit(0);
        }
        allocate_until_forked(300);
        libc::kill(sender, libc::SIGKILL);
    }
}

#[test]
fn the_child_of_a_fork_gives_back_its_own_memory() {
    passes("fork::purging");
}

/// Memory that a forked child gives back is still there in its parent.
#[test]
#[ignore = "in a process of its own"]
fn purging() {
    const LEN: usize = 30_000;
    let mut blocks: Vec<Vec<u8>> = (0..2000).map(|_| black_box(vec![1; LEN])).collect();
    let mut number = 0..;
    blocks.retain(|_| number.next().is_some_and(|number: u32| number.is_multiple_of(4)));
    let is_whole = || blocks.iter().flatten().all(|&byte| byte == 1);
    let purge = || {
        ALLOCATOR.purge();
        // Memory given back earlier counts as well: if this takes a second, some was.
        let purged = ALLOCATOR.stats().purged;
        assert!(purged > 1500 * LEN as u64 / 2 && is_whole(), "{purged} bytes went back");
    };
    in_child(purge);
    assert!(is_whole());
    purge();
}

#[test]
fn the_child_of_a_fork_under_load_has_whole_heaps() {
    passes("fork::whole");
}

/// Memory that the child frees can be allocated again: no heap is lost.
#[test]
#[ignore = "in a process of its own"]
fn whole() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let allocate = || {
        while !STOP.load(Relaxed) {
            use_memory(9);
        }
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(allocate)).collect();
    let kept: Vec<Vec<u8>> = (0..200).map(|_| vec![1; 40_000]).collect();
    for _ in 0..20 {
        let mut kept = kept.clone();
        in_child(move || {
            let heaps = ALLOCATOR.stats().heaps;
            for _ in 0..20 {
                kept.clear();
                kept.extend((0..200).map(|_| vec![2; 40_000]));
            }
            let stats = ALLOCATOR.stats();
            assert!(stats.heaps == heaps && stats.live < stats.held, "{heaps} heaps, now {stats}");
            assert!(stats.held < 60 << 20, "{stats}");
        });
    }
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}
