//! Random numbers that cost next to nothing and allocate nothing (Marsaglia 2003, *Xorshift RNGs*),
//! for programs that run on the allocator under test, have no other crates, or are interpreted.
//! Everything else uses `rand`.

/// A generator; the seed must not be 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}
