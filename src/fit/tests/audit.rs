//! Audits report damaged tags and links: examples for each index.

use super::*;
use crate::tags::CELL;

/// Words of a free block, counted from its contents: links, and header.
const FIRST: isize = 0;
const SECOND: isize = 1;
const HEADER: isize = -1;

/// A heap with free blocks between blocks in use, and the start of each free block in cells.
struct Holes<P> {
    heap: Heap<P>,
    starts: Vec<u32>,
}

fn holed<P: Index>(sizes: &[usize]) -> Holes<P> {
    let (heap, blocks) = holes::<P, NoArea>(sizes);
    let origin = heap.engine.cells.origin().addr();
    let start = |block: &NonNull<u8>| ((block.addr().get() - origin) / CELL) as u32;
    let starts = blocks.iter().map(start).collect();
    Holes { heap, starts }
}

impl<P: Index> Holes<P> {
    /// Returns a word of a block, counted from its contents.
    fn word(&mut self, block: usize, word: isize) -> &mut u32 {
        let contents: *mut u32 = self.heap.engine.cells.contents(self.starts[block]).cast();
        // SAFETY: the word lies in the heap's memory, which is borrowed with the heap.
        unsafe { &mut *contents.wrapping_offset(word) }
    }

    /// Overwrites a word, and returns what the audit reports.
    fn told(mut self, block: usize, word: isize, value: u32) -> &'static str {
        assert_eq!(self.heap.engine.audit_blocks(), Ok(()));
        *self.word(block, word) = value;
        self.invariant()
    }

    fn invariant(&self) -> &'static str {
        match self.heap.engine.audit_blocks() {
            Err(fault) => fault.invariant,
            Ok(()) => "nothing",
        }
    }

    fn end(&self) -> u32 {
        self.heap.engine.cells.end()
    }
}

/// Blocks of one size: three on a list, or three in a tree.
const ALIKE: [usize; 3] = [60, 60, 60];

#[test]
fn damaged_links_of_a_list_are_told() {
    let end = holed::<First>(&ALIKE).end();
    let (leads, free) = ("a link leads to a block", "a block on a list is free");
    for beyond in [end, end + 1, 1 << 29, u32::MAX] {
        assert_eq!(holed::<First>(&ALIKE).told(0, SECOND, beyond), leads);
        assert_eq!(holed::<Lifo>(&ALIKE).told(2, SECOND, beyond), leads);
    }
    let in_use = holed::<First>(&ALIKE).starts[0] + 4;
    assert_eq!(holed::<First>(&ALIKE).told(0, SECOND, in_use), free);
    let agree = "the links of a list agree both ways";
    let heap = holed::<First>(&ALIKE);
    let third = heap.starts[2];
    assert_eq!(heap.told(0, SECOND, third), agree, "a block is skipped");
    assert_eq!(holed::<First>(&ALIKE).told(1, FIRST, third), agree, "the way back");
    // The list ends before its last block.
    assert_eq!(holed::<First>(&ALIKE).told(1, SECOND, 0), "a list knows its last block");
}

#[test]
fn damaged_trees_are_told() {
    let (starts, end) = (holed::<Best>(&ALIKE).starts, holed::<Best>(&ALIKE).end());
    // The shape of the tree is unknown, so every link of every block is overwritten in turn.
    let free = "a block in a bin is free";
    let mut said = Vec::new();
    for block in 0..3 {
        for link in [FIRST, SECOND] {
            let blocks = [starts[0], starts[1], starts[2], starts[0] + 4];
            for to in blocks.into_iter().chain(end..end + 20) {
                let mut heap = holed::<Best>(&ALIKE);
                if *heap.word(block, link) != to {
                    *heap.word(block, link) = to;
                    assert_ne!(heap.invariant(), "nothing", "{block} leads to {to}");
                    said.push(heap.invariant());
                }
            }
        }
    }
    for told in [
        free,
        "a link leads to a block",
        "priorities fall from a node to its children",
        "a bin is in order of size and address",
    ] {
        assert!(said.contains(&told), "{told} is said of none");
    }
    // A link is missing.
    let mut heap = holed::<Best>(&ALIKE);
    let (block, link) = (0..3)
        .flat_map(|block| [(block, FIRST), (block, SECOND)])
        .find(|&(block, link)| *heap.word(block, link) != 0)
        .expect("a tree of three has links");
    let said = holed::<Best>(&ALIKE).told(block, link, 0);
    assert_eq!(said, "the index has every free block but the wilderness");
}

