//! The paper's algorithms by its abbreviations (its Table 1), those of best fit in addition, and
//! two in which a cause of fragmentation is switched off.

use std::cell::Cell;

use pagewise::Strategy;
use pagewise::catalogue::{
    CollectedBestFit, CollectedFirstFit, CollectedWorstFit, LazyBestFit, LazyFirstFit, LazyWorstFit,
};
use pagewise::fit::{Apart, Bounded, Joining, NoArea, Releasing, Sparing};
use pagewise::meter::{Meter, Part};
use pagewise::source::Reserved;
use pagewise_replay::workload::CAPACITY;

/// A meter that counts the requests served by the free-space area.
#[derive(Debug, Default)]
pub(super) struct Shares {
    bumps: Cell<u64>,
}

impl Shares {
    /// Returns the number of allocations served by the area.
    pub(super) fn bumps(&self) -> u64 {
        self.bumps.get()
    }
}

// SAFETY: it only counts, with arithmetic that wraps.
unsafe impl Meter for Shares {
    fn item(&self, _: usize, _: u32) {}
    fn served(&self, part: Part) {
        self.bumps.set(self.bumps.get().wrapping_add(u64::from(part == Part::Area)));
    }
}

/// Makes an algorithm over a heap that grows by this many bytes.
pub(super) type Build = for<'m> fn(usize, &'m Shares) -> Box<dyn Strategy + 'm>;

/// An algorithm of the paper.
pub(super) struct Algorithm {
    /// Its abbreviation.
    pub(super) name: &'static str,
    /// The abbreviation of its fit without laziness.
    pub(super) conventional: &'static str,
    /// The algorithm with explicit frees.
    pub(super) explicit: Build,
    /// The same with garbage collection. There the coalescing variants do not differ, and the paper
    /// has only one of them.
    pub(super) collected: Option<Build>,
    /// The explicit one without metering.
    pub(super) timed: fn(usize) -> Box<dyn Strategy>,
}

impl Algorithm {
    pub(super) fn is_lazy(&self) -> bool {
        self.name != self.conventional
    }
}

macro_rules! algorithm {
    ($name:literal of $conventional:literal, $fit:ident<$area:ident>) => {
        Algorithm {
            name: $name,
            conventional: $conventional,
            explicit: |growth, meter| {
                let source = Reserved::new(CAPACITY);
                Box::new($fit::<$area, _, _>::new(growth, source, meter))
            },
            collected: None,
            timed: |growth| {
                let source = Reserved::new(CAPACITY);
                Box::new($fit::<$area, _>::new(growth, source, ()))
            },
        }
    };
    ($name:literal of $conventional:literal, $fit:ident<$area:ident>, and $collected:ident) => {
        Algorithm {
            collected: Some(|growth, meter| {
                let source = Reserved::new(CAPACITY);
                Box::new($collected::<$area, _, _>::new(growth, source, meter))
            }),
            ..algorithm!($name of $conventional, $fit<$area>)
        }
    };
}

/// LFL with its area limited, so that it fragments no more than F.
type BoundedLfl = Bounded<Releasing, 256>;
/// LFL whose area is never the wilderness.
type SparingLfl = Sparing<Releasing>;

pub(super) static ALGORITHMS: [Algorithm; 14] = [
    algorithm!("F" of "F", LazyFirstFit<NoArea>, and CollectedFirstFit),
    algorithm!("LF" of "F", LazyFirstFit<Apart>, and CollectedFirstFit),
    algorithm!("LFB" of "F", LazyFirstFit<Joining>),
    algorithm!("LFL" of "F", LazyFirstFit<Releasing>),
    algorithm!("LFL, 256 B" of "F", LazyFirstFit<BoundedLfl>),
    algorithm!("LFL, spared" of "F", LazyFirstFit<SparingLfl>),
    algorithm!("W" of "W", LazyWorstFit<NoArea>, and CollectedWorstFit),
    algorithm!("LW" of "W", LazyWorstFit<Apart>, and CollectedWorstFit),
    algorithm!("LWB" of "W", LazyWorstFit<Joining>),
    algorithm!("LWL" of "W", LazyWorstFit<Releasing>),
    algorithm!("B" of "B", LazyBestFit<NoArea>, and CollectedBestFit),
    algorithm!("LB" of "B", LazyBestFit<Apart>, and CollectedBestFit),
    algorithm!("LBB" of "B", LazyBestFit<Joining>),
    algorithm!("LBL" of "B", LazyBestFit<Releasing>),
];
