//! Table 5.5, ours: the memory of large blocks under best fit, and under other fits that could
//! replace it (§5.5). The paper says that best fit saves memory there, but has no table of it.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::catalogue::{BestFit, FirstFitList, NextFit, WorstFit};
use pagewise::source::Reserved;
use pagewise_replay::lea::GROWTH;
use pagewise_replay::workload::{CAPACITY, Stop, System, Target, Workload};

use super::program::{Program, replayed};
use super::tuning::HEADER;
use crate::table::{Pair, Table};
use crate::widened::Words;

/// Blocks above this size count as large (§4); header and trailer take 8 bytes.
const LARGEST_SMALL: usize = 1024 - 8;

type Heap = Box<dyn Strategy>;
/// A fit's name, and a function that makes its heap, which grows by this many bytes.
type Fit = (&'static str, fn(usize) -> Heap);

/// The fits: best fit, and the others.
const FITS: [Fit; 4] = [
    ("best, KiB", |growth| Box::new(BestFit::new(growth, Reserved::new(CAPACITY), ()))),
    ("first", |growth| Box::new(FirstFitList::new(growth, Reserved::new(CAPACITY), ()))),
    ("next", |growth| Box::new(NextFit::new(growth, Reserved::new(CAPACITY), ()))),
    ("worst", |growth| Box::new(WorstFit::new(growth, Reserved::new(CAPACITY), ()))),
];

/// Peak bytes held by a program's large blocks, in a heap of their own, under each fit; `None` for
/// a program without large blocks.
pub(super) type Held = Option<[f64; FITS.len()]>;

/// Serves large blocks from the heap, all others from the C library's allocator.
struct LargeAlone {
    heap: Heap,
    largest_small: usize,
}

impl LargeAlone {
    fn is_large(&self, size: usize) -> bool {
        size > self.largest_small
    }
}

// SAFETY: a block is freed to the allocator it came from, because both are chosen by the size in
// the layout, which is the one it was allocated with.
unsafe impl Target for LargeAlone {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        match self.is_large(layout.size()) {
            true => Target::allocate(&mut *self.heap, layout),
            false => System.allocate(layout),
        }
    }

    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: forwarded to the block's own allocator.
        unsafe {
            match [self.is_large(layout.size()), self.is_large(new_size)] {
                [true, true] => Target::reallocate(&mut *self.heap, block, layout, new_size),
                [false, false] => System.reallocate(block, layout, new_size),
                _ => {
                    let new_layout = Layout::from_size_align(new_size, layout.align()).ok()?;
                    let new = self.allocate(new_layout)?;
                    new.copy_from_nonoverlapping(block, layout.size().min(new_size));
                    self.free(block, layout);
                    Some(new)
                }
            }
        }
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: forwarded to the block's own allocator.
        unsafe {
            match self.is_large(layout.size()) {
                true => Target::free(&mut *self.heap, block, layout),
                false => System.free(block, layout),
            }
        }
    }
}

/// Replays the large blocks under each fit.
///
/// # Errors
/// If a replay stops.
pub(super) fn measure(workload: &Workload, words: Words) -> Result<Held, Stop> {
    let mut held = [0.0; FITS.len()];
    for (held, (_, heap)) in held.iter_mut().zip(FITS) {
        let largest_small = words.size(LARGEST_SMALL, HEADER);
        let mut alone = LargeAlone { heap: heap(GROWTH * words.factor()), largest_small };
        replayed(workload, words, &mut alone, HEADER)?;
        *held = alone.heap.usage().peak_held as f64 / words.factor() as f64;
    }
    Ok((held[0] > 0.0).then_some(held))
}

/// Table 5.5.
pub(super) fn table(measured: &[(Program, Held)]) -> Table {
    let row = |(program, held): &(Program, Held)| {
        let figure = |fit: usize| {
            held.map(|held| if fit == 0 { held[0] / 1024.0 } else { held[fit] / held[0] })
        };
        (program.row(), (0..FITS.len()).map(|fit| Pair::new(None, figure(fit))).collect())
    };
    let of = measured.iter().filter_map(|(_, held)| *held);
    let more = |fit: usize| of.clone().filter(|held| held[fit] > held[0]).count();
    let less = |fit: usize| of.clone().filter(|held| held[fit] < held[0]).count();
    let names = FITS.map(|(name, _)| name);
    let all = of.clone().count();
    let counts = (1..FITS.len())
        .map(|fit| format!("{} {} more, {} less", names[fit], more(fit), less(fit)))
        .collect::<Vec<_>>();
    Table {
        number: "5.5",
        title: "memory of the large blocks alone: under best fit, and relative to it".into(),
        rows: measured.iter().map(row).collect(),
        notes: vec![
            "blocks above 1 KiB as the paper counts, joined when freed; all others lie elsewhere"
                .into(),
            format!(
                "of {all} programs with large blocks, relative to best fit: {}",
                counts.join("; ")
            ),
        ],
        ..Table::uncompared(names.into_iter().zip([0, 3, 3, 3]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resizing_keeps_small_blocks_out_of_the_heap() {
        let heap = FITS[0].1(16);
        let mut alone = LargeAlone { heap, largest_small: 1000 };
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let blocks = |alone: &LargeAlone| alone.heap.usage().blocks;
        let small = alone.allocate(layout(1000)).unwrap();
        assert_eq!(blocks(&alone), 0);
        // SAFETY: each block is used with the layout it was allocated with, and only while in use.
        unsafe {
            small.write_bytes(7, 1000);
            let grown = alone.reallocate(small, layout(1000), 3000).unwrap();
            assert_eq!((blocks(&alone), grown.add(999).read()), (1, 7));
            let larger = alone.reallocate(grown, layout(3000), 5000).unwrap();
            assert_eq!((blocks(&alone), larger.read()), (1, 7));
            let shrunk = alone.reallocate(larger, layout(5000), 10).unwrap();
            assert_eq!((blocks(&alone), shrunk.add(9).read()), (0, 7));
            alone.free(shrunk, layout(10));
        }
    }
}
