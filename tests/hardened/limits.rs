//! Correct programs at the limit of their memory, and how much the quarantine and the addresses of
//! freed mappings take.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use crate::ALLOCATOR;
use crate::child::memory::{is_emulated, limit_addresses};
use crate::child::passes_when;

/// Runs a test in hardened mode with these parts, in a process that may map `limit` bytes.
fn passes_under_limit(test: &str, parts: &str, limit: u64) {
    passes_when(test, |command| {
        command.env("PAGEWISE_HARDENED", parts);
        limit_addresses(command, limit, 4 * limit);
    });
}

/// Allocates blocks of `size` bytes until there is no memory. They are linked through their own
/// memory, the last one first.
fn fill(size: usize, mut last: *mut *mut u8) -> *mut *mut u8 {
    loop {
        let block = ALLOCATOR.allocate(size).cast::<*mut u8>();
        if block.is_null() {
            return last;
        }
        // SAFETY: the block has room for a link.
        unsafe { block.write(last.cast()) };
        last = block;
    }
}

/// A block that shrinks where there is no memory to move it stays. The program then frees it with
/// the size that it asked for. (Regression: the process stopped, for a size that is not the
/// block's.)
#[test]
fn a_block_that_cannot_be_moved_shrinks() {
    for parts in ["1", "checks", "canaries,zero", "guards", "quarantine,zero"] {
        passes_under_limit("limits::shrink", parts, 320 << 20);
    }
}

#[test]
#[ignore = "in a process of its own, under a limit"]
fn shrink() {
    let sizes = [
        (3_000, 100),
        (100, 17),
        (400, 250),
        (5_000, 17),
        (30_000, 100),
        (100_000, 3_000),
        (1_200_000, 100_000),
        (1_200_000, 100),
        (18 << 20, 1_200_000),
    ];
    let layout = |size| Layout::from_size_align(size, 16).expect("it is a layout");
    // SAFETY: each block is in use with the layout that it was last given, and freed once.
    unsafe {
        let blocks = sizes.map(|(size, _)| {
            let block = ALLOCATOR.alloc(layout(size));
            block.write_bytes(7, size);
            block
        });
        let fill_sizes = [1 << 20, 100_000, 20_000, 3_000, 250, 100, 24];
        let mut last = fill_sizes.into_iter().fold(ptr::null_mut(), |last, size| fill(size, last));
        let mut stay = 0;
        let resized: [*mut u8; 9] = core::array::from_fn(|index| {
            let (size, new_size) = sizes[index];
            let block = ALLOCATOR.realloc(blocks[index], layout(size), new_size);
            assert!(!block.is_null(), "{size} to {new_size}");
            stay += usize::from(block == blocks[index]);
            block
        });
        println!("{stay} stay");
        assert!(stay >= 6 || is_emulated(), "{stay} stay");
        for (block, (size, new_size)) in resized.into_iter().zip(sizes) {
            let bytes = std::slice::from_raw_parts(block, new_size);
            assert!(bytes.iter().all(|&byte| byte == 7), "{size} to {new_size}");
            assert!(ALLOCATOR.usable_size(block) >= new_size, "{size} to {new_size}");
            ALLOCATOR.dealloc(block, layout(new_size));
        }
        while !last.is_null() {
            let block = last;
            last = block.read().cast();
            ALLOCATOR.free(block.cast());
        }
    }
}

/// The addresses of freed mappings, which stay taken for a while, are few, and are given up where
/// memory is wanted. (Regression: the program could not map anything any more, though all blocks
/// were freed.)
#[test]
fn freed_mappings_do_not_use_up_a_limit() {
    for parts in ["1", "guards", "checks"] {
        passes_under_limit("limits::freed_mappings", parts, 1 << 30);
    }
}

#[test]
#[ignore = "in a process of its own, under a limit"]
fn freed_mappings() {
    for size in [2 << 20, 64 << 20, 5 << 20] {
        for round in 0..100 {
            let block = ALLOCATOR.allocate(size);
            assert!(!block.is_null(), "{size} bytes, round {round}");
            // SAFETY: the block is in use, and freed once.
            unsafe { ALLOCATOR.free(block) };
        }
        // SAFETY: the mapping is new, and unmapped once.
        unsafe {
            let (readable, private) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let mapped = libc::mmap(ptr::null_mut(), 64 << 20, readable, private, -1, 0);
            assert!(mapped != libc::MAP_FAILED, "after {size} bytes");
            libc::munmap(mapped, 64 << 20);
        }
        let others: Vec<_> = (0..2_000).map(|_| ALLOCATOR.allocate(50_000)).collect();
        assert!(others.iter().all(|block| !block.is_null()), "after {size} bytes");
        // SAFETY: each block is in use, and freed once.
        others.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
    }
}

