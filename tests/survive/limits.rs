//! Limits of the address space, set before the allocator starts or by the program itself.

use std::io::Error;
use std::os::unix::process::CommandExt;
use std::ptr;
use std::thread;

use crate::ALLOCATOR;
use crate::child::passes_when;

/// Limits the calling process's address space.
fn limit(bytes: u64) -> Result<(), Error> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is valid for reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[test]
fn a_program_that_limits_itself_continues() {
    passes_when("limits::own", |command| {
        // The C library's own heap would take 64 MiB of address space per thread.
        command.env("MALLOC_ARENA_MAX", "1");
    });
}

/// Threads and their stacks share the memory below the limit.
#[test]
#[ignore = "in a process of its own, which it limits"]
fn own() {
    drop(vec![1u8; 100_000]);
    limit(256 << 20).expect("a limit can be lowered");
    let threads: Vec<_> = (0..8_u8)
        .map(|mark| thread::spawn(move || vec![mark; 5_000_000].iter().all(|&byte| byte == mark)))
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().expect("it ends")));
    let blocks: Vec<Vec<u8>> = (0..1_000_000).map(|_| vec![7; 100]).collect();
    assert!(blocks.iter().all(|block| block[99] == 7));
}

/// glibc's `malloc` takes 112 bytes for a block of 100, so such blocks fill at most 89 % of the
/// memory below a limit. The test requires nine tenths of that.
#[test]
fn small_blocks_use_the_memory_below_a_limit() {
    for kib in [100_000, 300_000, 1_000_000] {
        passes_when("limits::small_blocks", |command| {
            // The C library's own heap would take 64 MiB of address space per thread.
            command.env("MALLOC_ARENA_MAX", "1");
            // SAFETY: only `setrlimit` is called between `fork` and `exec`.
            unsafe { command.pre_exec(move || limit(kib << 10)) };
        });
    }
}

/// Returns the bytes of address space that the limit leaves.
fn addresses_left() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for writes.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) }, 0);
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages: usize = status.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    // SAFETY: a plain query.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
    usize::try_from(limit.rlim_cur).expect("a limit") - pages * page
}

#[test]
#[ignore = "in a process of its own, under a limit"]
fn small_blocks() {
    const SIZE: usize = 100;
    let left = addresses_left();
    let (mut count, mut last) = (0, ptr::null_mut());
    loop {
        let block = ALLOCATOR.allocate(SIZE).cast::<*mut u8>();
        if block.is_null() {
            break;
        }
        // SAFETY: the block has room for a link to the previous one, so that all can be freed.
        unsafe { block.write(last) };
        last = block.cast();
        count += 1;
    }
    while !last.is_null() {
        let block = last;
        // SAFETY: the block holds the link, and is freed once.
        unsafe {
            last = block.cast::<*mut u8>().read();
            ALLOCATOR.free(block);
        }
    }
    let share = 100.0 * (count * SIZE) as f64 / left as f64;
    println!("{share:.1} % of {} MiB", left >> 20);
    assert!(share > 0.9 * 89.0, "{share:.1} % of {left} bytes");
}

/// A program that has mapped all addresses, as emulators do, and unmapped a few of them goes on with
/// those. (Regression: blocks up to 16 KiB were only in heaps, which could not grow.)
#[test]
fn a_program_that_takes_all_addresses_continues() {
    passes_when("limits::taken", |_| ());
}

#[test]
#[ignore = "in a process of its own, which takes all addresses"]
fn taken() {
    const HOLE: usize = 1 << 28;
    let (mut largest, mut len) = (ptr::null_mut::<libc::c_void>(), 1 << 46);
    while len >= 64 << 10 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a mapping at an address of the kernel's choice replaces none.
        let taken = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        match taken == libc::MAP_FAILED {
            true => len /= 2,
            false if largest.is_null() => largest = taken,
            false => {}
        }
    }
    // SAFETY: the addresses are the test's, and this long.
    assert_eq!(unsafe { libc::munmap(largest, HOLE) }, 0);
    for _ in 0..2 {
        let blocks: Vec<Box<[u8]>> = (0..20_000_usize)
            .map(|at| vec![at as u8; 1 + at * at % 3_000].into_boxed_slice())
            .collect();
        assert!(blocks.iter().enumerate().all(|(at, block)| block.iter().all(|&b| b == at as u8)));
    }
}
