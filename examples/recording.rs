//! A Rust program that records its own allocations.
//!
//! Without the environment variable it just runs. With it, it leaves a raw log, which `pagewise
//! import` converts to a trace:
//! ```text
//! $ mkdir /tmp/logs
//! $ PAGEWISE_RECORD_DIR=/tmp/logs cargo run --release --features trace --example recording
//! $ cargo run --release -- import /tmp/logs/*.pwlog -o words.pwt
//! $ cargo run --release -- info words.pwt
//! ```

use std::alloc::System;
use std::collections::BTreeMap;

use pagewise::trace::Recording;

#[global_allocator]
static ALLOCATOR: Recording<System> = Recording::new(System);

fn main() {
    let text = include_str!("recording.rs");
    let mut counts = BTreeMap::<String, usize>::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut ranked: Vec<_> = counts.into_iter().collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (word, count) in ranked.iter().take(5) {
        println!("{count:4} {word}");
    }
}
