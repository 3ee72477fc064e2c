//! Table 5.2, ours: COALESCE_IN_FREE, "helpful in programs that allocate a large number of blocks
//! and then free most of them, repeatedly" (§3.11, §5.2). No available program is of that kind, so
//! the loads are made up.

use std::alloc::Layout;

use pagewise::Strategy;
use pagewise::hybrid::{Hybrid, Settings};
use pagewise::source::Reserved;
use pagewise_replay::workload::CAPACITY;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::table::{Pair, Table};

/// Number of peaks in a load, and bytes requested at each.
const PEAKS: usize = 24;
const REQUESTED: usize = 512 << 10;
/// Blocks that are kept in each valley.
const STAYING: usize = 5;

/// The sizes of a peak's requests.
type Sizes = fn(usize) -> Vec<usize>;

/// The loads.
const LOADS: [(&str, Sizes); 4] = [
    ("small blocks, the same sizes", |_| (1..=8).map(|size| 16 * size).collect()),
    ("small blocks, another size each time", |peak| vec![16 * (1 + peak % 8)]),
    ("medium blocks, the same sizes", |_| (1..=8).map(|size| 200 * size).collect()),
    ("medium blocks, another size each time", |peak| vec![200 * (1 + peak % 8)]),
];

/// Returns the peak of the bytes held.
fn held(sizes: Sizes, settings: Settings) -> anyhow::Result<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut heap = Hybrid::new(settings, Reserved::new(CAPACITY), ());
    let mut blocks = Vec::new();
    for peak in 0..PEAKS {
        let sizes = sizes(peak);
        let mut requested = 0;
        while requested < REQUESTED {
            let layout = Layout::from_size_align(sizes[random.random_range(0..sizes.len())], 8)?;
            requested += layout.size();
            blocks.push((heap.allocate(layout)?.cast(), layout));
        }
        blocks.shuffle(&mut random);
        for (block, layout) in blocks.drain(STAYING..) {
            // SAFETY: the block was allocated with this layout, and is not used afterwards.
            unsafe { heap.deallocate(block, layout) };
        }
    }
    Ok(heap.usage().peak_held as f64)
}

/// Table 5.2.
///
/// # Errors
/// If there is no memory.
pub(super) fn table() -> anyhow::Result<Table> {
    let settings = [(true, false), (true, true), (false, false), (false, true)].map(
        |(coalesce_ql, in_free)| {
            Settings::generic().coalesce_ql(coalesce_ql).coalesce_in_free(in_free)
        },
    );
    let rows = LOADS.into_iter().map(|(name, sizes)| {
        let figures = settings.map(|settings| held(sizes, settings));
        let pairs = figures.into_iter().map(|held| Ok(Pair::new(None, held? / 1024.0)));
        Ok((name.to_owned(), pairs.collect::<anyhow::Result<_>>()?))
    });
    let names = ["_QL on, _IN_FREE off", "on, on", "off, off", "off, on"];
    Ok(Table {
        number: "5.2",
        title:
            "memory held by HCgen over peaks and valleys, KiB, by COALESCE_QL and COALESCE_IN_FREE"
                .into(),
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: vec![format!(
            "synthetic loads: {PEAKS} peaks of {} KiB, {STAYING} blocks stay in each valley; all \
             is freed in random order",
            REQUESTED >> 10
        )],
        ..Table::uncompared(names.map(|name| (name, 0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing_in_valleys_saves_memory_when_sizes_change() {
        let [_, (_, changing), ..] = LOADS;
        let off = Settings::generic().coalesce_ql(false);
        let [without, with] =
            [off, off.coalesce_in_free(true)].map(|settings| held(changing, settings).unwrap());
        assert!(without > 4.0 * with, "{without} and {with} bytes");
    }
}
