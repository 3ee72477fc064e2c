//! The global allocator on WebAssembly: one heap over the growing linear memory, with a lock only
//! if the target has threads. It ignores [`Tuning`], and it gives no memory back, because linear
//! memory cannot shrink.
//!
//! [`Tuning`]: super::Tuning

use core::alloc::{GlobalAlloc, Layout};
use core::time::Duration;

use super::growing::{Grow, Growing};
use super::{ClassStats, Pagewise, Stats};
use crate::arena::Arena;
#[cfg(not(target_feature = "atomics"))]
use crate::arena::lock::Unshared;
#[cfg(target_feature = "atomics")]
use crate::arena::lock::{NewLock, Yielding};
use crate::os;

/// The module's linear memory.
#[derive(Debug)]
struct Memory;

// SAFETY: `memory.grow` hands out each page once, to its caller, and the new pages follow all
// earlier ones.
unsafe impl Grow for Memory {
    fn grow(&mut self, len: usize) -> Option<(*mut u8, usize)> {
        os::grow(len)
    }
}

#[cfg(target_feature = "atomics")]
type Lock = Yielding;
#[cfg(target_feature = "atomics")]
const LOCK: Lock = Yielding::NEW;
#[cfg(not(target_feature = "atomics"))]
type Lock = Unshared;
#[cfg(not(target_feature = "atomics"))]
// SAFETY: without atomic instructions there are neither threads nor interrupts.
const LOCK: Lock = unsafe { Unshared::new() };

static HEAP: Arena<Growing<Memory>, Lock> = Arena::with_lock(Growing::new(Memory), LOCK);

impl Pagewise {
    /// Returns the statistics. All memory held counts as resident.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let usage = HEAP.usage();
        Stats {
            blocks: usage.blocks,
            live: usage.block,
            held: usage.held,
            peak_held: usage.peak_held,
            resident: usage.held,
            heaps: HEAP.with(|heap| heap.regions()),
            ..Stats::default()
        }
    }

    /// Does nothing: on this target there are no statistics for each class.
    pub fn for_each_class(&self, _visit: impl FnMut(ClassStats)) {}

    /// Writes the statistics to standard error, if there is one.
    pub fn show_stats(&self) {
        std::eprintln!("{}", self.stats());
    }

    /// Returns `None`: on this target there is nothing to maintain.
    pub fn maintain(&self) -> Option<Duration> {
        None
    }

    /// Does nothing: on this target threads have no quick lists.
    pub fn thread_idle(&self) {}

    /// Returns 0: on this target no memory can be given back.
    pub fn purge(&self) -> u64 {
        0
    }
}

// SAFETY: `Arena` implements `GlobalAlloc`, and every call is forwarded to one.
unsafe impl GlobalAlloc for Pagewise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `Arena` requires.
        unsafe { HEAP.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `Arena` requires.
        unsafe { HEAP.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees what `Arena` requires.
        unsafe { HEAP.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// All unit tests of the library use this allocator.
    #[global_allocator]
    static ALLOCATOR: Pagewise = Pagewise::new();

    #[test]
    fn collections_live_in_the_machines_memory() {
        let before = ALLOCATOR.stats();
        let mut map: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for key in 0..20_000_u32 {
            map.entry(key.wrapping_mul(2_654_435_761) % 3_000).or_default().extend(0..key % 50);
        }
        let after = ALLOCATOR.stats();
        assert!(after.blocks > before.blocks + 3_000 && after.live > before.live + (1 << 20));
        assert!(after.heaps > 1 && after.held >= after.live && after.peak_held >= after.held);
        drop(map);
        assert_eq!(ALLOCATOR.stats().blocks, before.blocks);
        assert_eq!(HEAP.audit(), Ok(()));
    }

    #[test]
    fn a_block_of_half_of_all_addresses_is_refused() {
        let layout = Layout::from_size_align(isize::MAX as usize - 15, 16).expect("a valid layout");
        // SAFETY: the layout's size is not 0.
        assert!(unsafe { ALLOCATOR.alloc(layout) }.is_null());
        assert_eq!(vec![1; 5_000].len(), 5_000);
    }
}
