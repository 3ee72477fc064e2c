//! The 18 loads (Nielsen, Tables I and II).
//!
//! The base load is Table I. For the others the paper gives only the figures of Table II. Here they
//! are derived from the base load's sources: the allocations determine the intervals, the
//! coexisting blocks the lifetimes. Loads of more than ten sources reuse Table I's intervals,
//! lifetimes and sizes in other combinations. Only ratios of times matter, since requests carry no
//! times; so all periods are as long as the base load's.

use super::demand::{Demand, PERIOD, PERIODS};
use super::source::{Arrivals, Cycling, Law, Source};

/// Interval, lifetime and size in words of Table I's sources.
const BASE: [(Law, Law, f64); 10] = {
    use Law::{Constant, Exponential, Normal, Uniform};
    [
        (Normal(100.0, 15.0), Exponential(3000.0), 38.0),
        (Uniform(50.0, 100.0), Exponential(1500.0), 15.0),
        (Exponential(125.0), Exponential(4000.0), 7.0),
        (Normal(75.0, 5.0), Exponential(2500.0), 20.0),
        (Uniform(25.0, 45.0), Exponential(250.0), 3.0),
        (Exponential(165.0), Uniform(500.0, 2500.0), 14.0),
        (Exponential(200.0), Normal(3000.0, 900.0), 20.0),
        (Constant(150.0), Normal(900.0, 275.0), 2.0),
        (Exponential(90.0), Exponential(3000.0), 14.0),
        (Normal(125.0, 25.0), Normal(4500.0, 1000.0), 45.0),
    ]
};

/// The sources of a load of three: with many and few blocks, large and small ones.
const THREE: [usize; 3] = [0, 3, 7];

/// Mean size of narrow ranges, in words; and their width relative to the wide range.
const MEAN_SIZE: f64 = 22.0;
const NARROW: f64 = 0.125;

/// In loads marked "mult.", sizes plus one word of overhead are multiples of this.
const MULTIPLE: f64 = 5.0;

/// The range of a load's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    Wide,
    Narrow,
    Multiple,
}

/// How much lifetimes vary: among the blocks of one source, and among the sources' means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifetimes {
    /// Table I's.
    Dissimilar,
    /// One mean and little variation.
    SimilarAll,
    /// One mean.
    SimilarMeans,
    /// Little variation.
    SimilarOwn,
    /// Table I's; every release is followed by an allocation.
    Sequential,
}

/// When sources are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cycles {
    None,
    LongUncoordinated,
    LongCoordinated,
    Short,
}

/// A line of Table II.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) number: usize,
    pub(crate) generators: usize,
    /// Mean number of blocks of a generator.
    pub(crate) coexisting: f64,
    /// Whether that varies much among generators.
    wide: bool,
    pub(crate) sizes: Sizes,
    lifetimes: Lifetimes,
    cycles: Cycles,
    pub(crate) allocations: u32,
}

const fn load(
    number: usize,
    (generators, coexisting, wide): (usize, f64, bool),
    sizes: Sizes,
    lifetimes: Lifetimes,
    cycles: Cycles,
    allocations: u32,
) -> Load {
    Load { number, generators, coexisting, wide, sizes, lifetimes, cycles, allocations }
}

