//! A number for every page: a map that is an array where pages are adjacent.
//!
//! ```text
//!  page number = | chunk | 9 bits |      chunk ──HashMap──► [u32; 512]
//! ```
//! The last chunk is cached: references come in runs, and heaps are few ranges of addresses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Pages per chunk.
const CHUNK: u64 = 512;

/// Maps pages to numbers; every page starts with 0.
#[derive(Debug)]
pub(super) struct PageMap {
    chunks: Vec<[u32; CHUNK as usize]>,
    index: HashMap<u64, usize, BuildHasherDefault<Multiply>>,
    /// The last chunk and its index, if there is one.
    last: Option<(u64, usize)>,
}

impl PageMap {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), index: HashMap::default(), last: None }
    }

    /// Returns the number of a page. Amortised O(1).
    #[inline]
    pub(super) fn of(&mut self, page: u64) -> &mut u32 {
        let chunk = page / CHUNK;
        let index = match self.last {
            Some((last, index)) if last == chunk => index,
            _ => self.find(chunk),
        };
        &mut self.chunks[index][(page % CHUNK) as usize]
    }

    fn find(&mut self, chunk: u64) -> usize {
        let chunks = &mut self.chunks;
        let index = *self.index.entry(chunk).or_insert_with(|| {
            chunks.push([0; CHUNK as usize]);
            chunks.len() - 1
        });
        self.last = Some((chunk, index));
        index
    }
}

/// Hashes a chunk's number by multiplying and combining both halves of the product. It need not
/// resist chosen keys.
#[derive(Debug, Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, chunk: u64) {
        let product = u128::from(self.0 ^ chunk) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pages_have_numbers_of_their_own() {
        let mut map = PageMap::new();
        let pages = || (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1]).chain([u64::MAX]);
        for (number, page) in (1..).zip(pages()) {
            *map.of(page) = number;
        }
        assert_eq!(*map.of(12_345), 0);
        // Page 1 occurs twice, as 2⁰ and as 2¹ − 1; the second one counts.
        for (number, page) in (1..).zip(pages()).skip(1) {
            assert_eq!(*map.of(page), number, "{page}");
        }
    }
}
