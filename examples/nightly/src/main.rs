//! The standard library's own collections in an arena: its unstable feature `allocator_api`, which
//! needs a nightly compiler.
//!
//! `cargo +nightly run --manifest-path examples/nightly/Cargo.toml`

#![feature(allocator_api)]

use std::collections::VecDeque;
use std::mem::MaybeUninit;

use pagewise::arena::lock::Single;
use pagewise::{Arena, PageHeap, Region};

fn main() {
    let mut memory = vec![MaybeUninit::<u8>::uninit(); 1 << 20];
    // SAFETY: the memory outlives the arena, its only user.
    let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) };
    let arena: Arena<PageHeap<Region>, Single> = Arena::fixed(region);

    let mut squares = Vec::new_in(&arena);
    squares.extend((0..100u64).map(|number| number * number));
    squares.truncate(50);
    squares.shrink_to_fit();

    let mut boxes = VecDeque::new_in(&arena);
    for &square in &squares {
        boxes.push_front(Box::new_in(square, &arena));
    }
    assert!(boxes.iter().rev().map(|square| **square).eq(squares.iter().copied()));
    println!("{} bytes in {} blocks", arena.usage().requested, arena.usage().blocks);

    drop((squares, boxes));
    assert_eq!(arena.usage().blocks, 0);
    arena.audit().expect("every invariant holds");
}
