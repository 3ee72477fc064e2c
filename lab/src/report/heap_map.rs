//! A picture of a heap over time: for each range of addresses and each part of a run, how full it
//! was, and how old and large its blocks were.
//!
//! ```text
//!  address   ┌─────────────┐  row: `granule` bytes of addresses, a power of two
//!     ▲      │ · · ▒ ▓ ▓ ░ │  column: a part of the run, as it was when the part ended
//!     │      │ ░ ▒ ▓ ▓ ▒ ▒ │
//!            └─────────────┘  ► operations
//! ```
//! The blocks' addresses are not known in advance, and the C library's are far apart. So rows are
//! stored by address, and only those that ever contained a block. When there are more than
//! [`ROWS`], the granule is doubled, and neighbouring rows are merged in all columns, including
//! finished ones. Sums are integers, so that additions and subtractions are exact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of rows.
const ROWS: usize = 160;
/// Maximum number of columns.
const COLUMNS: u64 = 160;
/// Binary logarithm of the smallest granule in bytes.
const FINEST: u32 = 6;
/// Digits of a cell's values: 0 to 63.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/// Steps of a block's size per doubling.
const SIZE_STEPS: f64 = 2.0;

/// The contents of a range of addresses: sums over the bytes of live blocks in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    bytes: u64,
    /// Sum of the numbers of the operations that allocated them.
    births: u128,
    /// Sum of the blocks' sizes, in steps.
    sizes: u128,
}

impl Cell {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.births += other.births;
        self.sizes += other.sizes;
    }

    fn subtract(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.births -= other.births;
        self.sizes -= other.sizes;
    }
}

/// A block, as far as the picture shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) address: usize,
    /// Bytes, not 0.
    pub(super) size: usize,
    /// Number of the operation that allocated it.
    pub(super) born: u64,
}

/// Builds the picture, operation by operation.
#[derive(Debug)]
pub(super) struct Painter {
    /// Binary logarithm of the granule in bytes.
    shift: u32,
    /// By address ÷ granule. Rows that no longer contain a block are kept.
    rows: BTreeMap<usize, Cell>,
    /// The rows at the end of each part, and the operations done by then.
    columns: Vec<(u64, BTreeMap<usize, Cell>)>,
    operations: u64,
    done: u64,
}

impl Painter {
    /// Creates the painter of a run of `operations`.
    pub(super) fn new(operations: u64) -> Self {
        Self { shift: FINEST, rows: BTreeMap::new(), columns: Vec::new(), operations, done: 0 }
    }

    /// Adds a new block.
    pub(super) fn enter(&mut self, block: Block) {
        let last = block.address.saturating_add(block.size - 1);
        while (last >> self.shift) - (block.address >> self.shift) >= ROWS {
            self.coarsen();
        }
        for (row, part) in parts(block, self.shift) {
            self.rows.entry(row).or_default().add(part);
        }
        while self.rows.len() > ROWS {
            self.coarsen();
        }
    }

    /// Removes a block that was added.
    pub(super) fn leave(&mut self, block: Block) {
        for (row, part) in parts(block, self.shift) {
            if let Some(cell) = self.rows.get_mut(&row) {
                cell.subtract(part);
            }
        }
    }

    /// Counts an operation.
    pub(super) fn tick(&mut self) {
        self.done += 1;
        let drawn = self.columns.len() as u128 + 1;
        let columns = self.operations.clamp(1, COLUMNS);
        if u128::from(self.done) * u128::from(columns) >= drawn * u128::from(self.operations) {
            self.columns.push((self.done, self.rows.clone()));
        }
    }

    /// Doubles the granule.
    fn coarsen(&mut self) {
        let join = |rows: &mut BTreeMap<usize, Cell>| {
            let mut joined = BTreeMap::<usize, Cell>::new();
            for (row, cell) in std::mem::take(rows) {
                joined.entry(row >> 1).or_default().add(cell);
            }
            *rows = joined;
        };
        self.shift += 1;
        join(&mut self.rows);
        self.columns.iter_mut().for_each(|(_, rows)| join(rows));
    }

