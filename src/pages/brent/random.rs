//! Random numbers for the strategies that choose at random.

/// SplitMix64 (Steele, Lea, Flood 2014): seeded, with a counter as its only state. The library has
/// no dependency for random numbers.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new() -> Self {
        Self(0)
    }

    pub(super) fn seed(&mut self, seed: u64) {
        self.0 = seed;
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, each with probability 1/bound but for a bias below
    /// bound/2⁶⁴.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