/// Runs a test with a quarantine and nothing else.
fn passes_in_quarantine(test: &str) {
    passes_when(test, |command| {
        command.env("PAGEWISE_HARDENED", "quarantine");
    });
}

/// Returns whether a freed block is handed out again among the next `count`.
fn comes_again(freed: usize, count: usize) -> bool {
    (0..count).any(|_| ALLOCATOR.allocate(64).addr() == freed)
}

/// Freeing large blocks does not empty the quarantine. (Regression: now and then it did.)
#[test]
fn large_blocks_leave_the_quarantine_alone() {
    passes_in_quarantine("limits::beside_large");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn beside_large() {
    for size in [1 << 20, 2 << 20, 40 << 20] {
        let freed = ALLOCATOR.allocate(64);
        // SAFETY: each block is in use, and freed once.
        unsafe {
            ALLOCATOR.free(freed);
            (0..300).for_each(|_| ALLOCATOR.free(ALLOCATOR.allocate(size)));
        }
        assert!(!comes_again(freed.addr(), 64), "{size}");
    }
}

/// The first block that a thread frees goes into its quarantine. (Regression: its lists were made
/// only after that.)
#[test]
fn the_first_block_that_a_thread_frees_is_kept() {
    passes_in_quarantine("limits::first");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn first() {
    /// 0 until the block was freed, 1 until the thread may end.
    static STEP: AtomicUsize = AtomicUsize::new(0);
    // A system thread: one of the standard library allocates before it begins.
    extern "C" fn free_first(block: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.free(block.cast()) };
        STEP.store(1, SeqCst);
        while STEP.load(SeqCst) == 1 {
            thread::yield_now();
        }
        ptr::null_mut()
    }
    let blocks: Vec<_> = (0..300).map(|_| ALLOCATOR.allocate(64)).collect();
    // SAFETY: the thread gets a block, frees it, and is waited for.
    unsafe {
        let mut made = core::mem::zeroed();
        let of_made =
            libc::pthread_create(&raw mut made, ptr::null(), free_first, blocks[0].cast());
        assert_eq!(of_made, 0);
        while STEP.load(SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(!comes_again(blocks[0].addr(), 2_000));
        STEP.store(2, SeqCst);
        assert_eq!(libc::pthread_join(made, ptr::null_mut()), 0);
    }
}

/// A quarantine counts what its blocks take, not what was requested: with a large alignment that is
/// far more. (Regression: a thread kept a gibibyte of addresses.)
#[test]
fn a_quarantine_counts_what_its_blocks_take() {
    passes_in_quarantine("limits::aligned");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn aligned() {
    let before = ALLOCATOR.stats();
    for _ in 0..2_000 {
        let block = ALLOCATOR.allocate_aligned(100, 256 << 10);
        assert!(!block.is_null());
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.free(block) };
    }
    let after = ALLOCATOR.stats();
    assert!(after.held < before.held + (16 << 20), "{before}{after}");
}

/// The child of a fork takes back what other threads had in quarantine. (Regression: it stayed in
/// use for ever.)
#[test]
fn the_child_of_a_fork_empties_quarantines() {
    passes_in_quarantine("limits::forked");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn forked() {
    let (kept, is_kept) = std::sync::mpsc::channel();
    let (end, is_ended) = std::sync::mpsc::channel::<()>();
    let before = ALLOCATOR.stats().blocks;
    let other = thread::spawn(move || {
        for size in [300, 1_000, 40_000] {
            let blocks = [(); 100].map(|()| ALLOCATOR.allocate(size));
            // SAFETY: each block is in use, and freed once.
            blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
        }
        kept.send(()).expect("the test waits");
        let _ = is_ended.recv();
    });
    is_kept.recv().expect("the thread runs");
    crate::child::fork::in_child(|| {
        ALLOCATOR.purge();
        let after = ALLOCATOR.stats();
        assert!(after.blocks < before + 50, "{before} before, {after}");
        assert!(after.quick < 64 << 10, "{after}");
    });
    drop(end);
    other.join().expect("it ends");
}
