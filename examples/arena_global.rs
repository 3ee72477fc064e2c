//! A lazy fit as the global allocator of a program, which counts the words of its own source.
//!
//! LF of Chung & Moon bumps blocks off a free-space area, and searches for a new area only when
//! that is used up. The arena's `usage` shows afterwards what the program needed.
//!
//! `cargo run --features strategies --example arena_global`

use std::collections::BTreeMap;

use pagewise::catalogue::LazyFirstFit;
use pagewise::fit::Apart;
use pagewise::{Arena, Reserved};

/// LF over at most 1 GiB of address space, growing by 64 KiB.
#[global_allocator]
pub(crate) static ALLOCATOR: Arena<LazyFirstFit<Apart, Reserved>> =
    Arena::new(LazyFirstFit::new(1 << 16, Reserved::new(1 << 30), ()));

pub(crate) fn main() {
    let mut counts = BTreeMap::new();
    for word in include_str!("arena_global.rs").split(|letter: char| !letter.is_alphanumeric()) {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts.remove("");
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (word, count) in words.iter().take(5) {
        println!("{count:>4} {word}");
    }
    let usage = ALLOCATOR.usage();
    println!("{} allocations, {} bytes at most", usage.allocations, usage.peak_requested);
    assert!(usage.allocations > 100);
    ALLOCATOR.audit().expect("every invariant holds");
}
