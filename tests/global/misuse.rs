//! A free or resize of a pointer that is not a block in use stops the process with one line.

use std::alloc::{GlobalAlloc, Layout};

use crate::ALLOCATOR;
use crate::child::aborts;

#[test]
fn a_block_freed_twice_stops_the_process() {
    aborts("misuse::freed_twice", "pagewise: a block was freed twice");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_twice() {
    let block = ALLOCATOR.allocate(100);
    // SAFETY: the second free is the misuse to be detected, when the quick list is returned.
    unsafe {
        ALLOCATOR.free(block);
        ALLOCATOR.free(block);
    }
    ALLOCATOR.purge();
}

#[test]
fn a_block_freed_twice_in_a_row_stops_at_once() {
    aborts("misuse::freed_twice_in_a_row", "pagewise: a block was freed twice");
}

/// No list is returned to a heap here, not even at thread exit.
#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_twice_in_a_row() {
    let blocks = [(); 3].map(|()| ALLOCATOR.allocate(100));
    // SAFETY: the last free is the misuse to be detected.
    unsafe {
        ALLOCATOR.free(blocks[0]);
        ALLOCATOR.free(blocks[1]);
        ALLOCATOR.free(blocks[1]);
        libc::_exit(0);
    }
}

/// The line names the block, its class and the thread, and advises what to do next.
#[test]
fn the_report_advises_what_to_do() {
    for part in ["(112-byte class)", ", thread ", "PAGEWISE_HARDENED=1"] {
        aborts("misuse::freed_twice_in_a_row", part);
    }
}

/// Frees a block of this many bytes twice, between two others; `freed` says which of these are
/// freed first.
fn free_twice(size: usize, freed: [bool; 2]) {
    // SAFETY: the second free is the misuse to be detected.
    unsafe {
        let blocks = [(); 5].map(|()| ALLOCATOR.allocate(size));
        for (index, freed) in [1, 3].into_iter().zip(freed) {
            if freed {
                ALLOCATOR.free(blocks[index]);
            }
        }
        ALLOCATOR.free(blocks[2]);
        ALLOCATOR.free(blocks[2]);
    }
}

macro_rules! freed_twice {
    ($($test:ident: $alone:ident, $size:expr, $freed:expr, $message:literal;)*) => {$(
        #[test]
        fn $test() {
            aborts(concat!("misuse::", stringify!($alone)), $message);
        }

        #[test]
        #[ignore = "in a process of its own, which it stops"]
        fn $alone() {
            free_twice($size, $freed);
        }
    )*};
}

freed_twice! {
    a_large_block_freed_twice: large, 50_000, [false, false], "pagewise: a block was freed twice";
    a_large_block_above_a_free_one: large_above, 50_000, [true, false], "pagewise: a block was freed twice";
    a_large_block_below_a_free_one: large_below, 50_000, [false, true], "pagewise: a block was freed twice";
    a_large_block_between_free_ones: large_between, 3 << 20, [true, true], "pagewise: a block was freed twice";
    a_mapping_freed_twice: mapping, 40 << 20, [false, false], "that is not a block in use";
}

#[test]
fn a_medium_block_freed_by_two_threads_stops_the_process() {
    for test in ["misuse::freed_by_two_threads", "misuse::freed_among_others"] {
        aborts(test, "pagewise: a block was freed twice");
    }
}

/// The second thread frees other blocks first, so that the block is not the last one freed by any
/// thread.
#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_by_two_threads() {
    let block = ALLOCATOR.allocate(50_000).expose_provenance();
    let free = move || {
        // SAFETY: the second free is the misuse to be detected.
        unsafe { ALLOCATOR.free(std::ptr::with_exposed_provenance_mut(block)) };
    };
    let (freed, is_freed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        free();
        freed.send(()).expect("the test waits");
        loop {
            std::thread::park();
        }
    });
    is_freed.recv().expect("it frees");
    free();
    // SAFETY: `_exit` does not use the allocator.
    unsafe { libc::_exit(0) };
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_among_others() {
    let blocks = [(); 6].map(|()| ALLOCATOR.allocate(50_000));
    // SAFETY: the last free is the misuse to be detected.
    unsafe {
        blocks[1..5].iter().for_each(|&block| ALLOCATOR.free(block));
        ALLOCATOR.free(blocks[2]);
        libc::_exit(0);
    }
}

