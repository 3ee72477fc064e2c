//! If FFCROSSOVER was above 16 KiB, a small request whose quick list was empty got a block from a
//! medium list. A Rust program frees with the size, so the block went onto the small list, and from
//! there into a page that it was never part of.

use crate::child::passes_when;

#[test]
fn stays_small() {
    passes_when("a_small_request_met_by_a_medium_block::mixed", |command| {
        command.env("PAGEWISE_SIZEMAP", "page-fitting").env("PAGEWISE_FFCROSSOVER", "32K");
    });
}

#[test]
#[ignore = "in a process of its own"]
fn mixed() {
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); 200];
    let mut state = 1_u64;
    for round in 0..40_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = (state >> 33) as usize % blocks.len();
        let size = 12_000 + (state >> 40) as usize % 50_000;
        let old = std::mem::replace(&mut blocks[place], vec![round as u8; size]);
        assert!(old.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn stays_small_by_default() {
    passes_when("a_small_request_met_by_a_medium_block::mixed", |_| {});
}
