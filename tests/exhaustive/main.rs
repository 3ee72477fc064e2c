//! Every sequence of operations up to a length, on every strategy of the catalogue over eight small
//! pages.
//!
//! In each state: blocks are disjoint and keep their contents, the walk covers the memory without a
//! gap, the audit passes, the counts are right, and a checked free refuses every address that is
//! not a live block. Where the literature defines which block serves a request, or when none does,
//! [`naive`] computes that in the simplest way, and the strategy must agree.
//!
//! `family::STRATEGY::short_sequences` runs with the other tests. The long form takes half an hour
//! of one core, and prints a table of the states found:
//! ```sh
//! cargo test --release --test exhaustive -- --ignored --test-threads 1
//! ```

mod explore;
mod heap;
mod naive;
mod room;

use std::alloc::Layout;
use std::process::ExitCode;

use explore::{Depth, Explorer, Found};
use heap::Sizes;
use libtest_mimic::{Arguments, Trial};
use naive::{Chain, Choice, LARGEST, Naive, PAGE, Page};
use pagewise::Strategy;
use pagewise::catalogue::{self, Entry, Family};
use pagewise::pages::Config;
use pagewise::walk::SpanKind;
use room::{Room, RoomSource};

/// Sizes and alignments: ten, three and two blocks per page, the last aligned within the page; and
/// one block of three pages.
const SIZES: Sizes = [(40, 8), (160, 16), (240, 64), (1500, 8)];

const PAGES: usize = 8;

const CONFIG: Config = Config::new().page_size(PAGE).unit(16).ffcrossover(LARGEST);

const ALL: &[u8] = &[0, 1, 2, 3];

/// Sequences short enough for a debug build: a fraction of a second.
const SHORT: &[Depth] = &[
    Depth { operations: 4, resizes: 4, sizes: ALL },
    Depth { operations: 5, resizes: 0, sizes: ALL },
];

const LONG: &[Depth] = &[
    Depth { operations: 6, resizes: 2, sizes: ALL },
    Depth { operations: 8, resizes: 0, sizes: ALL },
    DEEP,
];

/// 13 operations suffice for two pages with different numbers of free blocks, neither the current
/// one.
const DEEP: Depth = Depth { operations: 13, resizes: 0, sizes: &[1] };

fn make(entry: &Entry, source: RoomSource) -> Box<dyn Strategy> {
    match entry.name {
        // The catalogue's KINGSLEY has pages of 4096 bytes.
        "KINGSLEY" => Box::new(catalogue::Kingsley::new(PAGE, source, ())),
        _ => entry.build_over(CONFIG, source, &()).expect("it makes sense"),
    }
}

/// Returns the bytes of tables that the strategy needs, besides its pages, once it has served each
/// size.
fn bookkeeping(entry: &Entry) -> usize {
    /// Longer headers are tables, not boundary tags.
    const TAGS: usize = 64;
    let mut room = Room::new(1 << 16, |source| make(entry, source));
    for (size, align) in SIZES {
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        room.strategy_mut().allocate(layout).expect("room enough");
    }
    let mut bytes = 0;
    room.strategy().walk(&mut |span| {
        if span.kind == SpanKind::Header && span.len > TAGS {
            bytes += span.len;
        }
    });
    bytes
}

fn naive(family: &str, strategy: &str) -> Naive {
    match (family, strategy) {
        ("brent", "STACK") => Naive::chained(Chain::Stack),
        ("brent", "QUEUE") => Naive::chained(Chain::Queue),
        ("brent", "NOFREE") => Naive::Never { used: Vec::new() },
        ("brent", "FIRST-FIT") => Naive::Lowest,
        ("brent", "RANDOM(B)") => Naive::paged(Page::Any),
        ("brent", "MOST-FREE") => Naive::paged(Page::MostFree),
        ("brent", "LEAST-FREE") => Naive::paged(Page::LeastFree),
        ("brent", "MRU") => Naive::paged(Page::LastFreed),
        ("fits", "BUDDY") => Naive::Buddies,
        ("fits", "FIRST-FIT (LIST)") => Naive::Fit(Choice::Lowest),
        ("fits", "BEST-FIT") | ("lazy", "B") => Naive::Fit(Choice::Smallest),
        ("fits", "WORST-FIT") | ("lazy", "W") => Naive::Fit(Choice::Largest),
        ("hasan", "KINGSLEY") => Naive::chained(Chain::Kingsley),
        ("fits" | "lazy" | "hasan" | "head-firsts", _) => Naive::Fit(Choice::Any),
        ("default", name) => Naive::Above { has_tags: name != "SMALL" },
        // Not modelled: buddies, rounded sizes, and delayed compaction.
        ("brent", _) | ("nielsen", "IV-2" | "IV-3") => Naive::Unspecified,
        ("nielsen", name) if name.starts_with("V-") => Naive::Unspecified,
        _ => Naive::Roughly,
    }
}

fn explore(family: &Family, entry: &Entry, depth: Depth) -> Found {
    let room = Room::new(PAGES * PAGE + bookkeeping(entry), |source| make(entry, source));
    Explorer::new(room, SIZES, naive(family.name, entry.name)).run(depth)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if arguments.ignored {
        println!(
            "| strategy | sizes | operations | resizes | states | shapes | steps | refused | predicted |"
        );
    }
    let families = catalogue::families().iter();
    let all = families.flat_map(|family| family.entries.iter().map(move |entry| (family, entry)));
    let trials = all.flat_map(|(family, entry)| {
        let name = |what| format!("{}::{}::{what}", family.name, entry.name);
        let short = Trial::test(name("short_sequences"), move || {
            for &depth in SHORT {
                explore(family, entry, depth);
            }
            if matches!(naive(family.name, entry.name), Naive::Paged { .. }) {
                explore(family, entry, DEEP);
            }
            Ok(())
        });
        let long = Trial::test(name("long_sequences"), move || {
            for &depth in LONG {
                let Found { states, shapes, steps, refused, predicted } =
                    explore(family, entry, depth);
                let Depth { operations, resizes, sizes } = depth;
                let sizes = sizes.len();
                println!(
                    "\n| {} | {sizes} | {operations} | {resizes} | {states} | {shapes} | {steps} | {refused} | {predicted} |",
                    entry.name
                );
            }
            Ok(())
        });
        [short, long.with_ignored_flag(true)]
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
