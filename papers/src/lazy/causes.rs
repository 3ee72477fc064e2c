//! Tables 2.1, 3.1, 4.1 and 6.1, ours: the details that the paper's text leaves open, each reading
//! tested alone and some together, on the paper's own programs; and lazy first fit in address order
//! (Fig. 1, footnote 1). The heaps are those of the plain model.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::{self, NonNull};

use pagewise_replay::progress::Progress;
use pagewise_replay::workload::{Stop, Target, Workload};
use rayon::prelude::*;

use super::make::column;
use super::plain::{Area, Fit, Plain, Reading};
use super::published;
use super::simulate::{Extent, Figures, HEADER, Untouched};
use crate::table::{Pair, Ranked, Table};
use crate::widened::{Widened, Words};

/// The tables' numbers.
pub(super) const NUMBERS: [&str; 4] = ["2.1", "3.1", "4.1", "6.1"];

/// An algorithm: its name, fit and area.
type Algorithm = (&'static str, Fit, Area);

/// The paper's algorithms.
const ALGORITHMS: &[Algorithm] = &[
    ("F", Fit::First, Area::None),
    ("LF", Fit::First, Area::Apart),
    ("LFB", Fit::First, Area::Joins),
    ("LFL", Fit::First, Area::Releases),
    ("W", Fit::Worst, Area::None),
    ("LW", Fit::Worst, Area::Apart),
    ("LWB", Fit::Worst, Area::Joins),
    ("LWL", Fit::Worst, Area::Releases),
];

/// The algorithms for garbage collection.
const COLLECTED: &[Algorithm] = &[
    ("F", Fit::First, Area::None),
    ("LF", Fit::First, Area::Apart),
    ("W", Fit::Worst, Area::None),
    ("LW", Fit::Worst, Area::Apart),
];

/// First fit in address order, which the paper draws but does not measure.
const IN_ADDRESS_ORDER: &[Algorithm] = &[
    ("F (address)", Fit::Lowest, Area::None),
    ("LF (address)", Fit::Lowest, Area::Apart),
    ("LFB (address)", Fit::Lowest, Area::Joins),
    ("LFL (address)", Fit::Lowest, Area::Releases),
    ("LF (decrement)", Fit::Lowest, Area::Decrements),
];

/// Returns a growth in units, which are 8 bytes there.
const fn growth(bytes: usize) -> usize {
    bytes / 8
}

const PAGE: usize = growth(4 << 10);

/// A reading of an open detail: a part of two of the tables, fragmentation and fit frequencies.
struct Part {
    numbers: [&'static str; 2],
    title: &'static str,
    algorithms: &'static [Algorithm],
    reading: Reading,
    /// Whether frees wait until an allocation fails.
    collected: bool,
}

const fn explicit(title: &'static str, reading: Reading) -> Part {
    Part { numbers: ["2.1", "3.1"], title, algorithms: ALGORITHMS, reading, collected: false }
}

const fn collected(title: &'static str, reading: Reading) -> Part {
    Part { numbers: ["4.1", "6.1"], title, algorithms: COLLECTED, reading, collected: true }
}

const UNJOINED: Reading = Reading { rest_joins: false, ..Reading::OURS };
const BY_PAGES: Reading = Reading { growth: PAGE, ..Reading::OURS };

const PARTS: [Part; 13] = [
    explicit(
        "as ours: the heap grows by 8 bytes, its end is taken last, all is joined",
        Reading::OURS,
    ),
    explicit("the rest of an area is put back unjoined", UNJOINED),
    explicit(
        "the free block at the heap's end is like any other",
        Reading { end_is_last: false, ..Reading::OURS },
    ),
    explicit(
        "new memory does not join the heap's end",
        Reading { growth_joins: false, ..Reading::OURS },
    ),
    explicit("growth of 4 KiB", BY_PAGES),
    explicit("growth of 4 KiB, the rest unjoined", Reading { growth: PAGE, ..UNJOINED }),
    explicit(
        "growth of 4 KiB, the rest unjoined, the heap's end like any other",
        Reading { growth: PAGE, end_is_last: false, ..UNJOINED },
    ),
    explicit(
        "growth of 64 KiB, the rest unjoined, the heap's end like any other",
        Reading { growth: growth(64 << 10), end_is_last: false, ..UNJOINED },
    ),
    Part {
        algorithms: IN_ADDRESS_ORDER,
        ..explicit(
            "first fit in address order (Fig. 1, footnote 1), all else as ours",
            Reading::OURS,
        )
    },
    collected("as ours, garbage-collected", Reading::OURS),
    collected("garbage-collected, the rest of an area put back unjoined", UNJOINED),
    collected(
        "garbage-collected, the free block at the heap's end like any other",
        Reading { end_is_last: false, ..Reading::OURS },
    ),
    collected("garbage-collected, growth of 4 KiB", BY_PAGES),
];

/// Returns the runs of a program that these tables need: part and algorithm.
fn runs(numbers: &[&str]) -> Vec<(usize, usize)> {
    let wanted = |part: &Part| part.numbers.iter().any(|number| numbers.contains(number));
    let parts = PARTS.iter().enumerate().filter(|(_, part)| wanted(part));
    parts
        .flat_map(|(index, part)| (0..part.algorithms.len()).map(move |which| (index, which)))
        .collect()
}

/// Returns the steps of progress per program.
pub(super) fn steps(numbers: &[&str]) -> usize {
    runs(numbers).len()
}

/// A program's results, by part and algorithm.
pub(super) type Causes = HashMap<(usize, usize), Figures>;

/// Runs one of the paper's programs in every way that these tables need.
///
/// # Errors
/// If the trace can no longer be read.
pub(super) fn measure(
    workload: &Workload,
    words: Words,
    numbers: &[&str],
    progress: &Progress,
) -> Result<Causes, Stop> {
    let runs = runs(numbers).into_par_iter().map(|(index, which)| {
        let part = &PARTS[index];
        let (algorithm, fit, area) = part.algorithms[which];
        let new = if part.collected { Plain::collected } else { Plain::new };
        let mut heap = Modelled {
            heap: new(fit, area, part.reading),
            extent: Extent::default(),
            allocations: 0,
        };
        workload.replay(&mut Widened::new(&mut heap, words, HEADER), &mut Untouched)?;
        progress.step(1, || format!("{}: {algorithm}, {}", workload.name, part.title));
        let bumps = heap.heap.bumps as f64 / heap.allocations.max(1) as f64;
        let figures = Figures { fragmentation: heap.extent.fragmentation(), fits: 1.0 - bumps };
        Ok(((index, which), figures))
    });
    runs.collect()
}

/// The plain heap for the simulator; its blocks are numbers, not memory.
struct Modelled {
    heap: Plain,
    extent: Extent,
    allocations: u64,
}

/// Bytes of a unit here; it has 8 in the paper.
const UNIT: usize = 16;

// SAFETY: the blocks are never read or written ([`Untouched`]).
unsafe impl Target for Modelled {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let start = self.heap.allocate((layout.size() + HEADER).div_ceil(UNIT));
        let (held, used) = self.heap.extent();
        self.extent.note(held, used);
        self.allocations += 1;
        NonNull::new(ptr::without_provenance_mut(start * UNIT))
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        let moved = self.allocate(Layout::from_size_align(new_size, layout.align()).ok()?)?;
        // SAFETY: the caller guarantees it.
        unsafe { self.free(block, layout) };
        Some(moved)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        self.heap.free(block.addr().get() / UNIT);
    }
}

/// Returns a table with this number for each of its parts.
pub(super) fn tables(number: &'static str, programs: &[(String, String, Causes)]) -> Vec<Table> {
    let (theirs, _) = number.split_once('.').unwrap_or((number, ""));
    let of_fits = ["3", "6"].contains(&theirs);
    let (of, figure): (_, fn(&Figures) -> f64) = if of_fits {
        ("fit frequencies", |figures| figures.fits)
    } else {
        ("fragmentation", |figures| figures.fragmentation)
    };
    let table = |(index, part): (usize, &Part)| {
        let lazy = |which: &usize| !of_fits || part.algorithms[*which].2 != Area::None;
        let columns: Vec<usize> = (0..part.algorithms.len()).filter(lazy).collect();
        let name = |which: usize| part.algorithms[which].0;
        let rows = published::PROGRAMS.iter().filter_map(|row| {
            let (program, _, causes) = programs.iter().find(|(_, program, _)| program == row)?;
            let pairs = columns.iter().map(|&which| {
                let published = published::figure(theirs, name(which), row);
                Pair::new(published, causes.get(&(index, which)).map(|found| 100.0 * figure(found)))
            });
            Some((format!("{program} ({row})"), pairs.collect()))
        });
        Table {
            number,
            title: format!("{of}, {}", part.title),
            columns: columns.iter().map(|&which| column(theirs, name(which))).collect(),
            rows: rows.collect(),
            ranked: Ranked::Across,
            ..Table::default()
        }
    };
    let parts = PARTS.iter().enumerate().filter(|(_, part)| part.numbers.contains(&number));
    parts.map(table).collect()
}
