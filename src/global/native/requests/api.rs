//! The public interface: [`GlobalAlloc`], statistics, and an interface like C's.

use core::alloc::{GlobalAlloc, Layout};
use core::time::Duration;

use super::{by_address, paths};
use crate::global::native::process::statistics;
use crate::global::tuning::{HALF_UNIT, SMALL_MAX, UNIT};
use crate::global::{ClassStats, Pagewise, Stats};

impl Pagewise {
    /// Returns statistics of all threads: bytes in use and held. O(OS pages held): asks the system
    /// which of them take memory, which takes some milliseconds per GiB, without a lock. Allocates
    /// nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        statistics::stats()
    }

    /// Calls `visit` with the figures of each size class in use, in ascending order. O(pages), with
    /// one heap at a time under its lock. Allocates nothing itself; `visit` may allocate.
    ///
    /// ```
    /// # use pagewise::Pagewise;
    /// # const ALLOCATOR: Pagewise = Pagewise::new();
    /// let mut held = 0;
    /// ALLOCATOR.for_each_class(|class| held += class.held);
    /// assert!(held <= ALLOCATOR.stats().held);
    /// ```
    pub fn for_each_class(&self, mut visit: impl FnMut(ClassStats)) {
        statistics::for_each_class(&mut visit);
    }

    /// Opens the allocator, and makes the calling thread's lists: what the thread's first request
    /// would do.
    #[cfg(feature = "initial-exec")]
    #[doc(hidden)]
    pub fn open(&self) {
        paths::open(&self.tuning);
    }

    /// From now on, gives memory back by the calls that the C library's allocator makes. Call it
    /// before the process installs a sandbox that may kill it for others.
    #[cfg(all(feature = "initial-exec", target_os = "linux", not(miri)))]
    #[doc(hidden)]
    pub fn enter_sandbox(&self) {
        crate::os::enter_sandbox();
    }

    /// Gives free memory back to the system, down to single OS pages, except for blocks on other
    /// threads' quick lists; returns the bytes given back. O(bytes held), in steps, between which
    /// other threads can use the heap.
    ///
    /// Memory also goes back without this call, once much less of it is in use than before: after
    /// the purge delay, when threads next take or free batches of blocks, or keep allocating for a
    /// while. For a program that stands still there are [`maintain`](Self::maintain) and
    /// [`Tuning::background`](crate::global::Tuning::background).
    pub fn purge(&self) -> u64 {
        paths::purge()
    }

    /// Gives back the memory that is due, for at most a millisecond per heap; meant for a program's
    /// own event loop. Returns how long to wait before the next call is worthwhile
    /// ([`Duration::ZERO`]: call again at once), or `None` if nothing will be due unless the
    /// program frees more. O(bytes given back + heaps).
    ///
    /// ```no_run
    /// # use pagewise::Pagewise;
    /// # static ALLOCATOR: Pagewise = Pagewise::new();
    /// while let Some(pause) = ALLOCATOR.maintain() {
    ///     std::thread::sleep(pause); // or wait for an event, as long at most
    /// }
    /// ```
    pub fn maintain(&self) -> Option<Duration> {
        paths::maintain()
    }

    /// Puts back the free blocks that the calling thread keeps at hand, up to some hundred KiB, so
    /// that other threads can use them. Call it before the thread stops allocating for a while, as
    /// a worker does before it waits for work. The thread may allocate again at any time. O(blocks
    /// kept).
    ///
    /// ```
    /// # use pagewise::Pagewise;
    /// # static ALLOCATOR: Pagewise = Pagewise::new();
    /// # let (sender, jobs) = std::sync::mpsc::channel::<fn()>();
    /// # drop(sender);
    /// loop {
    ///     let job = jobs.try_recv().or_else(|_| {
    ///         ALLOCATOR.thread_idle();
    ///         jobs.recv()
    ///     });
    ///     match job {
    ///         Ok(job) => job(),
    ///         Err(_) => break,
    ///     }
    /// }
    /// ```
    pub fn thread_idle(&self) {
        paths::thread_idle();
    }

    /// Writes the statistics, in total and by class, to standard error. Allocates nothing.
    pub fn show_stats(&self) {
        statistics::show();
    }

    /// Allocates a block of `size` bytes, aligned to 16, as for C's `malloc`; null if there is no
    /// memory. `size` may be anything, including 0.
    #[inline]
    #[must_use]
    pub fn allocate(&self, size: usize) -> *mut u8 {
        paths::allocate(&self.tuning, size, UNIT)
    }

    /// As [`allocate`](Self::allocate), at a multiple of `align` bytes or of 16, whichever is more;
    /// null also if `align` is not a power of two. Never panics.
    #[inline]
    #[must_use]
    pub fn allocate_aligned(&self, size: usize, align: usize) -> *mut u8 {
        if !align.is_power_of_two() {
            return core::ptr::null_mut();
        }
        paths::allocate_aligned(&self.tuning, size, align)
    }

    /// As [`allocate`](Self::allocate), with zeros in the block.
    #[inline]
    #[must_use]
    pub fn allocate_zeroed(&self, size: usize) -> *mut u8 {
        paths::allocate_zeroed(&self.tuning, size, UNIT)
    }

    /// Frees a block whose size the caller does not know. Does nothing for null.
    ///
    /// # Safety
    /// The block is null, or was allocated by this allocator and not freed since.
    #[inline]
    pub unsafe fn free(&self, block: *mut u8) {
        // SAFETY: the callee has the same contract.
        unsafe { paths::free(&self.tuning, block) };
    }

    /// As [`free`](Self::free), for a caller that knows the size it last requested. In
    /// [hardened mode](crate::global::Hardening) another size stops the process; otherwise the size
    /// makes no difference.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline]
    pub unsafe fn free_sized(&self, block: *mut u8, size: usize) {
        // SAFETY: the callee has the same contract.
        unsafe { paths::free_sized(&self.tuning, block, size) };
    }

    /// Resizes a block whose size the caller does not know; null, and nothing changed, if there is
    /// no memory. The block returned is aligned to 16. Shrinking does not fail, unless the block
    /// was allocated with a layout aligned to less.
    ///
    /// # Safety
    /// As for [`free`](Self::free), and the block is not null; if another is returned, only that is
    /// used from then on.
    #[inline]
    #[must_use]
    pub unsafe fn reallocate(&self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the callee has the same contract.
        unsafe { by_address::reallocate(&self.tuning, block, new_size) }
    }

    /// Returns how many bytes of a block in use the program may use; 0 for null.
    ///
    /// # Safety
    /// The block is null, or in use.
    #[inline]
    #[must_use]
    pub unsafe fn usable_size(&self, block: *mut u8) -> usize {
        // SAFETY: the callee has the same contract.
        unsafe { by_address::usable_size(block) }
    }
}

// SAFETY: blocks come from heaps that never hand out memory twice, or from fresh mappings; they
// have at least the requested size and alignment, and stay valid until they are freed.
unsafe impl GlobalAlloc for Pagewise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            ..=HALF_UNIT => paths::allocate(&self.tuning, layout.size(), HALF_UNIT),
            align => paths::allocate_aligned(&self.tuning, layout.size(), align),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            ..=HALF_UNIT => paths::allocate_zeroed(&self.tuning, layout.size(), HALF_UNIT),
            align => paths::allocate_aligned_zeroed(&self.tuning, layout.size(), align),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that the block is in use, and was allocated with this
        // layout.
        unsafe {
            if layout.size() > SMALL_MAX {
                return paths::free_any_sized(&self.tuning, block, layout.size());
            }
            if layout.align() > HALF_UNIT {
                return paths::free_aligned(&self.tuning, block, layout.size(), layout.align());
            }
            paths::free_small(&self.tuning, block, layout.size(), HALF_UNIT);
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller guarantees that the block is in use, and was allocated with this
        // layout.
        unsafe { paths::reallocate_sized(&self.tuning, block, size, align, new_size) }
    }
}
