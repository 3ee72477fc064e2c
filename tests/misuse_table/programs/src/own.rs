//! The program's own memory, none of it from `malloc`: a misuse must not damage the program's
//! records.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of address space, most of which is never touched.
const CAPACITY: usize = 1 << 30;

/// A bump allocator over one mapping, which frees nothing. It is mapped once, so that no part of it
/// takes the place of an unmapped large block.
pub(crate) struct Own {
    /// The next free address; 0 before the first request.
    next: AtomicUsize,
    end: AtomicUsize,
}

impl Own {
    pub(crate) const fn new() -> Self {
        Self { next: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    /// Maps the memory. The first request comes before there is a second thread, so there is no
    /// race.
    fn open(&self) -> usize {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), CAPACITY, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return 0;
        }
        self.end.store(start.addr() + CAPACITY, Ordering::Relaxed);
        self.next.store(start.expose_provenance(), Ordering::Relaxed);
        start.addr()
    }
}

// SAFETY: blocks are disjoint parts of the mapping.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.next.load(Ordering::Relaxed) == 0 && self.open() == 0 {
            return ptr::null_mut();
        }
        let mut block = 0;
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            block = next.next_multiple_of(layout.align());
            let end = block + layout.size();
            (end <= self.end.load(Ordering::Relaxed)).then_some(end)
        });
        if taken.is_ok() { ptr::with_exposed_provenance_mut(block) } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
