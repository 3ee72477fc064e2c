//! Workloads of large and aligned buffers, as in programs for images, sound and numbers. Every OS
//! page of each buffer is written.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

use crate::random::Random;
use crate::workloads::{Block, Workload};

pub(crate) const WORKLOADS: &[(&str, Workload)] = &[
    ("aligned buffers", |parts| aligned(16 << 10, 128 << 10, 300_000 / parts)),
    ("tiles of 1 MB", |parts| aligned(1_000_000, 1_000_001, 20_000 / parts)),
    ("waves of buffers", |parts| waves(&[10_000, 20_000, 60_000], 50, 64, 4_000 / parts)),
    ("long waves of buffers", |parts| waves(&[20_000, 60_000], 300, 16, 1_000 / parts)),
    ("one buffer of 40 MiB", one_of_40_mib),
    ("buffers of tens of MiB", tens_of_mib),
    ("vectors side by side", vectors_side_by_side),
];

/// A buffer, freed when dropped.
struct Aligned(*mut u8, Layout);

impl Aligned {
    fn written(size: usize, align: usize) -> Self {
        let layout = Layout::from_size_align(size, align).expect("it is one");
        // SAFETY: the size is not 0; the buffer, if there is one, has these bytes.
        unsafe {
            let buffer = alloc(layout);
            assert!(!buffer.is_null(), "out of memory");
            (0..size).step_by(4096).for_each(|at| buffer.add(at).write(at as u8));
            Self(buffer, layout)
        }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}

/// Replaces one of 200 buffers aligned to 64 bytes, at random.
fn aligned(least: usize, most: usize, actions: usize) -> usize {
    let mut random = Random::new(81);
    let mut new = || Aligned::written(least + random.below(most - least), 64);
    let mut buffers: Vec<Aligned> = (0..200).map(|_| new()).collect();
    let mut random = Random::new(82);
    for _ in 0..actions {
        buffers[random.below(200)] = new();
    }
    buffers.len()
}

/// Allocates `count` buffers of one size, and frees them in the same order, repeatedly; the sizes
/// are those of tiles, and of the buffers of connections and files.
fn waves(sizes: &[usize], count: usize, align: usize, rounds: usize) -> usize {
    for &size in sizes {
        for _ in 0..rounds.max(1) {
            let buffers = (0..count).map(|_| Aligned::written(size, align));
            drop(black_box(buffers.collect::<Vec<_>>()));
        }
    }
    rounds
}

/// Allocates, writes and frees the same size repeatedly.
fn one_of_40_mib(parts: usize) -> usize {
    (0..300 / parts.min(100)).map(|_| black_box(Block::written(40 << 20)).1).sum()
}

/// Replaces one of five buffers of 20 to 80 MiB, at random.
fn tens_of_mib(parts: usize) -> usize {
    let mut random = Random::new(83);
    let mut buffers: [Option<Block>; 5] = [const { None }; 5];
    for _ in 0..200 / parts.min(20) {
        let buffer = &mut buffers[random.below(5)];
        drop(buffer.take());
        *buffer = Some(Block::written((20 << 20) + random.below(60 << 20)));
    }
    buffers.iter().flatten().count()
}

/// Twenty vectors grow by turns, to 8 MiB each, and are dropped, repeatedly.
fn vectors_side_by_side(parts: usize) -> usize {
    let mut total = 0;
    for _ in 0..20 / parts.min(10) {
        let mut vectors: [Vec<u8>; 20] = [const { Vec::new() }; 20];
        for len in (6..=23).map(|log2| 1 << log2) {
            vectors.iter_mut().for_each(|vector| vector.resize(len, len as u8));
        }
        total += vectors.iter().map(Vec::len).sum::<usize>();
    }
    total
}