/// Table II.
pub(crate) const LOADS: [Load; 18] = {
    use Cycles::{LongCoordinated, LongUncoordinated, None, Short};
    use Lifetimes::{Dissimilar, Sequential, SimilarAll, SimilarMeans, SimilarOwn};
    use Sizes::{Multiple, Narrow, Wide};
    [
        load(1, (10, 22.0, true), Wide, Dissimilar, None, 9_277),
        load(2, (20, 40.0, true), Wide, Dissimilar, LongUncoordinated, 13_315),
        load(3, (20, 40.0, true), Wide, Dissimilar, LongCoordinated, 13_318),
        load(4, (20, 40.0, true), Wide, Dissimilar, Short, 13_325),
        load(5, (10, 22.0, true), Narrow, Dissimilar, None, 9_235),
        load(6, (10, 22.0, true), Multiple, Dissimilar, None, 9_357),
        load(7, (3, 27.0, true), Wide, Dissimilar, None, 2_647),
        load(8, (3, 27.0, true), Narrow, Dissimilar, None, 2_620),
        load(9, (3, 27.0, true), Multiple, Dissimilar, None, 2_638),
        load(10, (25, 36.0, true), Wide, Dissimilar, None, 29_517),
        load(11, (25, 36.0, true), Narrow, Dissimilar, None, 29_685),
        load(12, (25, 36.0, true), Multiple, Dissimilar, None, 29_462),
        load(13, (10, 33.0, true), Wide, SimilarAll, None, 9_382),
        load(14, (10, 33.0, true), Wide, SimilarMeans, None, 9_266),
        load(15, (10, 22.0, true), Wide, SimilarOwn, None, 9_315),
        load(16, (10, 7.0, false), Wide, Dissimilar, None, 9_303),
        load(17, (10, 50.0, false), Wide, Dissimilar, None, 17_524),
        load(18, (10, 22.0, true), Wide, Sequential, None, 9_365),
    ]
};

