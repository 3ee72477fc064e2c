//! One algorithm over one trace, as Chung & Moon simulate it (§4).
//!
//! Their traces contain only allocations and frees: a block that grows is allocated anew, then
//! freed. Blocks are never written. The heap grows by the least possible amount, here a cell of 16
//! bytes; for a program of a machine with words half as wide that is one of 8 ([`Widened`]).
//! Fragmentation is 1 − (peak of allocated memory while the heap has its greatest size) ÷ (that
//! size). Allocated memory includes header and rounding, as it must for their figures of less than
//! one percent.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise_replay::workload::{Observer, Target, Workload};

use super::algorithms::{Algorithm, Shares};
use crate::widened::{Widened, Words};

/// Growth of the heap in bytes: the least possible, and the usual one.
const LEAST_GROWTH: usize = 16;
pub(super) const USUAL_GROWTH: usize = 64 << 10;

/// Blocks of at least this many bytes are left out of Table 5.
const LARGE: usize = 4 << 10;

/// The table of times.
pub(super) const TIME: &str = "time";

/// How an algorithm is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// Frees at once: Tables 2 and 3.
    Explicit,
    /// Frees wait until an allocation fails: Tables 4 and 6.
    Collected,
    /// The same for small blocks only: Table 5.
    CollectedSmall,
    /// Frees at once, in a heap with the usual growth: the table of times.
    Usual,
}

impl Setting {
    pub(super) const ALL: [Self; 4] =
        [Self::Explicit, Self::Collected, Self::CollectedSmall, Self::Usual];

    /// Returns the tables that use it.
    pub(super) fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Explicit => &["2", "3"],
            Self::Collected => &["4", "6"],
            Self::CollectedSmall => &["5"],
            Self::Usual => &[TIME],
        }
    }

    /// Returns whether an algorithm is run in this setting.
    pub(super) fn has(self, algorithm: &Algorithm) -> bool {
        match self {
            Self::Explicit | Self::Usual => true,
            Self::Collected | Self::CollectedSmall => algorithm.collected.is_some(),
        }
    }
}

/// The results of a run, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) fragmentation: f64,
    /// Share of the allocations that needed the fit.
    pub(super) fits: f64,
}

/// Runs an algorithm over a trace.
///
/// # Errors
/// If it runs out of memory.
pub(super) fn run(
    workload: &Workload,
    words: Words,
    setting: Setting,
    algorithm: &Algorithm,
) -> anyhow::Result<Figures> {
    let shares = Shares::default();
    let growth = if setting == Setting::Usual { USUAL_GROWTH } else { LEAST_GROWTH };
    let build = match setting {
        Setting::Explicit | Setting::Usual => algorithm.explicit,
        Setting::Collected | Setting::CollectedSmall => {
            algorithm.collected.unwrap_or(algorithm.explicit)
        }
    };
    let small = setting == Setting::CollectedSmall;
    let largest = if small { words.size(LARGE - 1, HEADER) } else { usize::MAX };
    let strategy = build(growth, &shares);
    let mut heap = Simulated { strategy, largest, extent: Extent::default() };
    workload.replay(&mut Widened::new(&mut heap, words, HEADER), &mut Untouched)?;
    let allocations = heap.strategy.usage().allocations;
    let bumps = shares.bumps();
    Ok(Figures {
        fragmentation: heap.extent.fragmentation(),
        fits: 1.0 - bumps as f64 / allocations.max(1) as f64,
    })
}

/// The size of a heap, and the peak of allocated memory at its greatest size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Extent {
    held: usize,
    allocated: usize,
}

impl Extent {
    pub(super) fn note(&mut self, held: usize, allocated: usize) {
        if held > self.held {
            *self = Self { held, allocated };
        } else if held == self.held {
            self.allocated = self.allocated.max(allocated);
        }
    }

    pub(super) fn fragmentation(self) -> f64 {
        1.0 - self.allocated as f64 / self.held.max(1) as f64
    }
}

/// A strategy under the paper's simulator.
struct Simulated<'m> {
    strategy: Box<dyn Strategy + 'm>,
    /// Larger requests are left out.
    largest: usize,
    extent: Extent,
}

/// Bytes of the header of a block in use.
pub(super) const HEADER: usize = 4;

// SAFETY: blocks are the strategy's; omitted requests get dangling pointers, and no block is ever
// written.
unsafe impl Target for Simulated<'_> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() > self.largest {
            return Some(NonNull::dangling());
        }
        let block = self.strategy.allocate(layout).ok()?;
        let usage = self.strategy.usage();
        self.extent.note(usage.held, usage.block + HEADER * usage.blocks);
        Some(block.cast())
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        let resized = Layout::from_size_align(new_size, layout.align()).ok()?;
        let moved = self.allocate(resized)?;
        // SAFETY: the caller guarantees it.
        unsafe { self.free(block, layout) };
        Some(moved)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() <= self.largest {
            // SAFETY: the caller guarantees it; the strategy allocated the block.
            unsafe { self.strategy.deallocate(block, layout) };
        }
    }
}

/// Does not access the blocks.
pub(super) struct Untouched;

impl<T: ?Sized> Observer<T> for Untouched {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragmentation_is_measured_when_the_heap_is_largest() {
        let mut extent = Extent::default();
        for (held, allocated) in [(100, 90), (200, 150), (200, 180), (150, 150), (200, 100)] {
            extent.note(held, allocated);
        }
        assert!((extent.fragmentation() - 0.1).abs() < 1e-12);
    }
}
