//! The sequences of requests, which depend only on themselves and on refusals.

use crate::trace_of::Driver;

/// A sequence: its name, the size of its memory in bytes, and its requests.
#[derive(Clone, Copy)]
pub(crate) struct Sequence {
    pub(crate) name: &'static str,
    pub(crate) memory: usize,
    pub(crate) run: fn(&mut Driver<'_>),
}

const LARGE: usize = 1 << 20;
const SMALL: usize = 150 << 10;

pub(crate) const ALL: [Sequence; 10] = [
    Sequence { name: "random", memory: LARGE, run: random },
    Sequence { name: "ramp", memory: LARGE, run: ramp },
    Sequence { name: "phases", memory: LARGE, run: phases },
    Sequence { name: "lifo", memory: LARGE, run: lifo },
    Sequence { name: "fifo", memory: LARGE, run: fifo },
    Sequence { name: "aligned", memory: LARGE, run: aligned },
    Sequence { name: "resized", memory: LARGE, run: resized },
    Sequence { name: "classes", memory: LARGE, run: classes },
    Sequence { name: "full", memory: SMALL, run: full },
    Sequence { name: "scarce", memory: SMALL, run: scarce },
];

/// A reproducible generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((bits * bound as u64) >> 32) as usize
    }

    /// Returns a size; small ones are more frequent.
    fn size(&mut self) -> usize {
        match self.below(16) {
            0 => 1 + self.below(20_000),
            1 | 2 => 1 + self.below(3000),
            3..=6 => 1 + self.below(600),
            _ => 1 + self.below(100),
        }
    }
}

/// Allocates and frees in random order.
fn random(driver: &mut Driver<'_>) {
    let mut random = Random(1);
    for step in 0..500 {
        if driver.blocks() == 0 || random.below(5) < 3 {
            driver.allocate(random.size(), 1 << random.below(5));
        } else {
            driver.free(random.below(driver.blocks()));
        }
        if step % 125 == 124 {
            driver.snapshot();
        }
    }
}

/// Ascending sizes, then every second block freed; then the same with descending sizes.
fn ramp(driver: &mut Driver<'_>) {
    (1..150).for_each(|step| driver.allocate(step * 5, 8));
    driver.snapshot();
    (0..driver.blocks() / 2).for_each(|block| driver.free(block));
    driver.snapshot();
    (1..150).rev().for_each(|step| driver.allocate(step * 5, 8));
}

/// Phases of one size each; an eighth of each phase's blocks stays.
fn phases(driver: &mut Driver<'_>) {
    for size in [40, 200, 24, 1100, 64, 4097] {
        let before = driver.blocks();
        (0..60).for_each(|_| driver.allocate(size, 4));
        for block in (before..driver.blocks()).rev().filter(|block| block % 8 != 0) {
            driver.free(block);
        }
        driver.snapshot();
    }
}

/// LIFO: stacks that get higher and higher.
fn lifo(driver: &mut Driver<'_>) {
    let mut random = Random(3);
    for height in [10, 40, 90] {
        (0..height).for_each(|_| driver.allocate(random.size(), 8));
        driver.snapshot();
        (0..height * 2 / 3).for_each(|_| driver.free(driver.blocks().saturating_sub(1)));
    }
}

/// FIFO.
fn fifo(driver: &mut Driver<'_>) {
    let mut random = Random(4);
    for step in 0..300 {
        driver.allocate(random.size(), 8);
        if step >= 60 {
            driver.free_first();
        }
    }
    driver.snapshot();
}

/// Alignments up to 4 KiB among blocks without any.
fn aligned(driver: &mut Driver<'_>) {
    let mut random = Random(5);
    for step in 0..160 {
        driver.allocate(1 + random.below(400), 1 << random.below(13));
        if step % 2 == 1 {
            driver.free(random.below(driver.blocks().max(1)));
        }
        if step % 50 == 49 {
            driver.snapshot();
        }
    }
}

/// Blocks grow and shrink, in place or by moving, and are kept with another layout.
fn resized(driver: &mut Driver<'_>) {
    let mut random = Random(6);
    (0..60).for_each(|_| driver.allocate(random.size(), 8));
    for step in 0..300 {
        let block = random.below(driver.blocks().max(1));
        let size = random.size();
        match random.below(8) {
            0 => driver.allocate(size, 1 << random.below(7)),
            1 => driver.free(block),
            2 => driver.resize_in_place(block, size),
            3 => driver.keep(block, size, 1 << random.below(7)),
            // A few bytes more or less.
            4 => driver.nudge(block, random.below(64), true),
            5 => driver.nudge(block, random.below(64), false),
            _ => driver.reallocate(block, size),
        }
        if step % 100 == 99 {
            driver.snapshot();
        }
    }
}

/// Few sizes, each used enough for several pages; the frees leave pages with few and with many free
/// blocks.
fn classes(driver: &mut Driver<'_>) {
    let mut random = Random(8);
    for step in 0..900 {
        let (size, align) = [(24, 8), (100, 4), (24, 16), (40, 32), (400, 8), (24, 8)][step % 6];
        driver.allocate(size, align);
        if random.below(900) < step {
            driver.free(random.below(driver.blocks().max(1)));
        }
        if step % 300 == 299 {
            driver.snapshot();
        }
    }
    (0..driver.blocks()).rev().step_by(3).for_each(|block| driver.free(block));
    driver.snapshot();
    (0..40).for_each(|_| driver.allocate(24, 8));
}

/// Fills memory with one size after another, and empties it in different orders.
fn full(driver: &mut Driver<'_>) {
    for size in [700, 56, 3000, 30_000] {
        while driver.allocated(size, 8) {}
        driver.snapshot();
        for block in (0..driver.blocks()).rev().filter(|block| block % 3 != 1) {
            driver.free(block);
        }
        driver.snapshot();
    }
    (0..driver.blocks()).rev().for_each(|block| driver.free(block));
    driver.snapshot();
    while driver.allocated(2000, 64) {}
}

/// Little memory is free, so that requests of all kinds fail, resizing included.
fn scarce(driver: &mut Driver<'_>) {
    let mut random = Random(7);
    while driver.allocated(random.size(), 8) {}
    for step in 0..400 {
        let block = random.below(driver.blocks().max(1));
        match random.below(6) {
            0 | 1 => driver.allocate(random.size(), 1 << random.below(8)),
            2 => driver.free(block),
            3 => driver.keep(block, random.size(), 1 << random.below(8)),
            _ => driver.reallocate(block, random.size()),
        }
        if step % 130 == 129 {
            driver.snapshot();
        }
    }
}
