//! Tests of growing and shrinking in place, upwards and downwards.

use super::*;

#[test]
fn blocks_grow_and_shrink_in_place() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, 60)).collect();
    assert!(!resize(&mut heap, blocks[0], 60, 61), "the block above is in use");
    free(&mut heap, blocks[1], 60);
    assert!(resize(&mut heap, blocks[0], 60, 108));
    assert_eq!(free_blocks(&heap), [(blocks[0].addr().get() + 112, 12)]);
    assert!(resize(&mut heap, blocks[0], 108, 124), "all of the neighbour");
    assert!(!resize(&mut heap, blocks[0], 124, 125));
    assert!(resize(&mut heap, blocks[0], 124, 12));
    assert_eq!(free_blocks(&heap), [(blocks[0].addr().get() + 16, 108)]);
    assert!(resize(&mut heap, blocks[3], 60, 1 << 20), "the wilderness, and the source");
    assert!(!resize(&mut heap, blocks[3], 1 << 20, 1 << 25), "more than the source has");
    heap.audit().unwrap();
}

/// Reallocates a block filled with a pattern, whose contents must survive.
fn reallocate(heap: &mut dyn Strategy, block: NonNull<u8>, from: Layout, to: usize) -> NonNull<u8> {
    let pattern = |index: usize| (index * 7) as u8;
    // SAFETY: the tests resize blocks in use with their layout, and the bytes lie in them.
    unsafe {
        (0..from.size()).for_each(|index| block.add(index).write(pattern(index)));
        let resized = heap.reallocate(block, from, to).expect("room enough").cast::<u8>();
        (0..from.size()).for_each(|index| assert_eq!(resized.add(index).read(), pattern(index)));
        resized
    }
}

/// Allocates three blocks, and one above them that separates them from the wilderness.
fn three(heap: &mut dyn Strategy, sizes: [usize; 3]) -> [NonNull<u8>; 3] {
    let blocks = sizes.map(|size| allocate(heap, size));
    allocate(heap, 12);
    blocks
}

#[test]
fn a_block_grows_down_over_its_own_contents() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    let [low, middle, high] = three(&mut heap, [60, 300, 60]);
    free(&mut heap, low, 60);
    let held = heap.usage().held;
    // The four cells of the block below are added to nineteen; one is left over.
    let grown = reallocate(&mut heap, middle, layout(300), 348);
    assert_eq!(grown, low);
    assert_eq!(free_blocks(&heap), [(high.addr().get() - 16, 12)]);
    assert_eq!((heap.usage().held, heap.usage().requested), (held, 348 + 60 + 12));
    heap.audit().unwrap();
}

#[test]
fn a_block_grows_both_ways_when_neither_is_enough() {
    let mut heap = heap::<First, Immediate, NoArea>();
    let [low, middle, high] = three(&mut heap, [60, 60, 60]);
    free(&mut heap, low, 60);
    free(&mut heap, high, 60);
    assert_eq!(reallocate(&mut heap, middle, layout(60), 188), low);
    assert_eq!(free_blocks(&heap), []);
    heap.audit().unwrap();
    // One byte more has to go elsewhere.
    let elsewhere = reallocate(&mut heap, low, layout(188), 189);
    assert!(elsewhere > low);
    heap.audit().unwrap();
}

#[test]
fn growing_down_keeps_the_alignment() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    let below = allocate(&mut heap, 220);
    let aligned = Layout::from_size_align(60, 64).unwrap();
    let block = heap.allocate(aligned).unwrap().cast::<u8>();
    // Too large for the gap.
    allocate(&mut heap, 28);
    free(&mut heap, below, 220);
    let grown = reallocate(&mut heap, block, aligned, 200);
    assert!(grown < block && grown.addr().get().is_multiple_of(64));
    heap.audit().unwrap();
}

#[test]
fn neighbours_of_a_block_that_grows_down_are_told_the_area() {
    let mut heap = heap::<Segregated, Immediate, Joining>();
    let [low, middle, high] = [200, 60, 60].map(|size| allocate(&mut heap, size));
    free(&mut heap, low, 200);
    // The area lies right above `high`.
    let grown = reallocate(&mut heap, high, layout(60), 5_000);
    assert_eq!(grown, high, "a bump");
    let grown = reallocate(&mut heap, middle, layout(60), 100);
    assert_eq!(grown, low);
    heap.audit().unwrap();
    // The cells above it are free, not the area's.
    assert_eq!(free_blocks(&heap)[0].1, 208 + 64 - 112 - 4);
}