    /// Returns the picture.
    pub(super) fn finish(self) -> HeapMap {
        let granule = 1_u64 << self.shift;
        let rows: Vec<usize> = self.rows.keys().copied().collect();
        let cells = self.columns.len() * rows.len();
        let mut map = HeapMap {
            granule,
            rows: rows.len(),
            columns: self.columns.len(),
            gaps: (1..rows.len()).filter(|&row| rows[row] > rows[row - 1] + 1).collect(),
            fill: String::with_capacity(cells),
            age: String::with_capacity(cells),
            size: String::with_capacity(cells),
        };
        for (now, column) in &self.columns {
            for row in &rows {
                let cell = column.get(row).copied();
                let Cell { bytes, births, sizes } = cell.unwrap_or_default();
                // 0: never used; 1: empty; otherwise how full.
                let fill = match (cell.is_some(), bytes) {
                    (false, _) => 0.0,
                    (true, 0) => 1.0,
                    (true, bytes) => (1.0 + 62.0 * bytes as f64 / granule as f64).max(2.0),
                };
                let mean = |sum: u128| if bytes == 0 { 0.0 } else { sum as f64 / bytes as f64 };
                let age = (*now as f64 - mean(births)).max(0.0) / self.operations.max(1) as f64;
                map.fill.push(digit(fill));
                map.age.push(digit(if bytes == 0 { 0.0 } else { 63.0 * age.sqrt() }));
                map.size.push(digit(mean(sizes)));
            }
        }
        map
    }
}

/// Returns the parts of a block in rows of 2^`shift` bytes.
fn parts(block: Block, shift: u32) -> impl Iterator<Item = (usize, Cell)> {
    let last = block.address.saturating_add(block.size - 1);
    let steps = ((block.size as f64).log2() * SIZE_STEPS).round() as u128;
    (block.address >> shift..=last >> shift).map(move |row| {
        let start = block.address.max(row << shift);
        let end = last.min((row << shift) | ((1 << shift) - 1));
        let bytes = (end - start) as u64 + 1;
        let (born, weight) = (u128::from(block.born), u128::from(bytes));
        (row, Cell { bytes, births: born * weight, sizes: steps * weight })
    })
}

fn digit(value: f64) -> char {
    DIGITS[(value.round() as usize).min(DIGITS.len() - 1)].into()
}

/// A heap's picture, ready to be drawn. Cells are stored by column, each from the lowest address
/// up, as one digit of base 64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeapMap {
    /// Bytes of addresses per row.
    pub(super) granule: u64,
    pub(super) rows: usize,
    columns: usize,
    /// Rows below which addresses are left out, because they never contained a block.
    gaps: Vec<usize>,
    /// 0: never contained a block; 1: contains none; 2 to 63: how full, in steps of 1/62.
    fill: String,
    /// Mean age of the bytes as a share of the run: its square root, in steps of 1/63, because most
    /// blocks are young.
    age: String,
    /// Mean binary logarithm of the blocks' sizes, weighted by bytes, in halves.
    size: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: usize, size: usize, born: u64) -> Block {
        Block { address, size, born }
    }

    #[test]
    fn a_cell_shows_fill_age_and_size() {
        let mut painter = Painter::new(2);
        painter.enter(block(1 << 20, 64, 0));
        painter.tick();
        painter.enter(block((1 << 20) + 64, 32, 1));
        painter.leave(block(1 << 20, 64, 0));
        painter.tick();
        let map = painter.finish();
        assert_eq!((map.granule, map.rows, map.columns), (64, 2, 2));
        assert_eq!(map.gaps, [0; 0]);
        // The full row and the one not used yet, then the emptied row and the half-full one.
        assert_eq!(map.fill, "_01W");
        assert_eq!(&map.size[..1], "C");
        assert_eq!(&map.size[3..], "A");
    }

    #[test]
    fn too_many_rows_are_merged_without_loss() {
        let mut painter = Painter::new(1000);
        for index in 0..1000 {
            painter.enter(block((1 << 30) | (index * 4096), 4096, index as u64));
            painter.tick();
        }
        assert!(painter.rows.len() <= ROWS && painter.rows.len() > ROWS / 2);
        assert_eq!(painter.rows.values().map(|cell| cell.bytes).sum::<u64>(), 4096 * 1000);
        for index in 0..1000 {
            painter.leave(block((1 << 30) | (index * 4096), 4096, index as u64));
        }
        assert!(painter.rows.values().all(|&cell| cell == Cell::default()));
        let map = painter.finish();
        assert_eq!(map.fill.len(), map.rows * map.columns);
    }

    #[test]
    fn distant_heaps_are_stacked() {
        let mut painter = Painter::new(2);
        painter.enter(block(4096, 64, 0));
        painter.enter(block(1 << 46, 1 << 20, 0));
        painter.tick();
        painter.tick();
        let map = painter.finish();
        assert!(map.rows <= ROWS);
        assert_eq!(map.gaps, [1]);
    }

    #[test]
    fn the_largest_possible_block_is_drawn() {
        let mut painter = Painter::new(1);
        painter.enter(block(usize::MAX - 10, 100, 0));
        painter.enter(block(0x1000, isize::MAX as usize, 0));
        painter.tick();
        assert!(painter.finish().rows <= ROWS);
    }
}
