//! Numbers that are spread evenly: multiplicative hashing, and a generator of random numbers. The
//! library has no dependency for either.

/// 2⁶⁴ divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the place of a key in a table of `len` entries, a power of two above 1 (Knuth, The Art of
/// Computer Programming 6.4). The upper bits of the product depend on all bits of the key.
#[inline]
pub(crate) const fn place(key: usize, len: usize) -> usize {
    ((key as u64).wrapping_mul(GOLDEN) >> (u64::BITS - len.trailing_zeros())) as usize
}

/// Returns a random number and the next state: SplitMix64 (Steele, Lea and Flood 2014), whose state
/// is a counter. Any state is valid.
pub(crate) fn random(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(GOLDEN);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation, with the state 1234567.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut state = 1_234_567;
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821_u64,
        ] {
            let (number, next) = random(state);
            assert_eq!(number, expected);
            state = next;
        }
    }

    /// Of keys whose distance is a power of two, few have the same place.
    #[test]
    fn places_are_spread() {
        for step in (0..usize::BITS.min(48) - 8).map(|log2| 1_usize << log2) {
            let mut counts = [0; 256];
            (0..256_usize).for_each(|key| counts[place(key * step, 256)] += 1);
            assert!(counts.iter().all(|&count| count <= 5), "{step}: {counts:?}");
        }
        assert!([2, 4, 1 << 20].iter().all(|&len| (0..1_000).all(|key| place(key, len) < len)));
    }
}
