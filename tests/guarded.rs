//! Guarded blocks: an access to a guard page stops the process at that instruction, with a report
//! of the block's origin.

#![cfg(all(feature = "guarded", any(target_os = "linux", windows), not(miri)))]

#[path = "child/mod.rs"]
mod child;

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
#[cfg(unix)]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use child::memory::{is_closed, os_page};
use child::{Ended, passes_when, run};
use pagewise::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Runs a misuse in its own process with every block guarded; its end must satisfy `so`, and its
/// report must have these lines.
fn stops(test: &str, so: fn(&Ended) -> bool, says: &[&str]) {
    let ended = run(test, |command| {
        command.env("PAGEWISE_GUARDED", "1");
    });
    let Ended { code, signal, out, err } = &ended;
    assert!(so(&ended), "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
    for line in says {
        assert!(err.contains(line), "{test} does not say {line:?}: {err}");
    }
    // Stacks name this program's file; in a statically linked program the file is unknown.
    if cfg!(target_feature = "crt-static") {
        assert!(
            err.lines().filter(|line| line.starts_with("pagewise:     0x")).count() > 3,
            "{err}"
        );
        return;
    }
    let program = std::env::current_exe().expect("this program has a path");
    let name = program.file_name().expect("it has a name").to_string_lossy().into_owned();
    assert!(err.lines().filter(|line| line.contains(&format!("{name}+0x"))).count() > 3, "{err}");
}

macro_rules! stops {
    ($($test:ident ($so:ident: $($says:literal),*) $alone:ident $body:block)*) => {$(
        #[test]
        fn $test() {
            stops(stringify!($alone), Ended::$so, &[$($says),*]);
        }

        #[test]
        #[ignore = "in a process of its own, which it stops"]
        fn $alone() $body
    )*};
}

const LAYOUT: Layout = Layout::new::<[u64; 6]>();

/// Returns a guarded block of this layout. (At most every second block is guarded.)
fn guarded(layout: Layout) -> *mut u8 {
    // SAFETY: the size is not 0.
    let mut blocks = (0..4).map(|_| unsafe { ALLOCATOR.alloc(layout) });
    blocks.find(|&block| is_guarded(block, layout.size())).expect("one of four is guarded")
}

/// Returns whether a block lies at the end of a page that is followed by an inaccessible one.
fn is_guarded(block: *mut u8, size: usize) -> bool {
    let end = (block.addr() + size).next_multiple_of(16);
    end.is_multiple_of(os_page()) && is_closed(block.with_addr(end))
}

fn block() -> *mut u8 {
    guarded(LAYOUT)
}

stops! {
    a_read_beyond_the_end(touched_a_guard: "used beyond the end of a block", "block is 48 bytes", "misused by", "allocated by") beyond {
        // SAFETY: this is the misuse to be detected.
        unsafe { black_box(block().add(48).read_volatile()) };
    }

    a_read_after_the_free(touched_a_guard: "used after it was freed", "misused by", "freed by", "allocated by") after {
        let block = block();
        // SAFETY: the second call is the misuse to be detected.
        unsafe {
            ALLOCATOR.dealloc(block, LAYOUT);
            black_box(block.add(8).read_volatile());
        }
    }

    a_write_before_the_start(touched_a_guard: "used before the start of a block") before {
        let block = block();
        // SAFETY: this is the misuse to be detected: a write to the page before the block's.
        unsafe { block.sub(block.addr() % os_page() + 1).write_volatile(1) };
    }

    a_second_free(was_aborted: "a block was freed twice", "freed by", "allocated by") twice {
        let block = block();
        // SAFETY: the second call is the misuse to be detected.
        unsafe {
            ALLOCATOR.dealloc(block, LAYOUT);
            ALLOCATOR.dealloc(block, LAYOUT);
        }
    }

    a_free_within(was_aborted: "that is not a block in use", "allocated by") within {
        // SAFETY: this is the misuse to be detected.
        unsafe { ALLOCATOR.free(block().add(16)) };
    }

    a_byte_beyond_an_odd_size(was_aborted: "written beyond the end of a block", "allocated by") odd {
        let block = guarded(Layout::from_size_align(41, 1).expect("a valid layout"));
        // SAFETY: this is the misuse to be detected.
        unsafe {
            block.add(41).write(0);
            ALLOCATOR.free(block);
        }
    }
}

/// A correct program works with all its blocks guarded, as far as there are slots.
#[test]
fn a_correct_program_runs_with_all_blocks_guarded() {
    for (guarded, hardened) in [("1", "0"), ("1", "1"), ("7", "0"), ("50", "1")] {
        passes_when("works", |command| {
            command.env("PAGEWISE_GUARDED", guarded).env("PAGEWISE_HARDENED", hardened);
        });
    }
}

#[test]
#[ignore = "in a process of its own, with guarded blocks"]
fn works() {
    let threads: Vec<_> = (0..3_usize)
        .map(|seed| {
            std::thread::spawn(move || {
                let mut kept: Vec<Vec<u8>> = Vec::new();
                for round in 0..20_000_usize {
                    let size = (round * 7919 + seed * 31) % 3000;
                    let mut block = vec![round as u8; size];
                    block.push(1);
                    block.truncate(size);
                    kept.push(block);
                    if kept.len() > 500 {
                        let block = kept.swap_remove(round * 31 % 500);
                        assert!(block.iter().all(|&byte| byte == block[0]));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// A slot used to keep its old contents if its block was freed at a limit of the address space.
#[test]
#[cfg(target_os = "linux")]
fn a_zeroed_block_is_zero_after_a_free_at_the_limit() {
    passes_when("zeroed", |command| {
        command.env("PAGEWISE_GUARDED", "1");
    });
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "in a process of its own, whose address space is limited"]
fn zeroed() {
    let limit = |bytes: Option<libc::rlim_t>| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the calls read and write the structures that they are given.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &raw mut limit), 0);
            limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
        }
    };
    let blocks: [*mut u8; 8] = std::array::from_fn(|_| block());
    // SAFETY: the blocks are in use, and freed once.
    unsafe {
        blocks.iter().for_each(|block| block.write_bytes(0xff, LAYOUT.size()));
        limit(Some(1 << 20));
        blocks.iter().for_each(|&block| ALLOCATOR.dealloc(block, LAYOUT));
        limit(None);
        for _ in 0..1000 {
            let block = ALLOCATOR.alloc_zeroed(LAYOUT);
            assert_eq!(block.cast::<[u64; 6]>().read(), [0; 6]);
            ALLOCATOR.dealloc(block, LAYOUT);
        }
    }
}

/// The rate of guarded blocks is as set: of 100,000 blocks about one in 100, and none if unset.
#[test]
fn the_rate_of_guarded_blocks_matches_the_setting() {
    for (guarded, least, most) in [("100", 700, 1300), ("1000", 50, 160), ("0", 0, 0)] {
        let ended = run("counted", |command| {
            command.env("PAGEWISE_GUARDED", guarded);
        });
        let count = ended.out.lines().find_map(|line| line.strip_prefix("guarded: "));
        let count: usize = count.expect("it says so").parse().expect("a number");
        assert!((least..=most).contains(&count), "one in {guarded}: {count}");
    }
}

#[test]
#[ignore = "in a process of its own, with guarded blocks"]
fn counted() {
    let mut guarded = 0;
    for _ in 0..100_000 {
        // SAFETY: the size is not 0.
        let block = unsafe { ALLOCATOR.alloc(LAYOUT) };
        guarded += usize::from(is_guarded(block, LAYOUT.size()));
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.dealloc(block, LAYOUT) };
    }
    println!("\nguarded: {guarded}");
}

/// Without a stack limit, a process gets low addresses, where heaps might lie.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn blocks_are_guarded_where_the_system_gives_low_addresses() {
    use std::os::unix::process::CommandExt;
    let ended = run("counted", |command| {
        command.env("PAGEWISE_GUARDED", "100");
        // SAFETY: the call allocates nothing; its setting holds for the program that is started.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_COMPAT_LAYOUT as libc::c_ulong);
                Ok(())
            });
        }
    });
    let count = ended.out.lines().find_map(|line| line.strip_prefix("guarded: "));
    let count: usize = count.expect("it says so").parse().expect("a number");
    assert!((700..=1300).contains(&count), "one in 100: {count}");
}

