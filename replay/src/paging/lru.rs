//! Strict least-recently-used paging, for all working sets in one pass.
//!
//! LRU orders the pages by their last references, in the *LRU stack*; memory of n pages contains
//! the first n (Mattson, Gecsei, Slutz and Traiger, 1970). So a reference to the page at position d
//! is a fault iff the working set is smaller than d, and a histogram of positions gives the faults
//! for every working set:
//!
//! ```text
//!  faults(n) = first references + references at positions n + 1, n + 2, …
//! ```

use super::page_map::PageMap;
use super::recency::Recency;
use super::strategy::Paging;

/// LRU memory of every size. A reference takes O(log pages), or O(1) for the last page referenced.
#[derive(Debug)]
pub struct Lru {
    /// A page's stamp + 1; 0 for a page never referenced.
    stamps: PageMap,
    recency: Recency,
    /// References counted at each position of the stack, from position 1 on; one entry per page.
    at: Vec<u64>,
    /// First references counted.
    first: u64,
    /// The last page referenced.
    last: Option<u64>,
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Lru {
    /// Returns empty memory.
    pub fn new() -> Self {
        Self {
            stamps: PageMap::new(),
            recency: Recency::new(),
            at: Vec::new(),
            first: 0,
            last: None,
        }
    }

    /// References a page. O(log pages).
    #[inline]
    pub fn reference(&mut self, page: u64) {
        if self.last == Some(page) {
            self.at[0] += 1;
        } else {
            self.last = Some(page);
            self.reference_another(page);
        }
    }

    /// Resets the counts, but not the order of the pages: faults count from here on. O(pages).
    pub fn start_counting(&mut self) {
        self.at.fill(0);
        self.first = 0;
    }

    /// Returns how many of the counted references were to a page not among the `working_set` most
    /// recently referenced ones. O(working set).
    pub fn faults(&self, working_set: usize) -> u64 {
        self.first + self.at.iter().skip(working_set).sum::<u64>()
    }

    /// Returns the number of distinct pages referenced since the beginning: with this working set
    /// only first references fault.
    pub fn distinct(&self) -> usize {
        self.at.len()
    }

    /// Returns the number of references counted. O(pages).
    pub fn references(&self) -> u64 {
        self.faults(0)
    }

    fn reference_another(&mut self, page: u64) {
        if self.recency.is_full() {
            let stamps = &mut self.stamps;
            self.recency.compact(|page, stamp| *stamps.of(page) = stamp + 1);
        }
        let entry = self.stamps.of(page);
        if *entry == 0 {
            *entry = self.recency.enter(page) + 1;
            self.at.push(0);
            self.first += 1;
        } else {
            let (stamp, since) = self.recency.renew(*entry - 1, page);
            *entry = stamp + 1;
            self.at[since as usize] += 1;
        }
    }
}

impl Paging for Lru {
    fn reference(&mut self, page: u64) {
        self.reference(page);
    }

    fn start_counting(&mut self) {
        self.start_counting();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::naive;
    use super::*;

    /// Compares with the naive stack, for every working set; half of the string is not counted.
    fn check(string: &[u64]) {
        let (mut lru, mut naive) = (Lru::new(), naive::Lru::default());
        for (index, &page) in string.iter().enumerate() {
            if index == string.len() / 2 {
                lru.start_counting();
                naive.positions.clear();
            }
            lru.reference(page);
            naive.reference(page);
        }
        assert_eq!(lru.distinct(), naive.stack.len());
        assert_eq!(lru.references(), naive.positions.len() as u64);
        for working_set in 0..=lru.distinct() + 1 {
            assert_eq!(lru.faults(working_set), naive.faults(working_set), "{working_set}");
        }
    }

    #[test]
    fn a_small_string_by_hand() {
        let mut lru = Lru::new();
        for page in [1, 2, 3, 1, 1, 4, 2] {
            lru.reference(page);
        }
        // Positions: first, first, first, 3, 1, first, 4.
        let faults: Vec<_> = (0..=5).map(|working_set| lru.faults(working_set)).collect();
        assert_eq!(faults, [7, 6, 6, 5, 4, 4]);
        assert_eq!((lru.distinct(), lru.references()), (4, 7));
    }

    #[test]
    fn counting_can_start_late_and_the_stack_stays() {
        let mut lru = Lru::new();
        for page in [1, 2, 3] {
            lru.reference(page);
        }
        lru.start_counting();
        for page in [1, 4] {
            lru.reference(page);
        }
        assert_eq!([lru.faults(2), lru.faults(3), lru.references()], [2, 1, 2]);
    }

    #[test]
    fn an_empty_string_has_no_faults() {
        assert_eq!((Lru::new().faults(0), Lru::new().distinct()), (0, 0));
    }

    #[test]
    fn renumbering_stamps_agrees_with_the_naive_stack() {
        let mut random = ChaCha8Rng::seed_from_u64(1984);
        for pages in [2_u64, 60, 3_000] {
            // Squared, so that low pages are more frequent.
            let draw = |_| {
                let unit: f64 = random.random();
                (unit * unit * pages as f64) as u64
            };
            check(&(0..30_000).map(draw).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_stack(
            string in proptest::collection::vec(0_u64..40, 0..400),
            spread in 1_u64..1 << 58,
        ) {
            check(&string.iter().map(|page| page * spread).collect::<Vec<_>>());
        }
    }
}
