//! Tables 1 to 7: the heap block by block, published and ours.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::head_first::{
    ChunkUp, FitFirst, Halving, NoChunkUp, Order, RegionFirst, SpaceFitting, Traverse,
};
use pagewise::source::Reserved;
use pagewise::walk::SpanKind;
use pagewise::{FreeResult, Strategy};

use crate::table::{Column, Pair, Ranked, Table};

/// The paper's memory, bytes.
const MEMORY: usize = 16 << 20;

type Heap<O, H> = SpaceFitting<O, H, Traverse, Reserved>;

/// A block: position of its bookkeeping, whether it is free, and its addressable bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Block {
    position: usize,
    free: bool,
    size: usize,
}

const fn free(position: usize, size: usize) -> Block {
    Block { position, free: true, size }
}

const fn used(position: usize, size: usize) -> Block {
    Block { position, free: false, size }
}

const TABLE_1: &[Block] = &[free(0, 8_388_584), free(8_388_600, 8_388_600)];

const TABLE_2: &[Block] = &[
    used(0, 8),
    free(24, 16_776_976),
    used(16_777_016, 16),
    free(16_777_048, 128),
    used(16_777_192, 8),
];

const TABLE_3: &[Block] = &[
    used(0, 8),
    used(24, 8),
    free(48, 128),
    used(192, 16),
    free(224, 8_388_360),
    free(8_388_600, 8_388_600),
];

const TABLE_4: &[Block] = &[
    used(0, 8),
    used(24, 8),
    used(48, 32),
    free(96, 80),
    used(192, 16),
    free(224, 8_388_360),
    free(8_388_600, 8_388_600),
];

const TABLE_5: &[Block] = &[
    used(0, 8),
    free(24, 16_776_928),
    used(16_776_968, 32),
    used(16_777_016, 16),
    free(16_777_048, 128),
    used(16_777_192, 8),
];

/// How many of the requests behind the tables are performed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Until {
    /// Memory is laid out.
    Fresh,
    /// Blocks of 8, 8, 128 and 16 bytes are allocated, and the one of 128 is freed.
    FourRequests,
    /// A block of 32 bytes is allocated.
    Fifth,
    /// The block of 32 bytes is freed.
    Freed,
}

/// Performs the requests and returns the heap's blocks.
fn play<O: Order, H: Halving>(until: Until) -> anyhow::Result<Vec<Block>> {
    let mut heap: Heap<O, H> = SpaceFitting::new(MEMORY, Reserved::new(MEMORY), ());
    heap.prepare()?;
    let mut blocks = Vec::new();
    if until >= Until::FourRequests {
        for size in [8, 8, 128, 16] {
            blocks.push(allocate(&mut heap, size)?);
        }
        release(&mut heap, blocks[2], 128)?;
    }
    if until >= Until::Fifth {
        let fifth = allocate(&mut heap, 32)?;
        if until == Until::Freed {
            release(&mut heap, fifth, 32)?;
        }
    }
    Ok(chain(&heap))
}

fn allocate<S: Strategy>(heap: &mut S, size: usize) -> anyhow::Result<NonNull<u8>> {
    Ok(heap.allocate(Layout::from_size_align(size, 1)?)?.cast())
}

fn release<S: Strategy>(heap: &mut S, block: NonNull<u8>, size: usize) -> anyhow::Result<()> {
    let layout = Layout::from_size_align(size, 1)?;
    // SAFETY: the block is no longer used.
    let answer = unsafe { heap.try_free(block, layout) };
    anyhow::ensure!(
        answer == FreeResult::Freed,
        "a block of {size} bytes was not freed: {answer:?}"
    );
    Ok(())
}

/// Returns a heap's blocks in address order.
fn chain<S: Strategy>(heap: &S) -> Vec<Block> {
    let mut chain: Vec<Block> = Vec::new();
    let mut head = None;
    heap.walk(&mut |span| {
        if matches!(span.kind, SpanKind::Block | SpanKind::Free) {
            let position = span.start - *head.get_or_insert(span.start);
            chain.push(Block { position, free: span.kind == SpanKind::Free, size: span.len });
        }
    });
    chain
}

