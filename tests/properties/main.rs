//! Every strategy of the catalogue in the harness, over memory that is fixed, grows, runs out or
//! was used before; compositions that are not in the catalogue; and several strategies as one.
//!
//! The tests are generated from the catalogue at run time, with names such as
//! `family::STRATEGY::property`; a row there adds a strategy.

mod claims;
mod compositions;
mod configs;
#[path = "../harness/mod.rs"]
mod harness;

use std::alloc::Layout;
use std::cell::Cell;
use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use harness::Bookkeeping;
use harness::source::{Memory, REFUSED, Refusing, USES};
use libtest_mimic::{Arguments, Trial};
use pagewise::catalogue::{self, Entry};
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise::source::{Reserved, Source};
use pagewise::{AllocError, Strategy};
use proptest::prelude::{Just, prop_oneof};
use proptest::strategy::Strategy as _;
use proptest::test_runner::TestRunner;

/// Parameters that pull the paged strategies in different directions.
const CONFIGS: [Config; 7] = [
    Config::with_page_size(4096),
    // The smallest page, the largest unit.
    Config::new().page_size(512).unit(32).ffcrossover(256),
    configs::PAPERS,
    configs::LINEAR,
    configs::GEOMETRIC,
    configs::CLASSES,
    Config::new(),
];

/// Returns one of those, or any valid combination.
fn parameters() -> impl proptest::strategy::Strategy<Value = Config> {
    let sizemap = prop_oneof![
        Just(SizeMap::Linear),
        Just(SizeMap::PageFitting),
        (1.01..4.0).prop_map(|ratio| SizeMap::Geometric { ratio }),
        Just(SizeMap::Classes(&[1, 24, 100, 480])),
    ];
    let any = (9..=16_u32, 0..=6_u32, sizemap, 0.0..=1.0, 0.0..=1.0).prop_map(
        |(page_log2, unit_log2, sizemap, crossover, tolerance)| {
            let page = 1 << page_log2;
            let share = |share: f64| (f64::from(page) * share) as usize;
            Config::with_page_size(page as usize)
                .unit(1 << unit_log2)
                .sizemap(sizemap)
                .ffcrossover(share(crossover))
                .freetol(share(tolerance))
        },
    );
    let any = any.prop_filter("they make sense together", |config| config.check().is_ok());
    prop_oneof![(0..CONFIGS.len()).prop_map(|config| CONFIGS[config]), any]
}

const REGION: usize = 4 << 20;

/// The region for a strategy that takes O(n) time per request.
const SMALL_REGION: usize = 256 << 10;

/// A strategy under test.
#[derive(Clone, Copy)]
struct Subject {
    family: &'static str,
    name: &'static str,
    bookkeeping: Bookkeeping,
    reuses: bool,
    region: usize,
    make: Make,
}

#[derive(Clone, Copy)]
enum Make {
    Named(&'static Entry),
    Composed(compositions::Make),
}

impl Subject {
    fn named(family: &'static str, entry: &'static Entry) -> Self {
        Self {
            family,
            name: entry.name,
            bookkeeping: if entry.in_band { Bookkeeping::InBand } else { Bookkeeping::Apart },
            reuses: entry.reuses,
            region: if entry.linear { SMALL_REGION } else { REGION },
            make: Make::Named(entry),
        }
    }

    fn composed(
        family: &'static str,
        name: &'static str,
        bookkeeping: Bookkeeping,
        make: compositions::Make,
    ) -> Self {
        let make = Make::Composed(make);
        Self { family, name, bookkeeping, reuses: true, region: REGION, make }
    }

    fn make<'a>(&self, config: Config, source: impl Source + 'a) -> Box<dyn Strategy + 'a> {
        match self.make {
            Make::Named(entry) => entry.build_over(config, source, &()).expect("it makes sense"),
            Make::Composed(make) => make(config, Box::new(source)),
        }
    }

    /// Builds the strategy over a region in this memory.
    fn fixed<'a>(&self, config: Config, memory: &'a mut Memory) -> Box<dyn Strategy + 'a> {
        // SAFETY: the strategy has the only borrow of the memory.
        self.make(config, unsafe { memory.region() })
    }
}

