//! Collections in an arena: a vector, a box and a hash map in one megabyte of memory, which is
//! freed as a whole.
//!
//! `cargo run --example arena_collections --features allocator-api2`

use std::mem::MaybeUninit;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hashbrown::{DefaultHashBuilder, HashMap};
use pagewise::arena::lock::Single;
use pagewise::{Arena, PageHeap, Region};

type Local = Arena<PageHeap<Region>, Single>;

pub(crate) fn main() {
    let mut memory = std::vec![MaybeUninit::<u8>::uninit(); 1 << 20];
    // SAFETY: the memory outlives the arena, its only user.
    let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) };
    let arena: Local = Arena::fixed(region);

    let mut words = Vec::new_in(&arena);
    words.extend("the quick brown fox jumps over the lazy dog and the cat".split(' '));
    let mut counts = HashMap::with_hasher_in(DefaultHashBuilder::default(), &arena);
    for word in &words {
        *counts.entry(*word).or_insert(0u32) += 1;
    }
    let most = Box::new_in(counts.iter().max_by_key(|(_, count)| **count), &arena);
    assert_eq!(*most, Some((&"the", &3)));

    let usage = arena.usage();
    println!("{} blocks, {} of {} bytes held", usage.blocks, usage.requested, usage.held);
    assert_eq!(usage.blocks, 3);
    drop(most);
    drop((counts, words));
    assert_eq!(arena.usage().blocks, 0);
    arena.audit().expect("every invariant holds");
}
