//! Records a Rust program from inside: [`Recording`].

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

use super::raw::{self, Record};

/// A global allocator that records its requests, and forwards them to `A`.
///
/// Recording is armed by the environment variable [`raw::DIRECTORY`]; without it the cost is a few
/// instructions. The log is converted by `pagewise import`; under `pagewise record` it is found and
/// converted like that of any other program, but contains Rust's own requests, with their
/// alignments, rather than the calls that reached C's `malloc`.
///
/// # Examples
/// ```
/// use std::alloc::System;
/// use pagewise_trace::Recording;
///
/// #[global_allocator]
/// static ALLOCATOR: Recording<System> = Recording::new(System);
/// # fn main() { drop(vec![1, 2, 3]); }
/// ```
#[derive(Debug, Default)]
pub struct Recording<A> {
    inner: A,
}

impl<A> Recording<A> {
    /// Wraps an allocator.
    #[must_use]
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

/// Appends a record with this thread's number.
fn record(record: Record) {
    thread_local! {
        // Without a destructor, and with a constant initialiser, so that using it never allocates.
        static THREAD: Cell<u32> = const { Cell::new(0) };
    }
    let thread = THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(raw::new_thread());
        }
        thread.get()
    });
    raw::record(thread, record);
}

/// Records a successful allocation and returns the block.
fn allocated(block: *mut u8, layout: Layout) -> *mut u8 {
    if !block.is_null() {
        let align_log2 = align_log2(layout);
        record(Record::Allocated {
            address: address(block),
            size: layout.size() as u64,
            align_log2,
        });
    }
    block
}

/// Returns the exponent of the alignment, or the largest that a trace can express.
fn align_log2(layout: Layout) -> u8 {
    layout.align().trailing_zeros().min(31) as u8
}

fn address(block: *mut u8) -> u64 {
    block.addr() as u64
}

// SAFETY: every call is forwarded unchanged to the inner allocator, and so is its result.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recording<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what the inner allocator requires.
        allocated(unsafe { self.inner.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what the inner allocator requires.
        allocated(unsafe { self.inner.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        record(Record::Freeing { address: address(block) });
        // SAFETY: the caller guarantees what the inner allocator requires.
        unsafe { self.inner.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (size, align_log2) = (new_size as u64, align_log2(layout));
        record(Record::Reallocating { address: address(block), size, align_log2 });
        // SAFETY: the caller guarantees what the inner allocator requires.
        let moved = unsafe { self.inner.realloc(block, layout, new_size) };
        record(Record::Reallocated { address: address(moved) });
        moved
    }
}
