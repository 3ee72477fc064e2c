//! A program with known allocation sites, for `tests/recorder_aarch64.sh`.

use std::hint::black_box;

#[inline(never)]
fn keep(block: Vec<u8>) {
    std::mem::forget(black_box(block));
}

#[inline(never)]
fn leaky() {
    for _ in 0..100 {
        keep(vec![1; black_box(3000)]);
    }
}

#[inline(never)]
fn in_a_thread() {
    for _ in 0..50 {
        keep(vec![1; black_box(777)]);
    }
}

#[inline(never)]
fn deep(depth: u32) -> u32 {
    if depth == 0 {
        keep(vec![1; black_box(2222)]);
        return 0;
    }
    black_box(deep(black_box(depth - 1)) + 1)
}

fn main() {
    leaky();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(in_a_thread);
        }
    });
    black_box(deep(100));
}
