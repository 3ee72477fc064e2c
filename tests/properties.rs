//! Every strategy against the harness: one line each.

mod harness;

use pagewise::catalogue::{
    BestFit, Buddy, FirstFit, FirstFitList, LeastFree, MostFree, Mru, NextFit, NoFree, Queue,
    Quick, Random, RandomB, Stack, WorstFit,
};
use pagewise::paged::{self, Config, CurrentPage, InBand, LeftHeaders, Paged};
use pagewise::sizemap::SizeMap;
use pagewise::source::Region;
use proptest::prelude::*;

/// Parameters that pull the paged strategies in different directions.
const CONFIGS: [Config; 7] = [
    Config::with_page_size(4096),
    // The smallest page, the largest unit.
    Config { page_size: 512, unit: 32, ffcrossover: 256, ..Config::new() },
    // The papers' machine.
    Config { page_size: 512, unit: 8, ffcrossover: 120, ..Config::new() },
    // All by pages; every size a class; a high tolerance.
    Config {
        page_size: 4096,
        ffcrossover: 4096,
        sizemap: SizeMap::Linear,
        freetol: 1638,
        ..Config::new()
    },
    // Few classes; blocks aligned to 4 bytes only.
    Config {
        page_size: 2048,
        unit: 4,
        ffcrossover: 2048,
        sizemap: SizeMap::Geometric { ratio: core::f64::consts::E },
        ..Config::new()
    },
    // Given classes, with FIRST-FIT above the last of them.
    Config {
        page_size: 1024,
        unit: 8,
        ffcrossover: 512,
        sizemap: SizeMap::Classes(&[24, 48, 200]),
        freetol: 400,
        ..Config::new()
    },
    Config::new(),
];

const REGION: usize = 4 << 20;

macro_rules! strategies {
    ($bookkeeping:ident; $($name:ident: $reuses:literal, |$config:ident, $source:ident| $make:expr;)*) => {$(
        mod $name {
            use super::*;

            fn make($config: Config, $source: Region) -> impl pagewise::Strategy {
                $make
            }

            proptest! {
                #![proptest_config(harness::config())]

                #[test]
                fn keeps_its_promises(
                    requests in harness::requests(),
                    config in 0..CONFIGS.len(),
                ) {
                    let mut memory = harness::Memory::new(REGION);
                    // SAFETY: the strategy is dropped before the memory.
                    let mut strategy = make(CONFIGS[config], unsafe { memory.region() });
                    let bookkeeping = harness::Bookkeeping::$bookkeeping;
                    harness::drive(&mut strategy, bookkeeping, &requests);
                }
            }

            #[test]
            fn survives_exhaustion() {
                for config in CONFIGS {
                    for size in [12, 100, 700, 20_000] {
                        let mut memory = harness::Memory::new(REGION / 4);
                        // SAFETY: the strategy is dropped before the memory.
                        let mut strategy = make(config, unsafe { memory.region() });
                        // Pages below the tolerance φ0 wait for more of their blocks to be freed.
                        let reuses = $reuses && config.freetol <= size;
                        harness::exhaust_and_refill(&mut strategy, size, reuses);
                    }
                }
            }

            #[test]
            fn a_region_too_small_for_anything_only_fails() {
                for bytes in [0usize, 8, 64, 512, 1000] {
                    let mut memory = harness::Memory::new(bytes);
                    // SAFETY: the strategy is dropped before the memory.
                    let mut strategy = make(Config::new(), unsafe { memory.region() });
                    for _ in 0..3 {
                        // Tags alone would leave room for less than all of the region.
                        let layout = std::alloc::Layout::array::<u8>(bytes.max(64));
                        let layout = layout.expect("a valid layout");
                        assert!(pagewise::Strategy::allocate(&mut strategy, layout).is_err());
                        pagewise::Strategy::audit(&strategy).expect("every invariant holds");
                    }
                }
            }
        }
    )*};
}

/// A strategy whose free blocks are linked through the blocks themselves.
type Linked<O, S> = Paged<CurrentPage<LeftHeaders<O>, InBand>, S>;

strategies! {
    Apart;
    stack: true, |config, source| Stack::new(config, source, ());
    queue: true, |config, source| Queue::new(config, source, ());
    random: true, |config, source| Random::new(config, source, ());
    no_free: false, |config, source| NoFree::new(config, source, ());
    quick: false, |config, source| Quick::new(config, source, ());
    first_fit: true, |config, source| FirstFit::new(config.unit, 64 * config.unit, source, ());
    first_fit_wide: true, |config, source| {
        FirstFit::with_segments(config.unit, 256 * config.unit, 1 << 14, source, ())
    };
    buddy: true, |config, source| Buddy::new(config.unit.max(16), 4096, source, ());
    random_b: true, |config, source| RandomB::new(config, source, ());
    most_free: true, |config, source| MostFree::new(config, source, ());
    least_free: true, |config, source| LeastFree::new(config, source, ());
    mru: true, |config, source| Mru::new(config, source, ());
    most_free_linked: true, |config, source| Linked::<paged::MostFree, _>::new(config, source, ());
    mru_linked: true, |config, source| Linked::<paged::Mru, _>::new(config, source, ());
    random_b_linked: true, |config, source| {
        Paged::<CurrentPage<paged::RandomB, InBand>, _>::new(config, source, ())
    };
}

strategies! {
    InBand;
    best_fit: true, |config, source| BestFit::new(config.page_size, source, ());
    first_fit_list: true, |config, source| FirstFitList::new(config.page_size, source, ());
    next_fit: true, |config, source| NextFit::new(config.page_size, source, ());
    worst_fit: true, |config, source| WorstFit::new(config.page_size, source, ());
}