/// PAGEWISE's lists, whose links are words.
#[test]
fn damaged_links_of_a_good_fit_are_told() {
    // The last freed is the first of the list: 2, 1, 0.
    let leads = "a link leads to a block";
    let end = holed::<Good>(&ALIKE).end();
    for beyond in [0, 1, 3, 1000, 4 * end, 4 * end + 4, 4 * 300 + 1, u32::MAX] {
        assert_eq!(holed::<Good>(&ALIKE).told(2, FIRST, beyond), leads, "{beyond}");
    }
    let heap = holed::<Good>(&ALIKE);
    let in_use = heap.starts[0] + 4;
    assert_eq!(heap.told(2, FIRST, 4 * in_use), "a block on a list is free");
    let both_ways = "a list is linked both ways";
    let heap = holed::<Good>(&ALIKE);
    let lowest = heap.starts[0];
    assert_eq!(heap.told(2, FIRST, 4 * lowest), both_ways, "a block is skipped");
    assert_eq!(holed::<Good>(&ALIKE).told(2, SECOND, 0), both_ways);
    assert_eq!(holed::<Good>(&ALIKE).told(0, SECOND, 4 * lowest), both_ways);
    // The list ends too soon: a free block is on no list.
    let said = holed::<Good>(&ALIKE).told(1, FIRST, 2);
    assert_eq!(said, "the index has every free block but the wilderness");
    // A block of another size is on the list.
    let heap = holed::<Good>(&[60, 60, 124]);
    let other = heap.starts[2];
    assert_eq!(heap.told(1, FIRST, 4 * other), "a block is on the list of its size");
}

/// The words below the first block: the dummy's links, and the anchors.
#[test]
fn damaged_anchors_of_a_good_fit_are_told() {
    let told = |word: usize, value| {
        let mut heap = holed::<Good>(&ALIKE);
        heap.heap.engine.cells.set_word(word, value);
        heap.invariant()
    };
    assert_eq!(told(0, 2), "nothing");
    assert_eq!(told(0, 4), "the dummy is on no list");
    assert_eq!(told(1, 4), "the dummy is on no list");
    let bit = "a list's bit says whether it has blocks";
    // The list of blocks of four cells, and one that is empty.
    assert_eq!(told(4 + 4, 2), bit);
    let lowest = holed::<Good>(&ALIKE).starts[0];
    assert_eq!(told(4 + 5, 4 * lowest), bit);
}

#[test]
fn damaged_tags_are_told() {
    let known = "PREV_IN_USE says whether the block below is in use";
    let heap = |sizes: &[usize]| holed::<First>(sizes);
    // 60 bytes are four cells. In their header: size, in use, below in use.
    let free_of = |cells: u32| cells << 2 | 2;
    assert_eq!(heap(&ALIKE).told(0, HEADER, free_of(4)), "nothing");
    assert_eq!(heap(&ALIKE).told(0, HEADER, 4 << 2), known);
    assert_eq!(heap(&ALIKE).told(0, 14, 5), "a footer is its block's size");
    assert_eq!(heap(&ALIKE).told(0, 15, 1 << 2 | 3), known, "the header above");
    assert_eq!(heap(&ALIKE).told(1, HEADER, free_of(4) | 1), known, "in use");
    // The block above is free as well.
    assert_eq!(heap(&ALIKE).told(0, 15, 1 << 2), "free neighbours are joined");
    // The walk of the blocks ends in the middle, whatever the last header tells.
    let end = heap(&ALIKE).end();
    for cells in [0, end, (1 << 30) - 1] {
        assert_eq!(heap(&ALIKE).told(0, HEADER, free_of(cells)), "blocks tile the heap", "{cells}");
    }
    let mut damaged = heap(&ALIKE);
    let end = damaged.end();
    damaged.heap.engine.cells.put_border(end, true);
    assert_eq!(damaged.invariant(), known, "the end's");
    damaged.heap.engine.cells.set_in_use(end, false);
    assert_eq!(damaged.invariant(), "the last header is of an empty block in use");
}

