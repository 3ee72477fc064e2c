//! A hash table for numbers, such as the millions of addresses in a log: [`Numbers`].
//!
//! The standard library's hash resists chosen keys, but takes longer than the rest of a conversion.
//! Addresses in a log are not normally chosen to collide; a log with chosen addresses merely
//! converts slowly.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Multiplied>>;

/// Combines both halves of the product with an odd constant.
#[derive(Clone, Copy, Default)]
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
    use super::*;

    /// Hash tables use the seven highest bits and the low ones.
    #[test]
    fn addresses_are_spread() {
        for step in [16, 32, 4096, 1 << 20, 1 << 32] {
            let hashes = (0..4096_u64).map(|index| {
                let mut hasher = Multiplied::default();
                hasher.write_u64(0x7f12_3456_0000 + index * step);
                hasher.finish()
            });
            let (mut low, mut high) = ([0_u32; 256], [0_u32; 128]);
            for hash in hashes {
                low[(hash & 255) as usize] += 1;
                high[(hash >> 57) as usize] += 1;
            }
            assert!(low.iter().all(|&count| count < 80), "{step}: {low:?}");
            assert!(high.iter().all(|&count| count < 160), "{step}: {high:?}");
        }
    }
}
