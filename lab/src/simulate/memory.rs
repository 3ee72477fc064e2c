//! The simulated memory of a replay, and its results.
//!
//! ```text
//!  replay ──blocks──► Program ─┐
//!                              ├──addresses──► Memory ──pages──► Lru, Clock
//!  strategy ──items (Meter)────┘
//! ```

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;

use pagewise::meter::{Meter, Part};
use pagewise_replay::paging::{Clock, Lru, Paging};
use pagewise_replay::unwinding::end_on_panic;
use pagewise_replay::workload::Observer;
use serde::{Deserialize, Serialize};

use super::setup::Touch;

/// Working sets of a curve per doubling.
const STEPS: usize = 8;

/// Simulated memory: receives addresses from the program and from the strategy's bookkeeping.
#[derive(Debug)]
pub(super) struct Memory {
    /// Binary logarithm of the page size in bytes.
    shift: u32,
    paging: RefCell<Pagings>,
}

#[derive(Debug)]
struct Pagings {
    lru: Lru,
    clock: Option<Clock>,
}

impl Memory {
    /// Returns memory with pages of `page_size` bytes, a power of two; for the working sets `clock`
    /// also with CLOCK.
    pub(super) fn new(page_size: usize, clock: Option<&[usize]>) -> Self {
        let paging = Pagings { lru: Lru::new(), clock: clock.map(Clock::new) };
        Self { shift: page_size.trailing_zeros(), paging: RefCell::new(paging) }
    }

    /// Refers to every page of `len` bytes, not 0, at `address`, in order.
    pub(super) fn reference(&self, address: usize, len: usize) {
        let paging = &mut *self.paging.borrow_mut();
        let last = address.saturating_add(len - 1) >> self.shift;
        for page in address >> self.shift..=last {
            paging.lru.reference(page as u64);
            if let Some(clock) = &mut paging.clock {
                clock.reference(page as u64);
            }
        }
    }

    /// Returns the LRU faults with this working set.
    pub(super) fn faults(&self, pages: usize) -> u64 {
        self.paging.borrow().lru.faults(pages)
    }

    /// Returns the results at these working sets, and the curve.
    pub(super) fn found(&self, working_sets: &[usize]) -> Found {
        let Pagings { lru, clock } = &*self.paging.borrow();
        let faults = |&pages: &usize| Faults {
            lru: lru.faults(pages),
            clock: clock.as_ref().and_then(|clock| clock.faults(pages)),
        };
        let curve = curve_points(lru.distinct());
        Found {
            references: lru.references(),
            pages_touched: lru.distinct() as u64,
            faults: working_sets.iter().map(faults).collect(),
            curve: curve.map(|pages| (pages, lru.faults(pages))).collect(),
        }
    }
}

/// Bookkeeping references memory whenever it visits an item.
// SAFETY: a panic of the simulation ends the process; it uses addresses as numbers only.
unsafe impl Meter for Memory {
    fn item(&self, address: usize, _: u32) {
        end_on_panic(|| self.reference(address, 1));
    }

    fn served(&self, _: Part) {}
}

/// Returns working sets for a curve: every one up to [`STEPS`], then that many per doubling, and
/// `last`.
fn curve_points(last: usize) -> impl Iterator<Item = usize> {
    let next = |&pages: &usize| Some(pages + ((1 << pages.ilog2()) / STEPS).max(1));
    let before = std::iter::successors(Some(1), next).take_while(move |&pages| pages < last);
    before.chain((last > 0).then_some(last))
}

/// The results of a reference string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(super) references: u64,
    /// Distinct pages referenced.
    pub(super) pages_touched: u64,
    /// Faults at each requested working set.
    pub(super) faults: Vec<Faults>,
    /// The page-fault curve: pairs of working set and LRU faults. The last working set is the
    /// number of pages touched; larger ones have the same faults.
    pub(super) curve: Vec<(usize, u64)>,
}

/// Page faults at one working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Faults {
    pub(super) lru: u64,
    /// `None` unless CLOCK was requested.
    pub(super) clock: Option<u64>,
}

/// The program: references its blocks as the replay allocates and frees them.
pub(super) struct Program<'m> {
    pub(super) memory: &'m Memory,
    pub(super) touch: Touch,
}

impl<T: ?Sized> Observer<T> for Program<'_> {
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.memory.reference(block.addr().get(), self.touch.at_first(layout.size()));
    }

    unsafe fn leaving(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), String> {
        self.memory.reference(block.addr().get(), self.touch.at_last(layout.size()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_eight_steps_to_a_doubling() {
        assert_eq!(curve_points(10).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let many: Vec<_> = curve_points(1000).collect();
        assert_eq!(many.iter().filter(|&&pages| (64..128).contains(&pages)).count(), 8);
        assert!([1, 2, 4, 8, 16, 256, 512].iter().all(|pages| many.contains(pages)));
        assert_eq!((curve_points(0).count(), many.last()), (0, Some(&1000)));
    }

    #[test]
    fn a_range_refers_to_each_of_its_pages() {
        let memory = Memory::new(4096, Some(&[1]));
        memory.reference(4095, 2);
        memory.item(0, 1);
        memory.reference(usize::MAX, 10);
        let found = memory.found(&[1, 2]);
        assert_eq!((found.references, found.pages_touched), (4, 3));
        assert_eq!(found.faults[0], Faults { lru: 4, clock: Some(4) });
        assert_eq!(found.faults[1], Faults { lru: 3, clock: None });
        assert_eq!(found.curve, [(1, 4), (2, 3), (3, 3)]);
    }
}