/// An area that differs from the heap's record of it.
#[test]
fn a_damaged_area_is_told() {
    let mut heap = heap::<First, Immediate, Apart>();
    allocate(&mut heap, 60);
    assert_eq!(heap.engine.audit_blocks(), Ok(()));
    heap.engine.area.len -= 1;
    assert_eq!(heap.engine.audit_blocks().unwrap_err().invariant, "the area is a block");
}

/// Free memory below or above an area that should have been joined with it.
#[test]
fn free_memory_beside_an_area_is_told() {
    for above in [false, true] {
        let (mut heap, holes) = holes::<First, Joining>(&[124, 124]);
        // The first hole is the next area.
        area::use_up(&mut heap);
        assert_eq!(allocate(&mut heap, 60), holes[0]);
        assert_eq!(heap.engine.audit_blocks(), Ok(()));
        let engine = &mut heap.engine;
        // A block in use is freed as if there were no area.
        let beside = if above {
            engine.block(engine.area.end())
        } else {
            engine.block_at(holes[0].addr().get())
        };
        let old = engine.free_above(beside.end()).filter(|_| above);
        engine.exchange(old, None, &());
        let joined = beside.joined_with(None, old);
        engine.cells.put_free(joined, true);
        engine.exchange(None, Some(joined), &());
        let said = engine.audit_blocks().map_err(|fault| fault.invariant);
        assert_eq!(said, Err("nothing beside the free-space area is free"), "{above}");
    }
}

#[test]
fn damaged_withheld_blocks_are_told() {
    type Collecting = super::Heap<Best, Collected, NoArea>;
    let told = |damage: fn(&mut Collecting, [u32; 3])| {
        let mut heap: Collecting = heap::<Best, Collected, NoArea>();
        let blocks: Vec<_> = (0..8).map(|_| allocate(&mut heap, 60)).collect();
        let origin = heap.engine.cells.origin().addr();
        let starts = [1, 3, 5].map(|index| {
            free(&mut heap, blocks[index], 60);
            ((blocks[index].addr().get() - origin) / CELL) as u32
        });
        assert_eq!(heap.engine.audit_blocks(), Ok(()));
        damage(&mut heap, starts);
        match heap.engine.audit_blocks() {
            Err(fault) => fault.invariant,
            Ok(()) => "nothing",
        }
    };
    use crate::tags::Link::First as Next;
    let listed = "a listed block is withheld";
    let said = told(|heap, [_, second, third]| heap.engine.cells.set_link(second, Next, third + 4));
    assert_eq!(said, listed, "one in use");
    let said = told(|heap, [first, ..]| heap.engine.cells.set_link(first, Next, first));
    assert_eq!(said, listed, "a circle");
    let said = told(|heap, [first, ..]| {
        let end = heap.engine.cells.end();
        heap.engine.cells.set_link(first, Next, end);
    });
    assert_eq!(said, listed, "none");
    let said = told(|heap, [_, second, _]| heap.engine.cells.set_link(second, Next, 0));
    assert_eq!(said, "the last withheld block is known");
    let said = told(|heap, [first, ..]| heap.engine.cells.set_in_use(first, true));
    assert_eq!(said, listed, "it is in use");
}
