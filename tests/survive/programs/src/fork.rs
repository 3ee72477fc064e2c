//! Forks: lines 1 to 3. The conditions are those of glibc's tests malloc-fork-deadlock, mallocfork
//! and mallocfork2; the code is not theirs.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::blocks::{Blocks, poke};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::{in_child, wait_for};

/// Threads fork, read lines into buffers that `getline` allocates under its stream's lock, and
/// flush all streams, which takes the list's lock and then each stream's. glibc's `fork` takes the
/// list's lock after the prepare handlers have run.
pub(crate) fn stdio() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    static FAILED: AtomicBool = AtomicBool::new(false);
    let until_stop = |mut action: Box<dyn FnMut()>| {
        while !STOP.load(Ordering::Relaxed) {
            action();
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                until_stop(Box::new(|| {
                    if in_child(|| ()).is_err() {
                        FAILED.store(true, Ordering::Relaxed);
                    }
                }));
            });
        }
        for length in [50_000, 50_000, 300_000, 300, 300, 1_500_000, 6000, 20_000] {
            scope.spawn(move || {
                // SAFETY: the stream is valid until it is closed, the line until it is freed.
                unsafe {
                    let stream = libc::tmpfile();
                    assert!(!stream.is_null(), "there is a temporary file");
                    (0..length).for_each(|_| assert!(libc::fputc(c_int_of(b'x'), stream) >= 0));
                    libc::fputc(c_int_of(b'\n'), stream);
                    until_stop(Box::new(move || {
                        libc::rewind(stream);
                        let (mut line, mut capacity) = (ptr::null_mut(), 0);
                        let read = libc::getline(&mut line, &mut capacity, stream);
                        assert_eq!(usize::try_from(read), Ok(length + 1));
                        libc::free(line.cast());
                    }));
                    libc::fclose(stream);
                }
            });
        }
        scope.spawn(|| {
            until_stop(Box::new(|| {
                // SAFETY: null means all streams.
                unsafe { libc::fflush(ptr::null_mut()) };
            }));
        });
        thread::sleep(Duration::from_millis(1500));
        STOP.store(true, Ordering::Relaxed);
    });
    if FAILED.load(Ordering::Relaxed) {
        return Outcome::Fails("a child fails".to_owned());
    }
    Outcome::Survived
}

fn c_int_of(byte: u8) -> i32 {
    byte.into()
}

/// Fork handlers registered before the allocator's own allocate, before and after the fork, in the
/// parent and in the child, while other threads allocate (see [`crate::early`]).
pub(crate) fn handler() -> Outcome {
    while_others_allocate(|| {
        for _ in 0..200 {
            in_child(|| poke(2))?;
        }
        Ok(())
    })
}

/// A threaded program forks; the child frees and allocates at once and starts threads.
pub(crate) fn child() -> Outcome {
    while_others_allocate(|| {
        for _ in 0..200 {
            let mut blocks = Blocks::new();
            for size in 16..400 {
                blocks.push(size * 7);
            }
            in_child(|| {
                drop(blocks);
                poke(2);
                thread::spawn(|| poke(2)).join().expect("the child's thread ends");
            })?;
        }
        Ok(())
    })
}

/// Runs `action` while three threads allocate blocks of all sizes. It begins after all threads have
/// started: a starting thread allocates under a lock of the standard library (the table of stacks).
/// A child forked at that moment finds the lock held forever, and could start no thread, under any
/// malloc library.
fn while_others_allocate(action: impl FnOnce() -> Result<(), String>) -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    let begun = Barrier::new(4);
    let result = thread::scope(|scope| {
        for seed in 1..4 {
            let begun = &begun;
            scope.spawn(move || {
                begun.wait();
                let mut random = Random(seed);
                while !STOP.load(Ordering::Relaxed) {
                    let mut blocks = Blocks::new();
                    for _ in 0..300 {
                        let most = if random.below(100) == 0 { 1 << 20 } else { 4000 };
                        blocks.push(16 + random.below(most));
                    }
                }
            });
        }
        begun.wait();
        let result = action();
        STOP.store(true, Ordering::Relaxed);
        result
    });
    match result {
        Ok(()) => Outcome::Survived,
        Err(what) => Outcome::Fails(what),
    }
}

/// Signals that arrived while the program was in `malloc` or `free`.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static IN_MALLOC: AtomicBool = AtomicBool::new(false);
static SENDER: AtomicI32 = AtomicI32::new(0);

/// Forks a child that only exits.
extern "C" fn forks(_: i32) {
    if !IN_MALLOC.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the child ends at once; the sender is a child of ours that has not been waited for.
    unsafe {
        libc::kill(SENDER.load(Ordering::Relaxed), libc::SIGSTOP);
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        if child < 0 || wait_for(child) != 0 {
            libc::abort();
        }
    }
    TAKEN.fetch_add(1, Ordering::Relaxed);
}