/// Returns the published blocks beside ours.
fn table(number: &'static str, title: &str, published: &[Block], ours: &[Block]) -> Table {
    let rows = published.iter().zip(ours).enumerate().map(|(index, (published, ours))| {
        let pair =
            |figure: fn(&Block) -> usize| Pair::new(figure(published) as f64, figure(ours) as f64);
        let figures = [
            pair(|block| block.position),
            pair(|block| usize::from(block.free)),
            pair(|block| block.size),
        ];
        (format!("block {}", index + 1), figures.into())
    });
    let mut notes = vec![
        "i counts from the first block's bookkeeping, which takes 16 bytes in the paper and 8 here, \
         in units of 8 and 16"
            .to_owned(),
    ];
    if published.len() != ours.len() {
        let (theirs, ours) = (published.len(), ours.len());
        notes.push(format!("the paper has {theirs} blocks, ours are {ours}"));
    }
    Table {
        number,
        title: title.to_owned(),
        columns: vec![
            Column::new("i", 0).within(16.0),
            Column::new("free", 0).within(0.0),
            Column::new("size", 0).within(16.0),
        ],
        rows: rows.collect(),
        notes,
        ranked: Ranked::Not,
        ..Table::default()
    }
}

pub(super) fn table_1() -> anyhow::Result<Table> {
    let ours = play::<RegionFirst, NoChunkUp>(Until::Fresh)?;
    Ok(table("1", "fresh memory", TABLE_1, &ours))
}

pub(super) fn table_2() -> anyhow::Result<Table> {
    let ours = play::<RegionFirst, NoChunkUp>(Until::FourRequests)?;
    Ok(table("2", "head-first: the unallocated region at the head", TABLE_2, &ours))
}

pub(super) fn table_3() -> anyhow::Result<Table> {
    let ours = play::<FitFirst, ChunkUp>(Until::FourRequests)?;
    Ok(table("3", "non head-first: the unallocated region at the end", TABLE_3, &ours))
}

pub(super) fn table_4() -> anyhow::Result<Table> {
    let ours = play::<FitFirst, ChunkUp>(Until::Fifth)?;
    Ok(table("4", "non head-first: the best fit is split for 32 bytes", TABLE_4, &ours))
}

pub(super) fn table_5() -> anyhow::Result<Table> {
    let ours = play::<RegionFirst, NoChunkUp>(Until::Fifth)?;
    Ok(table("5", "head-first: 32 bytes from the unallocated region", TABLE_5, &ours))
}

pub(super) fn table_6() -> anyhow::Result<Table> {
    let ours = play::<FitFirst, ChunkUp>(Until::Freed)?;
    Ok(table("6", "non head-first: the 32 bytes are freed", TABLE_3, &ours))
}

pub(super) fn table_7() -> anyhow::Result<Table> {
    let ours = play::<RegionFirst, NoChunkUp>(Until::Freed)?;
    Ok(table("7", "head-first: the 32 bytes are freed", TABLE_2, &ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paper's block with our bookkeeping, unless it is the region or a half.
    fn scaled(block: &Block) -> (bool, usize) {
        (block.free, (block.size + 8).next_multiple_of(16) - 8)
    }

    #[test]
    fn every_walk_matches_the_papers_block_for_block() {
        let made = [
            (TABLE_1, play::<RegionFirst, NoChunkUp>(Until::Fresh)),
            (TABLE_2, play::<RegionFirst, NoChunkUp>(Until::FourRequests)),
            (TABLE_3, play::<FitFirst, ChunkUp>(Until::FourRequests)),
            (TABLE_4, play::<FitFirst, ChunkUp>(Until::Fifth)),
            (TABLE_5, play::<RegionFirst, NoChunkUp>(Until::Fifth)),
            (TABLE_3, play::<FitFirst, ChunkUp>(Until::Freed)),
            (TABLE_2, play::<RegionFirst, NoChunkUp>(Until::Freed)),
        ];
        for (published, ours) in made {
            let ours = ours.expect("memory enough");
            assert_eq!(ours.len(), published.len());
            for (published, ours) in published.iter().zip(&ours) {
                assert_eq!(published.free, ours.free);
                if published.size < 1_000 {
                    assert_eq!(scaled(published), (ours.free, ours.size));
                }
                assert!(published.size.abs_diff(ours.size) <= 16);
                assert!(published.position.abs_diff(ours.position) <= 16);
            }
        }
    }
}
