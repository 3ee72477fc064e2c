//! Threads with the smallest stack that the system allows can open a heap, with any first request.

use std::ffi::c_void;
use std::hint::black_box;
use std::{mem, ptr};

use crate::ALLOCATOR;
use crate::child::passes;

/// The smallest stack that the C library allows: 16 KiB with glibc. Musl allows 2 KiB; the allocator
/// asks for 4.
const LEAST: usize = if libc::PTHREAD_STACK_MIN > 4096 { libc::PTHREAD_STACK_MIN } else { 4096 };

/// Runs `work` in a thread with the least stack.
fn on_the_least_stack(work: extern "C" fn(*mut c_void) -> *mut c_void) {
    // SAFETY: the calls initialise what they write to; the thread is joined.
    unsafe {
        let mut attributes = mem::zeroed();
        let mut thread = mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, LEAST), 0);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, work, ptr::null_mut()), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
}

/// Allocates, resizes and frees a block of each kind, a zeroed one first.
extern "C" fn all_kinds(_: *mut c_void) -> *mut c_void {
    for size in [100_000, 24, 9000, 900_000, 3 << 20, 40 << 20] {
        // SAFETY: the blocks are written to within their size, and freed once.
        unsafe {
            let zeroed = black_box(ALLOCATOR.allocate_zeroed(size));
            let block = black_box(ALLOCATOR.allocate(size));
            assert!(!zeroed.is_null() && !block.is_null());
            block.write(1);
            let block = ALLOCATOR.reallocate(block, size * 3);
            assert!(!block.is_null() && block.read() == 1 && zeroed.read() == 0);
            ALLOCATOR.free(block);
            ALLOCATOR.free(zeroed);
        }
    }
    ptr::null_mut()
}

/// A heap used to be built on the stack and then moved, which took 13 KiB of stack.
#[test]
fn a_thread_opens_a_heap_on_the_least_stack() {
    passes("stacks::opens");
}

#[test]
#[ignore = "in a process of its own, whose second thread opens a heap"]
fn opens() {
    // The first thread opens a heap; the others reuse the lists that it left.
    for _ in 0..4 {
        on_the_least_stack(all_kinds);
    }
}