/// A signal interrupts `malloc` or `free` in a single-threaded program, and its handler forks. The
/// sender is stopped meanwhile, so that the program makes progress between signals.
pub(crate) fn signal_handler() -> Outcome {
    // SAFETY: the handler has the right type; the sender only sends signals; blocks are freed once.
    unsafe {
        libc::signal(libc::SIGUSR1, forks as extern "C" fn(i32) as libc::sighandler_t);
        let parent = libc::getpid();
        let sender = libc::fork();
        if sender == 0 {
            loop {
                libc::kill(parent, libc::SIGUSR1);
                libc::sched_yield();
            }
        }
        SENDER.store(sender, Ordering::Relaxed);
        let mut random = Random(1);
        let mut objects = [ptr::null_mut(); 1009];
        let mut none = false;
        while TAKEN.load(Ordering::Relaxed) < 200 && !none {
            let object = &mut objects[random.below(1009)];
            let size = 1 + random.below(70_000);
            libc::kill(sender, libc::SIGCONT);
            IN_MALLOC.store(true, Ordering::Relaxed);
            libc::free(*object);
            *object = libc::malloc(size);
            IN_MALLOC.store(false, Ordering::Relaxed);
            none = (*object).is_null();
        }
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        libc::kill(sender, libc::SIGKILL);
        libc::kill(sender, libc::SIGCONT);
        wait_for(sender);
        objects.into_iter().for_each(|object| libc::free(object));
        if none {
            return Outcome::Fails("no memory".to_owned());
        }
    }
    Outcome::Survived
}

/// A handler that interrupted the program forks a child, which runs the program's exit handlers.
pub(crate) fn signal_exit() -> Outcome {
    extern "C" fn forks_and_exits(_: i32) {
        // SAFETY: the child ends with `exit`; its exit handlers do not need the interrupted code's
        // state.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::exit(0);
            }
            if child < 0 || wait_for(child) != 0 {
                libc::abort();
            }
        }
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
    let _ = std::io::stdout().flush();
    poke(1);
    // SAFETY: the handler has the right type; the sender only sends signals.
    unsafe {
        libc::signal(libc::SIGALRM, forks_and_exits as extern "C" fn(i32) as libc::sighandler_t);
        let parent = libc::getpid();
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        for round in 1..=100 {
            // If a signal interrupted this fork, its handler would wait for a lock of the C
            // library.
            libc::sigprocmask(libc::SIG_BLOCK, &alarm, ptr::null_mut());
            let sender = libc::fork();
            if sender == 0 {
                libc::kill(parent, libc::SIGALRM);
                libc::exit(0);
            }
            libc::sigprocmask(libc::SIG_UNBLOCK, &alarm, ptr::null_mut());
            if wait_for(sender) != 0 {
                return Outcome::Fails("a child fails".to_owned());
            }
            if TAKEN.load(Ordering::Relaxed) != round {
                return Outcome::Fails("a signal is lost".to_owned());
            }
        }
    }
    Outcome::Survived
}

/// Threads allocate large blocks, so that the allocator's locks are mostly taken, and one makes
/// children of which the C library does not know.
pub(crate) fn cloned() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    let replace = |seed: u64, rounds: usize| {
        let mut random = Random(seed);
        let mut blocks: Vec<Vec<u8>> = (0..100).map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            let most = [1500, 90_000, 900_000][random.below(3)];
            blocks[random.below(100)] = vec![1; 1 + random.below(most)];
        }
    };
    thread::scope(|scope| {
        for seed in 1..5 {
            scope.spawn(move || {
                while !STOP.load(Ordering::Relaxed) {
                    replace(seed, 100);
                }
            });
        }
        for _ in 0..100 {
            // SAFETY: without flags the call is a fork; the child ends with `_exit`.
            unsafe {
                let child = libc::syscall(
                    libc::SYS_clone,
                    libc::SIGCHLD,
                    0_usize,
                    0_usize,
                    0_usize,
                    0_usize,
                );
                if child == 0 {
                    replace(9, 500);
                    libc::_exit(0);
                }
                assert!(child > 0, "a child is made");
                let mut status = 0;
                while libc::waitpid(child as libc::pid_t, &mut status, 0) < 0 {}
                assert_eq!(status, 0, "it ends by itself");
            }
        }
        STOP.store(true, Ordering::Relaxed);
    });
    Outcome::Survived
}

/// Makes children that share this process's memory and its thread-local variables, as one of
/// `vfork` does, and give back so much that the allocator's background thread is wanted. It must
/// not become theirs: a child does not end before its threads.
pub(crate) fn sharing_memory() -> Outcome {
    extern "C" fn child(_: *mut c_void) -> c_int {
        drop(Blocks::fill(60_000, 1000));
        0
    }
    const STACK: usize = 1 << 20;
    let mut stack = vec![0_u8; STACK];
    for _ in 0..5 {
        let flags = libc::CLONE_VM | libc::SIGCHLD;
        // SAFETY: the end of the stack is aligned as that of a block is; this thread, whose
        // variables the child uses, only waits until the child has ended.
        let status = unsafe {
            let top = stack.as_mut_ptr().add(STACK).cast();
            let child = libc::clone(child, top, flags, ptr::null_mut());
            assert!(child > 0, "a child is made");
            wait_for(child)
        };
        if status != 0 {
            return Outcome::Fails("a child fails".to_owned());
        }
    }
    drop(Blocks::fill(60_000, 1000));
    Outcome::Survived
}
