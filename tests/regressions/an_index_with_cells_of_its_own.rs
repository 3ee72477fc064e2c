//! The index of a good fit has its anchors in the heap's first cells. Best fit with space-fitting
//! took any index, but left it no cells: blocks lay over the anchors, and the links that were read
//! there led out of the memory. No `unsafe` was needed for that.

use pagewise::Strategy;
use pagewise::fit::Good;
use pagewise::head_first::{
    ChunkUp, FitFirst, Halving, NoChunkUp, Order, RegionFirst, SpaceFitting,
};

use crate::{layout, leaked};

/// Fills a heap with blocks, frees every other one, and fills it again.
fn serves<O: Order, H: Halving>(growth: usize, prepared: bool) {
    let memory = leaked(1 << 16);
    let addresses = memory.addresses();
    let mut heap = SpaceFitting::<O, H, Good, _>::new(growth, memory, ());
    if prepared {
        heap.prepare().expect("there is memory");
        assert_eq!(heap.audit(), Ok(()));
    }
    let mut blocks = Vec::new();
    for round in 0..2 {
        for size in (1..).map(|n| 1 + n * 37 % 400) {
            let Ok(block) = heap.allocate(layout(size, 8)) else { break };
            let start = block.cast::<u8>().addr().get();
            assert!(addresses.start <= start && start + block.len() <= addresses.end);
            // SAFETY: the block is in use, and has these bytes.
            unsafe { block.cast::<u8>().write_bytes(0xa5, block.len()) };
            blocks.push((block.cast(), layout(size, 8)));
        }
        assert!(blocks.len() > 100, "{} blocks", blocks.len());
        assert_eq!(heap.audit(), Ok(()), "round {round}");
        let mut keep = false;
        blocks.retain(|&(block, layout)| {
            keep = !keep;
            if !keep {
                // SAFETY: the block is in use, and not used afterwards.
                unsafe { heap.deallocate(block, layout) };
            }
            keep
        });
        assert_eq!(heap.audit(), Ok(()), "round {round}");
    }
}

#[test]
fn has_them_in_every_heap() {
    for (growth, prepared) in [(16, false), (16, true), (4096, false), (4112, true), (8192, true)] {
        serves::<RegionFirst, ChunkUp>(growth, prepared);
        serves::<RegionFirst, NoChunkUp>(growth, prepared);
        serves::<FitFirst, ChunkUp>(growth, prepared);
        serves::<FitFirst, NoChunkUp>(growth, prepared);
    }
}