/// A property: its name, its test, and whether that takes too long under Miri.
type Property = (&'static str, fn(&Subject), bool);

const PROPERTIES: [Property; 7] = [
    ("keeps_its_promises", keeps_its_promises, false),
    ("serves_nothing_before_anything_else", serves_nothing_before_anything_else, false),
    ("survives_exhaustion", survives_exhaustion, true),
    ("survives_exhaustion_at_every_step", survives_exhaustion_at_every_step, true),
    ("refuses_a_source_that_was_used_before", refuses_a_source_that_was_used_before, false),
    ("only_fails_in_a_region_too_small", only_fails_in_a_region_too_small, false),
    ("withstands_writes_to_free_blocks", withstands_writes_to_free_blocks, false),
];

fn main() -> ExitCode {
    let named = catalogue::families()
        .iter()
        .flat_map(|family| family.entries.iter().map(|entry| Subject::named(family.name, entry)));
    let mut trials = Vec::new();
    for subject in named.chain(compositions::all()) {
        for (property, holds, is_long) in PROPERTIES {
            let name = format!("{}::{}::{property}", subject.family, subject.name);
            let trial = Trial::test(name, move || {
                holds(&subject);
                Ok(())
            });
            trials.push(trial.with_ignored_flag(is_long && cfg!(miri)));
        }
    }
    for (family, entry) in catalogue::families()
        .iter()
        .flat_map(|family| family.entries.iter().map(move |entry| (family.name, entry)))
    {
        let name = format!("{family}::{}::keeps_its_promises_while_it_grows", entry.name);
        trials.push(Trial::test(name, || {
            keeps_its_promises_while_it_grows(entry);
            Ok(())
        }));
    }
    trials.extend(claims::all());
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    println!("{} calls for memory refused", REFUSED.load(Relaxed));
    conclusion.exit_code()
}

/// Checks a property for `cases` values.
fn all_values<T: Debug>(
    cases: u32,
    values: impl proptest::strategy::Strategy<Value = T>,
    holds: impl Fn(T),
) {
    let config =
        proptest::test_runner::Config { cases, source_file: Some(file!()), ..harness::config() };
    let tried = TestRunner::new(config).run(&values, |value| {
        holds(value);
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{error}");
    }
}

fn keeps_its_promises(subject: &Subject) {
    all_values(
        harness::config().cases,
        (harness::requests(), parameters()),
        |(requests, config)| {
            let mut memory = Memory::new(subject.region);
            let mut strategy = subject.fixed(config, &mut memory);
            harness::drive(&mut *strategy, subject.bookkeeping, &requests);
        },
    );
}

/// As the tools build it: over a growing reservation.
fn keeps_its_promises_while_it_grows(entry: &'static Entry) {
    let bookkeeping = Subject::named("", entry).bookkeeping;
    all_values(harness::config().cases.div_ceil(8), harness::requests(), |requests| {
        let mut strategy = entry.build(Config::new(), 1 << 30).expect("it makes sense");
        harness::drive(&mut *strategy, bookkeeping, &requests);
    });
}

fn serves_nothing_before_anything_else(subject: &Subject) {
    use harness::Request::{Allocate, Free, Resize};
    for (config, align) in CONFIGS.into_iter().flat_map(|c| [1, 1024].map(|a| (c, a))) {
        let mut memory = Memory::new(subject.region);
        let mut strategy = subject.fixed(config, &mut memory);
        let requests = [
            Allocate { size: 0, align },
            Free { which: 0 },
            Allocate { size: 0, align },
            Resize { which: 0, size: 100 },
            Resize { which: 0, size: 0 },
        ];
        harness::drive(&mut *strategy, subject.bookkeeping, &requests);
    }
}

fn survives_exhaustion(subject: &Subject) {
    for config in CONFIGS {
        for size in [12, 100, 700, 20_000] {
            let mut memory = Memory::new(subject.region / 4);
            let mut strategy = subject.fixed(config, &mut memory);
            // Pages below the tolerance φ0 stay unused until more of their blocks are freed.
            let reuses = subject.reuses && config.freetol <= size;
            harness::exhaust_and_refill(&mut *strategy, size, reuses);
        }
    }
}

/// Memory runs out at each call for it in turn, once and for good. Mappings count as memory.
fn survives_exhaustion_at_every_step(subject: &Subject) {
    // Sizes that the hybrids map; in other strategies they would only fill the memory.
    let largest = if subject.family == "hasan" { 103_000 } else { 30_000 };
    let requests = harness::fixed_requests(160, largest);
    for config in [CONFIGS[0], CONFIGS[2]] {
        let run = |refused| {
            let source = Reserved::new(subject.region.min(1 << 20));
            let calls = Cell::new(0);
            let mut strategy = subject.make(config, Refusing::new(source, &calls, refused));
            harness::drive(&mut *strategy, subject.bookkeeping, &requests);
            drop(strategy);
            calls.get()
        };
        for refused in 0..run(0..0) {
            run(refused..refused + 1);
            run(refused..usize::MAX);
        }
    }
}

fn refuses_a_source_that_was_used_before(subject: &Subject) {
    for (config, used) in CONFIGS.into_iter().zip(USES) {
        let mut memory = Memory::new(subject.region);
        // SAFETY: the strategy is dropped before the memory.
        let mut region = unsafe { memory.region() };
        used(&mut region);
        let mut strategy = subject.make(config, region);
        for (size, align) in [(1, 1), (100, 8), (5000, 64)] {
            let layout = Layout::from_size_align(size, align).expect("a valid layout");
            assert_eq!(strategy.allocate(layout), Err(AllocError::UsedSource));
            strategy.audit().expect("every invariant holds");
            assert_eq!(strategy.usage().held, 0);
        }
    }
}

fn only_fails_in_a_region_too_small(subject: &Subject) {
    for bytes in [0usize, 8, 64, 512, 1000] {
        let mut memory = Memory::new(bytes);
        let mut strategy = subject.fixed(Config::new(), &mut memory);
        for _ in 0..3 {
            // Boundary tags alone make a block of this size too large for the region.
            let layout = Layout::array::<u8>(bytes.max(64)).expect("a valid layout");
            assert!(strategy.allocate(layout).is_err());
            strategy.audit().expect("every invariant holds");
        }
    }
}

/// For strategies without bookkeeping among the blocks, and without links in free ones.
fn withstands_writes_to_free_blocks(subject: &Subject) {
    let linked = ["STACK", "QUEUE", "BUDDY"].contains(&subject.name);
    if linked || subject.name.ends_with(", linked") || subject.bookkeeping == Bookkeeping::InBand {
        return;
    }
    for config in CONFIGS {
        let mut memory = Memory::new(subject.region);
        let mut strategy = subject.fixed(config, &mut memory);
        let sizes = || (0..120).map(|number| 1 + number * 37 % 700);
        let blocks = |strategy: &mut dyn Strategy| {
            let block = |size| {
                let layout = Layout::from_size_align(size, 4).expect("a valid layout");
                (strategy.allocate(layout).expect("room enough").cast::<u8>(), layout)
            };
            sizes().map(block).collect::<Vec<_>>()
        };
        let first = blocks(&mut *strategy);
        for &(block, layout) in first.iter().step_by(2) {
            // SAFETY: the block is in use; the write afterwards is within the region, which is this
            // test's.
            unsafe {
                strategy.deallocate(block, layout);
                block.write_bytes(0xa5, layout.size());
            }
        }
        strategy.audit().expect("every invariant holds");
        let kept = first.into_iter().skip(1).step_by(2);
        let all: Vec<_> = kept.chain(blocks(&mut *strategy)).collect();
        strategy.audit().expect("every invariant holds");
        let mut extents: Vec<_> =
            all.iter().map(|(block, layout)| (block.addr().get(), layout.size())).collect();
        extents.sort_unstable();
        assert!(extents.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        for (block, layout) in all {
            // SAFETY: it is in use.
            unsafe { strategy.deallocate(block, layout) };
        }
        strategy.audit().expect("every invariant holds");
    }
}
