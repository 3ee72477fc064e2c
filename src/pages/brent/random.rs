//! Random numbers for the strategies that choose at random.

use crate::words::scatter;

/// A seeded generator of random numbers.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Makes a generator with seed 0.
    pub(super) const fn new() -> Self {
        Self(0)
    }

    /// Begins the sequence of this seed.
    pub(super) fn seed(&mut self, seed: u64) {
        self.0 = seed;
    }

    /// Returns a number below `bound`, each with probability 1/bound but for a bias below
    /// bound/2⁶⁴.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let (number, next) = scatter::random(self.0);
        self.0 = next;
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}
