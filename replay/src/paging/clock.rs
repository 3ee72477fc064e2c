//! CLOCK, or second chance: paging that records only whether a page was referenced.
//!
//! ```text
//!        hand
//!         v
//!  | 7* | 2 | 9* | 4* |       * referenced since the hand last passed
//! ```
//! The page at the hand is evicted if it is unmarked; the hand clears the marks that it passes. The
//! new page is marked, and the hand moves past it. Unlike with LRU, memory of n pages does not
//! contain the pages of a memory of n − 1 pages, so every working set is simulated separately.

use super::page_map::PageMap;
use super::strategy::Paging;

/// CLOCK memory of selected sizes. A reference takes O(sizes), amortised over the pages brought in.
#[derive(Debug)]
pub struct Clock {
    /// A page's number + 1, in the order of first references; 0 for a page never referenced.
    numbers: PageMap,
    distinct: u32,
    memories: Vec<Memory>,
    references: u64,
    /// The last page referenced: every memory contains it, marked.
    last: Option<u64>,
}

impl Clock {
    /// Returns memory of each of these sizes, in pages; size 0 always faults.
    pub fn new(working_sets: &[usize]) -> Self {
        Self {
            numbers: PageMap::new(),
            distinct: 0,
            memories: working_sets.iter().map(|&size| Memory::new(size)).collect(),
            references: 0,
            last: None,
        }
    }

    /// Returns the faults counted with this working set; `None` if it is not simulated.
    pub fn faults(&self, working_set: usize) -> Option<u64> {
        if working_set == 0 {
            return self.memories.iter().any(|memory| memory.size == 0).then_some(self.references);
        }
        self.memories.iter().find(|memory| memory.size == working_set).map(|memory| memory.faults)
    }

    fn number(&mut self, page: u64) -> u32 {
        let entry = self.numbers.of(page);
        if *entry == 0 {
            self.distinct += 1;
            *entry = self.distinct;
        }
        *entry - 1
    }
}

impl Paging for Clock {
    fn reference(&mut self, page: u64) {
        self.references += 1;
        if self.last != Some(page) {
            self.last = Some(page);
            let number = self.number(page);
            self.memories.iter_mut().for_each(|memory| memory.reference(number));
        }
    }

    fn start_counting(&mut self) {
        self.references = 0;
        self.memories.iter_mut().for_each(|memory| memory.faults = 0);
    }
}

/// Memory of one size.
#[derive(Debug)]
struct Memory {
    size: usize,
    frames: Vec<Frame>,
    /// Frame + 1 of each page, by its number; 0, or no entry, for a page that is not resident.
    frame_of: Vec<u32>,
    hand: usize,
    faults: u64,
}

/// A page frame, and its page.
#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    marked: bool,
}

impl Memory {
    fn new(size: usize) -> Self {
        Self { size, frames: Vec::new(), frame_of: Vec::new(), hand: 0, faults: 0 }
    }

    fn reference(&mut self, page: u32) {
        let index = page as usize;
        if index >= self.frame_of.len() {
            self.frame_of.resize(index + 1, 0);
        }
        match self.frame_of[index] {
            0 if self.size > 0 => {
                self.faults += 1;
                self.frame_of[index] = self.bring_in(page) as u32 + 1;
            }
            0 => {}
            frame => self.frames[frame as usize - 1].marked = true,
        }
    }

    /// Brings a page in; returns its frame. There is at least one frame.
    fn bring_in(&mut self, page: u32) -> usize {
        let frame = Frame { page, marked: true };
        if self.frames.len() < self.size {
            self.frames.push(frame);
            return self.frames.len() - 1;
        }
        while std::mem::take(&mut self.frames[self.hand].marked) {
            self.advance();
        }
        let place = self.hand;
        let out = std::mem::replace(&mut self.frames[place], frame);
        self.frame_of[out.page as usize] = 0;
        self.advance();
        place
    }

    fn advance(&mut self) {
        self.hand = if self.hand + 1 == self.frames.len() { 0 } else { self.hand + 1 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::naive;
    use super::*;

    #[test]
    fn a_small_string_by_hand() {
        let mut clock = Clock::new(&[0, 2, 3]);
        // With three frames: 4 clears the marks of 1, 2, 3 and replaces 1; 2 is marked again, so 1
        // replaces 3.
        for page in [1, 2, 3, 4, 2, 2, 1, 2] {
            clock.reference(page);
        }
        assert_eq!(clock.faults(3), Some(5));
        assert_eq!((clock.faults(0), clock.faults(1)), (Some(8), None));
    }

    proptest! {
        #[test]
        fn agrees_with_naive_second_chance(
            string in proptest::collection::vec(0_u64..30, 0..600),
            start in 0_usize..600,
        ) {
            let sizes = [1, 2, 3, 7, 19, 40];
            let mut clock = Clock::new(&sizes);
            let mut naive = sizes.map(naive::Clock::new);
            for (index, &page) in string.iter().enumerate() {
                if index == start {
                    clock.start_counting();
                    naive.iter_mut().for_each(|memory| memory.faults = 0);
                }
                clock.reference(page);
                naive.iter_mut().for_each(|memory| memory.reference(page));
            }
            for memory in naive {
                prop_assert_eq!(clock.faults(memory.size), Some(memory.faults));
            }
        }
    }
}