/// A block that its thread's list keeps: the heap does not know that it is free.
#[test]
fn a_block_on_a_medium_list_freed_again_stops_the_process() {
    for test in ["misuse::freed_on_a_list", "misuse::freed_on_another_threads_list"] {
        aborts(test, "pagewise: a block was freed twice");
    }
    aborts("misuse::resized_on_a_list", "pagewise: a free block was resized or measured");
}

/// Frees a block of 50,000 bytes onto the thread's list, which has room for it and two others.
fn freed_onto_list() -> *mut u8 {
    let allocate = || [(); 3].map(|()| ALLOCATOR.allocate(50_000));
    for _ in 0..4 {
        // SAFETY: each block is freed once.
        allocate().into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
    }
    let [block, ..] = allocate();
    let before = ALLOCATOR.stats().quick;
    // SAFETY: the block is freed once by right.
    unsafe { ALLOCATOR.free(block) };
    assert!(ALLOCATOR.stats().quick >= before + 50_000);
    block
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_on_a_list() {
    let [other, block] = [ALLOCATOR.allocate(50_000), freed_onto_list()];
    // SAFETY: the last free is the misuse to be detected.
    unsafe {
        ALLOCATOR.free(other);
        ALLOCATOR.free(block);
        libc::_exit(0);
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_on_another_threads_list() {
    let block = freed_onto_list().expose_provenance();
    std::thread::spawn(move || {
        freed_onto_list();
        // SAFETY: the last free is the misuse to be detected.
        unsafe {
            ALLOCATOR.free(std::ptr::with_exposed_provenance_mut(block));
            libc::_exit(0);
        }
    });
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn resized_on_a_list() {
    // SAFETY: this is the misuse to be detected.
    unsafe {
        let _ = ALLOCATOR.reallocate(freed_onto_list(), 100_000);
        libc::_exit(0);
    }
}

#[test]
fn a_free_block_resized_stops_the_process() {
    aborts("misuse::resized", "pagewise: a free block was resized or measured");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn resized() {
    // SAFETY: the last call is the misuse to be detected.
    unsafe {
        let blocks = [(); 3].map(|()| ALLOCATOR.allocate(50_000));
        ALLOCATOR.free(blocks[1]);
        let _ = ALLOCATOR.reallocate(blocks[1], 100_000);
    }
}

#[test]
fn a_foreign_pointer_stops_the_process() {
    aborts(
        "misuse::foreign",
        "pagewise: a pointer was freed or resized that is not a block in use",
    );
}

/// With its size, a foreign pointer goes onto a list unseen; it is noticed when its batch goes back.
/// (Regression: the process ended with SIGSEGV, without a line.)
#[test]
fn a_foreign_pointer_freed_with_its_size_stops_the_process() {
    for test in ["misuse::foreign_sized", "misuse::foreign_among_others"] {
        aborts(test, "pagewise: a pointer was freed or resized that is not a block in use");
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn foreign_sized() {
    let mut words = [0_u128; 16];
    let layout = Layout::new::<[u128; 4]>();
    // SAFETY: this is the misuse to be detected.
    unsafe { ALLOCATOR.dealloc((&raw mut words[4]).cast(), layout) };
    ALLOCATOR.thread_idle();
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn foreign_among_others() {
    let mut words = [0_u128; 16];
    let layout = Layout::new::<[u128; 4]>();
    // SAFETY: the second free is the misuse to be detected.
    unsafe {
        let block = ALLOCATOR.alloc(layout);
        ALLOCATOR.dealloc(block, layout);
        ALLOCATOR.dealloc((&raw mut words[4]).cast(), layout);
    }
    ALLOCATOR.thread_idle();
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn foreign() {
    /// Aligned to the largest alignment at which the allocator's blocks start.
    #[repr(align(128))]
    struct Words([u128; 16]);

    let mut words = Words([0; 16]);
    // SAFETY: this is the misuse to be detected.
    unsafe { ALLOCATOR.free((&raw mut words.0[8]).cast()) };
}