/// Which blocks are guarded is unpredictable: not the first one of every thread.
#[test]
#[cfg(unix)]
fn the_first_block_of_a_thread_is_not_favoured() {
    let ended = run("first_of_threads", |command| {
        command.env("PAGEWISE_GUARDED", "1000");
    });
    let count = ended.out.lines().find_map(|line| line.strip_prefix("guarded: "));
    let count: usize = count.expect("it says so").parse().expect("a number");
    assert!(count < 10, "{count} of 100 first blocks are guarded");
}

#[test]
#[ignore = "in a process of its own, with guarded blocks"]
#[cfg(unix)]
fn first_of_threads() {
    /// Threads that run at the same time: a new thread may get the heap of one that ended.
    const THREADS: usize = 100;
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static GUARDED: AtomicUsize = AtomicUsize::new(0);
    /// Threads of the standard library allocate before they run any code of ours.
    extern "C" fn first(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the size is not 0.
        let block = unsafe { ALLOCATOR.alloc(LAYOUT) };
        GUARDED.fetch_add(usize::from(is_guarded(block, LAYOUT.size())), Relaxed);
        BEGUN.fetch_add(1, Relaxed);
        while BEGUN.load(Relaxed) < THREADS {
            std::thread::yield_now();
        }
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.dealloc(block, LAYOUT) };
        std::ptr::null_mut()
    }
    // SAFETY: the type is a number on some systems, a pointer on others; zero is valid for either.
    let mut threads: [libc::pthread_t; THREADS] = unsafe { std::mem::zeroed() };
    for thread in &mut threads {
        // SAFETY: the function takes nothing.
        let made =
            unsafe { libc::pthread_create(thread, std::ptr::null(), first, std::ptr::null_mut()) };
        assert_eq!(made, 0);
    }
    for thread in threads {
        // SAFETY: each thread is joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, std::ptr::null_mut()) }, 0);
    }
    println!("\nguarded: {}", GUARDED.load(Relaxed));
}
