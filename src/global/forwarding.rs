//! Where the allocator is not supported yet: everything is passed on to the system's.

use core::alloc::{GlobalAlloc, Layout};
use core::time::Duration;
use std::alloc::System;

use super::{ClassStats, Pagewise, Stats};

impl Pagewise {
    /// On this target, nothing is known of what is in use and held: all zeros.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// On this target, nothing is known of any class.
    pub fn for_each_class(&self, _visit: impl FnMut(ClassStats)) {}

    /// On this target, nothing is written.
    pub fn show_stats(&self) {}

    /// On this target, nothing is to be done.
    pub fn maintain(&self) -> Option<Duration> {
        None
    }

    /// On this target, nothing is to be done.
    pub fn thread_idle(&self) {}

    /// On this target, nothing: 0 bytes.
    pub fn purge(&self) -> u64 {
        0
    }
}

// SAFETY: every call is passed on as it came.
unsafe impl GlobalAlloc for Pagewise {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
