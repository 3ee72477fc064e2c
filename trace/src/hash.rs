//! A hash table for numbers, such as the millions of addresses in a log: [`Numbers`].
//!
//! The standard library's hash takes longer than the rest of a conversion. This one starts from a
//! random number of each table, so that the addresses in a log cannot be chosen to collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

pub(crate) type Numbers<K, V> = HashMap<K, V, Seed>;

/// The number that a table's hashes start from.
#[derive(Clone)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = Multiplied;

    #[inline]
    fn build_hasher(&self) -> Multiplied {
        Multiplied(self.0)
    }
}

/// Combines both halves of the product with an odd constant.
#[derive(Clone, Copy)]
pub(crate) struct Multiplied(u64);

impl Hasher for Multiplied {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Hash tables use the seven highest bits and the low ones.
    #[test]
    fn addresses_are_spread() {
        let seeds =
            [0, 1, 0x7f12_3456_0000, u64::MAX].into_iter().chain((0..60).map(|bit| 5 << bit));
        for (seed, step) in
            seeds.flat_map(|seed| [16, 32, 4096, 1 << 20, 1 << 32].map(|step| (seed, step)))
        {
            let hashes =
                (0..4096_u64).map(|index| Seed(seed).hash_one(0x7f12_3456_0000 + index * step));
            let (mut low, mut high) = ([0_u32; 256], [0_u32; 128]);
            for hash in hashes {
                low[(hash & 255) as usize] += 1;
                high[(hash >> 57) as usize] += 1;
            }
            assert!(low.iter().all(|&count| count < 80), "{seed:x}, {step}: {low:?}");
            assert!(high.iter().all(|&count| count < 160), "{seed:x}, {step}: {high:?}");
        }
    }

    /// Keys may be numbers of either width, and bytes.
    #[test]
    fn keys_of_every_kind_have_hashes_of_their_own() {
        let seed = Seed::default();
        let numbers = (0..1000_u32).map(|key| seed.hash_one(key));
        assert_eq!(numbers.collect::<HashSet<_>>().len(), 1000);
        let texts = (0..1000_u32).map(|key| seed.hash_one(key.to_string()));
        assert_eq!(texts.collect::<HashSet<_>>().len(), 1000);
    }

    /// Keys that collide in one table do not in another.
    #[test]
    fn no_keys_collide_in_every_table() {
        let table = Numbers::<u64, u32>::default;
        let low = |table: &Numbers<u64, u32>, key| table.hasher().hash_one(key) % (1 << 12);
        let (one, other) = (table(), table());
        let place = low(&one, 0_u64);
        let alike = (0..1 << 20).filter(|&key| low(&one, key) == place);
        let places: HashSet<u64> = alike.map(|key| low(&other, key)).collect();
        assert!(places.len() > 100, "{}", places.len());
    }
}
