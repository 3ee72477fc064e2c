//! A thread without lists took a small block that a profile had sampled for one of the next larger
//! class, and one of the largest class for a block of 0 bytes: `realloc` then lost its contents, and
//! `malloc_usable_size` promised bytes of the next block. A thread has no lists before it first
//! allocates, in its last destructors, and while the process forks.

use core::ffi::c_void;
use std::ptr;

use crate::ALLOCATOR;
use crate::child::passes;

#[test]
fn keeps_size_and_contents() {
    passes("a_sampled_block_of_the_next_class::first_resized_in_a_thread");
}

#[test]
#[ignore = "in a process of its own, with a profile"]
fn first_resized_in_a_thread() {
    const MEAN: usize = 64;
    ALLOCATOR.profiler().start(MEAN).expect("it begins");
    for size in [2_000, 5_000, 9_000, 13_000, 16_000] {
        let block = ALLOCATOR.allocate(size);
        // SAFETY: the block is in use, and has as many bytes; only the one returned is used then,
        // which is freed once.
        unsafe {
            let usable = ALLOCATOR.usable_size(block);
            block.write_bytes(7, size);
            assert_eq!(in_thread(measure, block).addr(), usable, "{size}");
            let resized = in_thread(halve, block);
            let half = core::slice::from_raw_parts(resized, size / 2);
            assert!(half.iter().all(|&byte| byte == 7), "{size}");
            ALLOCATOR.free(resized);
        }
    }
}

/// Returns the bytes of a block, as an address.
extern "C" fn measure(block: *mut c_void) -> *mut c_void {
    // SAFETY: the block is in use.
    ptr::without_provenance_mut(unsafe { ALLOCATOR.usable_size(block.cast()) })
}

/// Resizes a block to half its bytes.
extern "C" fn halve(block: *mut c_void) -> *mut c_void {
    // SAFETY: the block is in use, and only the one returned is used then.
    unsafe { ALLOCATOR.reallocate(block.cast(), ALLOCATOR.usable_size(block.cast()) / 2).cast() }
}

/// Returns what `run` returns for a block, called first of all by a thread of the C library. (Rust's
/// threads allocate before.)
fn in_thread(run: extern "C" fn(*mut c_void) -> *mut c_void, block: *mut u8) -> *mut u8 {
    let mut returned = ptr::null_mut();
    // SAFETY: the calls write a thread's handle and what it returns; null stands for the usual
    // attributes.
    unsafe {
        let mut thread: libc::pthread_t = core::mem::zeroed();
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), run, block.cast()), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut returned), 0);
    }
    returned.cast()
}
