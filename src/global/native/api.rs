//! What a program sees of the allocator: [`GlobalAlloc`], statistics, and an interface like C's.

use core::alloc::{GlobalAlloc, Layout};
use core::time::Duration;

use super::tuning::{SMALL_MAX, UNIT};
use super::{ClassStats, Pagewise, Stats, by_address, paths, statistics};

impl Pagewise {
    /// Statistics of all threads: bytes in use and held. O(OS pages held): the system is asked which of them
    /// take memory, some milliseconds for each GiB, for which no lock is held. Allocates nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        statistics::stats()
    }

    /// Calls `visit` with what there is of each size class that is in use, from the smallest on.
    /// O(pages), each heap under its lock in turn. Allocates nothing, but `visit` may.
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

    /// Gives all free memory back to the system that is not on other threads' quick lists, down to
    /// single OS pages; returns its bytes. O(what is held), in steps, between which others can use
    /// the heap.
    ///
    /// Without this call memory goes back by itself once much less of it is in use than before:
    /// after the purge delay, when threads next take or free batches of blocks, or go on for a
    /// while. For a program that stands still there are [`maintain`](Self::maintain) and
    /// [`Tuning::background`](crate::global::Tuning::background).
    pub fn purge(&self) -> u64 {
        paths::purge()
    }

    /// For a program's own event loop: gives back what is due, for a millisecond of each heap at most, and returns how
    /// long until it is worth calling this again (at once: [`Duration::ZERO`]); `None` if nothing is to
    /// go back unless the program frees more. O(bytes given back + heaps).
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

    /// To be called by a thread that will not allocate for a while: a worker before it waits for work, for one. Puts
    /// back the free blocks that the thread keeps at hand, which other threads can use then, and which else stay with it,
    /// up to some hundred KiB. The thread may go on to allocate whenever it wants. O(blocks kept).
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

    /// Writes the statistics to standard error, those of each class, too, without allocating.
    pub fn show_stats(&self) {
        statistics::show();
    }

    /// A block of `size` bytes aligned to 16, for an interface like C's; null if there is no
    /// memory. Blocks of any size, and 0, may be asked for.
    #[inline]
    #[must_use]
    pub fn allocate(&self, size: usize) -> *mut u8 {
        paths::allocate(&self.tuning, size, UNIT)
    }

    /// As [`allocate`](Self::allocate), at a multiple of `align` bytes.
    ///
    /// # Panics
    /// Never; an alignment that is no power of two gives null.
    #[inline]
    #[must_use]
    pub fn allocate_aligned(&self, size: usize, align: usize) -> *mut u8 {
        if !align.is_power_of_two() {
            return core::ptr::null_mut();
        }
        paths::allocate(&self.tuning, size, align)
    }

    /// As [`allocate`](Self::allocate), zeros.
    #[inline]
    #[must_use]
    pub fn allocate_zeroed(&self, size: usize) -> *mut u8 {
        paths::allocate_zeroed(&self.tuning, size, UNIT)
    }

    /// Frees a block whose size the caller does not remember. Null is no block.
    ///
    /// # Safety
    /// The block was allocated by this allocator and not freed since.
    #[inline]
    pub unsafe fn free(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe { paths::free(&self.tuning, block) };
    }

    /// As [`free`](Self::free), for a caller who remembers the size that he asked for, at last: in
    /// [hardened mode](crate::global::Hardening) another size stops the process; else it makes no difference.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline]
    pub unsafe fn free_sized(&self, block: *mut u8, size: usize) {
        // SAFETY: passed on.
        unsafe { paths::free_checked(&self.tuning, block, size) };
    }

    /// Changes the size of a block whose size the caller does not remember; null, and nothing
    /// changed, if there is no memory. Making a block smaller does not fail.
    ///
    /// # Safety
    /// As for [`free`](Self::free), and the block is not null; if another is returned, only that
    /// is used from then on.
    #[inline]
    #[must_use]
    pub unsafe fn reallocate(&self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { by_address::reallocate(&self.tuning, block, new_size) }
    }

    /// Bytes of a block in use; all may be used. 0 for null.
    ///
    /// # Safety
    /// The block is null, or in use.
    #[inline]
    #[must_use]
    pub unsafe fn usable_size(&self, block: *mut u8) -> usize {
        // SAFETY: passed on.
        unsafe { by_address::usable_size(block) }
    }
}

// SAFETY: blocks come from heaps that never hand out memory twice, or from fresh mappings; they are
// as large and as aligned as asked, and stay until they are freed.
unsafe impl GlobalAlloc for Pagewise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        paths::allocate(&self.tuning, layout.size(), layout.align())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        paths::allocate_zeroed(&self.tuning, layout.size(), layout.align())
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe {
            if layout.size() > SMALL_MAX || layout.align() > UNIT {
                return paths::free_any_sized(&self.tuning, block, layout.size());
            }
            paths::free_sized(&self.tuning, block, layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the caller's promise.
        unsafe { paths::reallocate_sized(&self.tuning, block, size, align, new_size) }
    }
}
