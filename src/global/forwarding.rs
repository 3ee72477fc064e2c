//! The fallback on targets that the allocator does not support: forwards every call to the system's
//! allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::time::Duration;
use std::alloc::System;

use super::{ClassStats, Pagewise, Stats};

impl Pagewise {
    /// Returns zeros: on this target there are no statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Does nothing: on this target there are no statistics.
    pub fn for_each_class(&self, _visit: impl FnMut(ClassStats)) {}

    /// Does nothing: on this target there are no statistics.
    pub fn show_stats(&self) {}

    /// Returns `None`: on this target there is nothing to maintain.
    pub fn maintain(&self) -> Option<Duration> {
        None
    }

    /// Does nothing: on this target threads have no quick lists.
    pub fn thread_idle(&self) {}

    /// Returns 0: on this target nothing can be given back.
    pub fn purge(&self) -> u64 {
        0
    }
}

// SAFETY: every call is forwarded unchanged, so `System`'s guarantees hold.
unsafe impl GlobalAlloc for Pagewise {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
