//! Tables 2.1 and 3.1, ours: what the paper's text leaves open, each reading switched by itself and some
//! together, on the paper's own programs. The heaps are those of the plain model.

use std::alloc::Layout;
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

/// The tables' numbers: fragmentation, and fit frequencies.
pub(super) const FRAGMENTATION: &str = "2.1";
pub(super) const FITS: &str = "3.1";

/// The paper's algorithms.
const ALGORITHMS: [(&str, Fit, Area); 8] = [
    ("F", Fit::First, Area::None),
    ("LF", Fit::First, Area::Apart),
    ("LFB", Fit::First, Area::Joins),
    ("LFL", Fit::First, Area::Releases),
    ("W", Fit::Worst, Area::None),
    ("LW", Fit::Worst, Area::Apart),
    ("LWB", Fit::Worst, Area::Joins),
    ("LWL", Fit::Worst, Area::Releases),
];

/// Units of 8 bytes there.
const fn growth(bytes: usize) -> usize {
    bytes / 8
}

const PAGE: usize = growth(4 << 10);

const READINGS: [(&str, Reading); 8] = [
    ("as ours: the heap grows by 8 bytes, its end is taken last, all is joined", Reading::OURS),
    ("the rest of an area is put back unjoined", Reading { rest_joins: false, ..Reading::OURS }),
    (
        "the free block at the heap's end is like any other",
        Reading { end_is_last: false, ..Reading::OURS },
    ),
    ("new memory does not join the heap's end", Reading { growth_joins: false, ..Reading::OURS }),
    ("growth of 4 KiB", Reading { growth: PAGE, ..Reading::OURS }),
    (
        "growth of 4 KiB, the rest unjoined",
        Reading { growth: PAGE, rest_joins: false, ..Reading::OURS },
    ),
    (
        "growth of 4 KiB, the rest unjoined, the heap's end like any other",
        Reading { growth: PAGE, rest_joins: false, end_is_last: false, ..Reading::OURS },
    ),
    (
        "growth of 64 KiB, the rest unjoined, the heap's end like any other",
        Reading {
            growth: growth(64 << 10),
            rest_joins: false,
            end_is_last: false,
            ..Reading::OURS
        },
    ),
];

/// Steps of progress for a program.
pub(super) const STEPS: usize = READINGS.len() * ALGORITHMS.len();

/// What came of a program: by reading and algorithm.
pub(super) type Causes = Vec<Vec<Figures>>;

/// Runs all readings of all algorithms over one of the paper's programs.
///
/// # Errors
/// If the trace cannot be read any more.
pub(super) fn measure(
    workload: &Workload,
    words: Words,
    progress: &Progress,
) -> Result<Causes, Stop> {
    let runs = (0..STEPS).into_par_iter().map(|run| {
        let (name, reading) = READINGS[run / ALGORITHMS.len()];
        let (algorithm, fit, area) = ALGORITHMS[run % ALGORITHMS.len()];
        let mut heap = Modelled {
            heap: Plain::new(fit, area, reading),
            extent: Extent::default(),
            allocations: 0,
        };
        workload.replay(&mut Widened::new(&mut heap, words, HEADER), &mut Untouched)?;
        progress.step(1, || format!("{}: {algorithm}, {name}", workload.name));
        let bumps = heap.heap.bumps as f64 / heap.allocations.max(1) as f64;
        Ok(Figures { fragmentation: heap.extent.fragmentation(), fits: 1.0 - bumps })
    });
    let figures = runs.collect::<Result<Vec<_>, Stop>>()?;
    Ok(figures.chunks(ALGORITHMS.len()).map(<[Figures]>::to_vec).collect())
}

/// The plain heap as the simulator drives it: its blocks are numbers.
struct Modelled {
    heap: Plain,
    extent: Extent,
    allocations: u64,
}

/// Bytes of a unit here: 8 there.
const UNIT: usize = 16;

// SAFETY: nobody reads or writes the blocks ([`Untouched`]).
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
        // SAFETY: passed on.
        unsafe { self.free(block, layout) };
        Some(moved)
    }

    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        self.heap.free(block.addr().get() / UNIT);
    }
}

/// A table of this number for each reading.
pub(super) fn tables(number: &'static str, programs: &[(String, String, Causes)]) -> Vec<Table> {
    let (of, theirs, figure): (_, _, fn(&Figures) -> f64) = match number {
        FITS => ("fit frequencies", "3", |figures| figures.fits),
        _ => ("fragmentation", "2", |figures| figures.fragmentation),
    };
    let lazy = |index: &usize| number == FRAGMENTATION || ALGORITHMS[*index].2 != Area::None;
    let columns: Vec<usize> = (0..ALGORITHMS.len()).filter(lazy).collect();
    let table = |(reading, (title, _)): (usize, &(&str, Reading))| {
        let rows = published::PROGRAMS.iter().filter_map(|row| {
            let (name, _, causes) = programs.iter().find(|(_, program, _)| program == row)?;
            let pairs = columns.iter().map(|&index| {
                let published = published::figure(theirs, ALGORITHMS[index].0, row);
                Pair::new(published, 100.0 * figure(&causes[reading][index]))
            });
            Some((format!("{name} ({row})"), pairs.collect()))
        });
        Table {
            number,
            title: format!("{of}, {title}"),
            columns: columns.iter().map(|&index| column(theirs, ALGORITHMS[index].0)).collect(),
            rows: rows.collect(),
            ranked: Ranked::Across,
            ..Table::default()
        }
    };
    READINGS.iter().enumerate().map(table).collect()
}