impl Load {
    /// Returns the sources of the load.
    pub(crate) fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<_> = (0..self.generators).map(|index| self.source(index)).collect();
        if self.number == 1 {
            // Table I itself.
            return sources;
        }
        let rate: f64 = sources.iter().map(Source::rate).sum();
        let stretch = rate * PERIOD * PERIODS as f64 / f64::from(self.allocations);
        for source in &mut sources {
            source.arrivals = Arrivals::Every(source.interval().scaled(stretch));
        }
        let coexisting: f64 = sources.iter().map(Source::coexisting).sum();
        let stretch = self.coexisting * self.generators as f64 / coexisting;
        for source in &mut sources {
            source.lifetime = source.lifetime.scaled(stretch);
            if self.lifetimes == Lifetimes::Sequential {
                let most = source.coexisting().round() as u32;
                source.arrivals = Arrivals::Sequential(source.interval(), most);
            }
        }
        sources
    }

    /// Returns the demand of the load with this seed.
    pub(crate) fn demand(&self, seed: u64) -> Demand {
        // Loads must differ by more than their parameters.
        Demand::generate(&self.sources(), seed << 8 | self.number as u64)
    }

    /// Returns a source before its intervals and lifetimes are scaled.
    fn source(&self, index: usize) -> Source {
        let (again, place) = match self.generators {
            3 => (0, THREE[index]),
            _ => (index / BASE.len(), index % BASE.len()),
        };
        let other = |step: usize| BASE[(place + again * step) % BASE.len()];
        let (interval, (_, lifetime, _), (_, _, size)) = (BASE[place].0, other(3), other(7));
        let mean = if self.wide { lifetime.mean() } else { interval.mean() };
        let similar = |mean: f64| Law::Normal(mean, (mean / 20.0).powi(2));
        let lifetime = match self.lifetimes {
            Lifetimes::SimilarAll => similar(1.0),
            Lifetimes::SimilarMeans => Law::Exponential(1.0),
            Lifetimes::SimilarOwn => similar(mean),
            Lifetimes::Dissimilar | Lifetimes::Sequential => {
                lifetime.scaled(mean / lifetime.mean())
            }
        };
        let size = match self.sizes {
            Sizes::Wide => size,
            Sizes::Narrow => (MEAN_SIZE + (size - MEAN_SIZE) * NARROW).round(),
            Sizes::Multiple => ((size + 1.0) / MULTIPLE).ceil() * MULTIPLE - 1.0,
        };
        Source {
            arrivals: Arrivals::Every(interval),
            lifetime,
            size: Law::Constant(size),
            blocks: 1,
            cycling: self.cycling(index),
        }
    }

    fn cycling(&self, index: usize) -> Cycling {
        let uncoordinated =
            |turn: f64| Cycling::Uncoordinated { turn: Law::Uniform(0.5 * turn, 1.5 * turn) };
        match self.cycles {
            Cycles::None => Cycling::Never,
            Cycles::LongUncoordinated => uncoordinated(3.0 * PERIOD),
            Cycles::LongCoordinated => {
                Cycling::Coordinated { turn: 3.0 * PERIOD, active_first: index.is_multiple_of(2) }
            }
            Cycles::Short => uncoordinated(0.25 * PERIOD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64, tolerance: f64, what: &str) {
        assert!((found / wanted - 1.0).abs() <= tolerance, "{what}: {found}, wanted {wanted}");
    }

    #[test]
    fn the_base_load_is_table_i() {
        for seed in 1..=3 {
            let demand = LOADS[0].demand(seed);
            near(f64::from(demand.blocks), 9277.0, 0.02, "allocations");
            near(f64::from(demand.most_words), 5768.0, 0.06, "most words in use");
            let lowest = demand.words.iter().min().expect("20 periods");
            near(f64::from(*lowest), 4684.0, 0.12, "fewest words in use");
            assert_eq!(demand.by_period().count(), 20);
            for (allocates, deallocates) in demand.by_period() {
                // The paper: 413 to 474 allocations, 396 to 473 deallocations.
                assert!((390..=500).contains(&allocates), "{allocates} allocations");
                assert!((370..=500).contains(&deallocates), "{deallocates} deallocations");
            }
        }
    }

    #[test]
    fn the_loads_are_table_ii() {
        for load in LOADS {
            let demand = load.demand(1);
            let name = format!("load {}", load.number);
            assert_eq!(demand.coexisting.len(), load.generators);
            near(f64::from(demand.blocks), f64::from(load.allocations), 0.04, &name);
            let mean = demand.coexisting.iter().sum::<f64>() / load.generators as f64;
            near(mean, load.coexisting, 0.1, &name);
            let most = demand.coexisting.iter().copied().fold(0.0, f64::max);
            let least = demand.coexisting.iter().copied().fold(f64::MAX, f64::min);
            assert_eq!(most > 2.0 * least, load.wide, "{name}: {least} to {most}");
            let (smallest, largest) = demand.sizes;
            match load.sizes {
                Sizes::Wide => assert!(largest >= 10 * smallest, "{name}"),
                Sizes::Narrow => assert!(largest < 2 * smallest, "{name}"),
                Sizes::Multiple => {
                    assert_eq!(((smallest + 1) % 5, (largest + 1) % 5), (0, 0), "{name}");
                }
            }
        }
    }

    #[test]
    fn the_seed_determines_the_result() {
        assert_eq!(LOADS[1].demand(7), LOADS[1].demand(7));
        assert_ne!(LOADS[1].demand(7), LOADS[1].demand(8));
    }

    #[test]
    fn sequential_blocks_are_replaced_by_equal_ones() {
        use crate::experiments::nielsen::demand::Request;
        let demand = LOADS[17].demand(1);
        let mut sizes = vec![0; demand.blocks as usize];
        let mut released = None;
        let mut replaced = 0;
        for request in &demand.requests {
            match *request {
                Request::Allocate { block, words } => {
                    if let Some(released) = released.take() {
                        assert_eq!(words, released);
                        replaced += 1;
                    }
                    sizes[block as usize] = words;
                }
                Request::Deallocate { block } => {
                    assert_eq!(released.replace(sizes[block as usize]), None);
                }
            }
        }
        assert!(replaced > 8_000);
    }

    #[test]
    fn a_demand_may_be_for_several_blocks() {
        let one = LOADS[0].sources()[0];
        let demand = Demand::generate(&[Source { blocks: 3, ..one }], 1);
        near(f64::from(demand.blocks), 3.0 * 840.0, 0.02, "allocations");
        near(demand.coexisting[0], 90.0, 0.1, "blocks in use");
    }
}
