//! Every strategy against the harness: one line each, in the module of its family.

#[path = "../harness/mod.rs"]
mod harness;

use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;

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
    ($bookkeeping:ident; $($strategies:tt)*) => {
        strategies! { $bookkeeping in crate::REGION; $($strategies)* }
    };
    // A region of so many bytes: a small one for strategies that take time O(n) for a request.
    ($bookkeeping:ident in $region:expr; $($name:ident: $reuses:literal, |$config:ident, $source:ident| $make:expr;)*) => {$(
        mod $name {
            #[allow(unused_imports)] // not every family needs all of them
            use super::*;
            use crate::{CONFIGS, harness};
            use pagewise::pages::Config;
            use pagewise::source::Source;
            use proptest::prelude::*;
            use std::cell::Cell;

            const REGION: usize = $region;

            fn make<S: Source>($config: Config, $source: S) -> impl pagewise::Strategy {
                $make
            }

            proptest! {
                #![proptest_config(harness::config())]

                #[test]
                fn keeps_its_promises(
                    requests in harness::requests(),
                    config in 0..CONFIGS.len(),
                ) {
                    let mut memory = harness::source::Memory::new(REGION);
                    // SAFETY: the strategy is dropped before the memory.
                    let mut strategy = make(CONFIGS[config], unsafe { memory.region() });
                    let bookkeeping = harness::Bookkeeping::$bookkeeping;
                    harness::drive(&mut strategy, bookkeeping, &requests);
                }
            }

            #[test]
            fn serves_nothing_before_anything_else() {
                use harness::Request::{Allocate, Free, Resize};
                for (config, align) in CONFIGS.into_iter().flat_map(|c| [1, 1024].map(|a| (c, a))) {
                    let mut memory = harness::source::Memory::new(REGION);
                    // SAFETY: the strategy is dropped before the memory.
                    let mut strategy = make(config, unsafe { memory.region() });
                    let requests = [
                        Allocate { size: 0, align },
                        Free { which: 0 },
                        Allocate { size: 0, align },
                        Resize { which: 0, size: 100 },
                        Resize { which: 0, size: 0 },
                    ];
                    harness::drive(&mut strategy, harness::Bookkeeping::$bookkeeping, &requests);
                }
            }

            #[test]
            #[cfg_attr(miri, ignore = "fills regions, by hundreds of thousands of blocks")]
            fn survives_exhaustion() {
                for config in CONFIGS {
                    for size in [12, 100, 700, 20_000] {
                        let mut memory = harness::source::Memory::new(REGION / 4);
                        // SAFETY: the strategy is dropped before the memory.
                        let mut strategy = make(config, unsafe { memory.region() });
                        // Pages below the tolerance φ0 wait for more of their blocks to be freed.
                        let reuses = $reuses && config.freetol <= size;
                        harness::exhaust_and_refill(&mut strategy, size, reuses);
                    }
                }
            }

            /// Memory runs out at each call that asks for it, once and for good.
            #[test]
            #[cfg_attr(miri, ignore = "plays its requests again for each call of the source")]
            fn survives_exhaustion_at_every_step() {
                /// Calls refused, if there are more.
                const MOST: usize = 40;
                let requests = harness::fixed_requests(160);
                for config in [CONFIGS[0], CONFIGS[2]] {
                    let run = |refused| {
                        let mut memory = harness::source::Memory::new(REGION.min(1 << 20));
                        let calls = Cell::new(0);
                        // SAFETY: the strategy is dropped before the memory.
                        let region = unsafe { memory.region() };
                        let source = harness::source::Refusing::new(region, &calls, refused);
                        let mut strategy = make(config, source);
                        let bookkeeping = harness::Bookkeeping::$bookkeeping;
                        harness::drive(&mut strategy, bookkeeping, &requests);
                        drop(strategy);
                        calls.get()
                    };
                    for refused in 0..run(0..0).min(MOST) {
                        run(refused..refused + 1);
                        run(refused..usize::MAX);
                    }
                }
            }

            #[test]
            fn refuses_a_source_that_was_used_before() {
                for (config, used) in CONFIGS.into_iter().zip(harness::source::USES) {
                    let mut memory = harness::source::Memory::new(REGION);
                    // SAFETY: the strategy is dropped before the memory.
                    let mut region = unsafe { memory.region() };
                    used(&mut region);
                    let mut strategy = make(config, region);
                    for (size, align) in [(1, 1), (100, 8), (5000, 64)] {
                        let layout = std::alloc::Layout::from_size_align(size, align);
                        let answer = pagewise::Strategy::allocate(&mut strategy, layout.unwrap());
                        assert_eq!(answer, Err(pagewise::AllocError::UsedSource));
                        pagewise::Strategy::audit(&strategy).expect("every invariant holds");
                        assert_eq!(pagewise::Strategy::usage(&strategy).held, 0);
                    }
                }
            }

            #[test]
            fn a_region_too_small_for_anything_only_fails() {
                for bytes in [0usize, 8, 64, 512, 1000] {
                    let mut memory = harness::source::Memory::new(bytes);
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

mod brent;
mod by_name;
mod claims;
mod default;
mod fit;
mod head_first;
mod hybrid;
mod lazy;
mod nielsen;
