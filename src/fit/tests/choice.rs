//! Tests which free block each policy takes: against a plain search of a heap walk where the choice
//! depends on sizes and addresses, otherwise by example.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// The number of requests, and of blocks in use after the first of them: fewer under Miri, which is
/// slow.
const STEPS: u32 = if cfg!(miri) { 240 } else { 6_000 };
const BLOCKS: usize = if cfg!(miri) { 20 } else { 100 };

/// Frees and allocates at random and compares each choice with `choose`, which is given the free
/// blocks that fit.
fn agrees_with<P: Index>(choose: impl Fn(&[(usize, usize)]) -> Option<usize>) {
    let mut heap = heap::<P, Immediate, NoArea>();
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    let mut random = StdRng::seed_from_u64(1);
    let mut random = move |below: usize| random.random_range(0..below);
    let mut chosen = 0;
    for step in 0..STEPS {
        if blocks.len() > BLOCKS && random(2) == 0 {
            let (block, size) = blocks.swap_remove(random(blocks.len()));
            free(&mut heap, block, size);
        } else {
            let size = if random(4) == 0 { 1 + random(5_000) } else { 1 + random(300) };
            let mut fitting = free_blocks(&heap);
            fitting.retain(|&(_, len)| len >= size);
            let expected = choose(&fitting);
            let block = allocate(&mut heap, size);
            if let Some(expected) = expected {
                assert_eq!(block.addr().get(), expected, "step {step}: {size} B of {fitting:x?}");
                chosen += 1;
            }
            blocks.push((block, size));
        }
        if step % 64 == 0 {
            heap.audit().unwrap();
        }
    }
    assert!(chosen > STEPS / 6, "most requests had a choice: {chosen}");
}

#[test]
fn best_fit_takes_the_lowest_of_the_smallest() {
    agrees_with::<Best>(|free| free.iter().min_by_key(|b| (b.1, b.0)).map(|b| b.0));
}

#[test]
fn worst_fit_takes_the_lowest_of_the_largest() {
    agrees_with::<Worst>(|free| free.iter().max_by_key(|b| (b.1, usize::MAX - b.0)).map(|b| b.0));
}

#[test]
fn first_fit_takes_the_lowest() {
    agrees_with::<First>(|free| free.first().map(|b| b.0));
}

#[test]
fn next_fit_goes_on_where_it_ended() {
    let mut heap = heap::<Next, Immediate, NoArea>();
    let blocks: Vec<_> = (0..9).map(|_| allocate(&mut heap, 100)).collect();
    for &index in &[1, 3, 5, 7] {
        free(&mut heap, blocks[index], 100);
    }
    assert_eq!(allocate(&mut heap, 100), blocks[1]);
    assert_eq!(allocate(&mut heap, 100), blocks[3]);
    free(&mut heap, blocks[1], 100);
    assert_eq!(allocate(&mut heap, 50), blocks[5]);
    // The rest of block 5 is too small, block 7 is next, and then the list starts again.
    assert_eq!(allocate(&mut heap, 100), blocks[7]);
    assert_eq!(allocate(&mut heap, 100), blocks[1]);
    heap.audit().unwrap();
}

/// Frees blocks of these sizes in this order, no two of them neighbours. Returns which of them then
/// serves each request.
fn choices<P: Index>(sizes: &[usize], requests: &[usize]) -> Vec<Option<usize>> {
    let (mut heap, blocks) = holes::<P, NoArea>(sizes);
    let mut chosen = Vec::new();
    for &request in requests {
        let served = allocate(&mut heap, request);
        heap.audit().unwrap();
        chosen.push(blocks.iter().position(|&block| block == served));
    }
    chosen
}

#[test]
fn lifo_takes_what_was_freed_last() {
    // The rest of a split block counts as freed last.
    let chosen = choices::<Lifo>(&[108, 60, 108, 28], &[60, 12, 28, 60, 60]);
    assert_eq!(chosen, [Some(2), None, None, Some(1), Some(0)]);
}

#[test]
fn fifo_takes_what_was_freed_first() {
    let chosen = choices::<Fifo>(&[28, 108, 60, 108], &[60, 60, 60, 44]);
    assert_eq!(chosen, [Some(1), Some(2), Some(3), None]);
}

#[test]
fn segregated_fit_searches_its_own_list_then_takes_the_first_of_the_next() {
    // 4 to 7 cells, and 8 to 15.
    let chosen = choices::<Segregated>(&[60, 220, 92, 108, 130], &[92, 92, 60, 92, 200]);
    assert_eq!(chosen, [Some(2), Some(3), Some(0), Some(1), None]);
    let chosen = choices::<Segregated<Front>>(&[60, 220, 92, 108, 130], &[92, 92, 92]);
    assert_eq!(chosen, [Some(3), Some(2), Some(4)]);
}
