//! WebAssembly: one heap over a memory that grows, behind no lock where there is one thread. What [`Tuning`] sets does
//! not concern it, and no memory goes back, as the machine takes none.
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

/// The machine's memory.
#[derive(Debug)]
struct Memory;

// SAFETY: what the machine adds to its memory is whoever's asked for it, for good, and comes behind all there was.
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
    /// Statistics. Memory of the machine is resident as soon as it is there.
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

    /// On this target, nothing is known of any class.
    pub fn for_each_class(&self, _visit: impl FnMut(ClassStats)) {}

    /// Writes the statistics to standard error, if there is one.
    pub fn show_stats(&self) {
        std::eprintln!("{}", self.stats());
    }

    /// On this target, nothing is to be done.
    pub fn maintain(&self) -> Option<Duration> {
        None
    }

    /// On this target, nothing is to be done.
    pub fn thread_idle(&self) {}

    /// On this target, nothing can go back: 0 bytes.
    pub fn purge(&self) -> u64 {
        0
    }
}

// SAFETY: the arena's promises.
unsafe impl GlobalAlloc for Pagewise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { HEAP.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { HEAP.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { HEAP.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// All unit tests of the library run over it.
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
        // SAFETY: the layout has a size.
        assert!(unsafe { ALLOCATOR.alloc(layout) }.is_null());
        assert_eq!(vec![1; 5_000].len(), 5_000);
    }
}
