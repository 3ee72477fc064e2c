//! The order in which pages were last referenced, and how many pages precede one in it.
//!
//! Every reference gets the next *stamp*. A page's stamp is that of its last reference; all others
//! are dead. A page's position in Mattson's LRU stack is one more than the number of live stamps
//! after its own:
//!
//! ```text
//!  stamp   0 1 2 3 4 5 6 7 | 8 9 ...
//!  live    . . x . x . x x | next        the page of stamp 4 is third in the stack
//!          \_word_/\_word_/
//! ```
//! Live stamps are the bits of an array of words, and a Fenwick tree counts them by word. Moving a
//! bit from one word to another, and counting the bits between two words, climb the tree only as
//! far as the paths of the two words differ: O(log of how far back the page was last referenced).
//!
//! When the stamps are used up, the live ones are renumbered in order. There are then at least
//! three times as many stamps as live ones, so this costs O(1) per reference.

/// Stamps per word.
const WORD: u32 = u64::BITS;
/// Minimum number of stamps: a power of two, and enough to renumber short strings rarely.
const FEWEST: u32 = 1 << 12;
/// Minimum number of stamps per live one after renumbering.
const ROOM: u32 = 4;

/// The order of last references. Invariants: a bit is set iff its stamp is the last of its page; no
/// bit at or above `next` is set; `tree` counts the bits of `words`; the number of words is a power
/// of two.
#[derive(Debug)]
pub(super) struct Recency {
    words: Vec<u64>,
    /// Fenwick tree from index 1: `tree[i]` counts the bits of the `i & -i` words that end with
    /// word `i - 1`.
    tree: Vec<u32>,
    /// The page of each stamp below `next`.
    pages: Vec<u64>,
    next: u32,
    live: u32,
}

impl Recency {
    pub(super) fn new() -> Self {
        let mut recency =
            Self { words: Vec::new(), tree: Vec::new(), pages: Vec::new(), next: 0, live: 0 };
        recency.clear(FEWEST);
        recency
    }

    /// Returns whether the stamps are used up; then [`compact`](Self::compact) must be called
    /// before anything else.
    pub(super) fn is_full(&self) -> bool {
        self.next as usize == self.pages.len()
    }

    /// Assigns the next stamp to a page without one. O(log pages).
    pub(super) fn enter(&mut self, page: u64) -> u32 {
        let stamp = self.take(page);
        self.live += 1;
        let mut node = node_of(stamp);
        while node < self.tree.len() {
            self.tree[node] += 1;
            node = above(node);
        }
        stamp
    }

    /// Assigns the next stamp to the page with the stamp `stamp`; also returns how many pages were
    /// referenced since. O(log pages).
    pub(super) fn renew(&mut self, stamp: u32, page: u64) -> (u32, u32) {
        let word = &mut self.words[(stamp / WORD) as usize];
        // In two steps, because a shift by 64 is not defined.
        let since = (*word >> (stamp % WORD) >> 1).count_ones();
        *word &= !(1 << (stamp % WORD));
        let new = self.take(page);
        let since = since + self.between(stamp, new);
        self.transfer(stamp, new);
        (new, since)
    }

    /// Renumbers the live stamps, and reports each page's new one.
    pub(super) fn compact(&mut self, mut renumbered: impl FnMut(u64, u32)) {
        let words = std::mem::take(&mut self.words);
        let pages = std::mem::take(&mut self.pages);
        // At most 2³¹ stamps, whose pages would take 16 GiB.
        let stamps = self.live.saturating_mul(ROOM).min(1 << 31).next_power_of_two().max(FEWEST);
        self.clear(stamps);
        for (first, mut word) in (0..).step_by(WORD as usize).zip(words) {
            while word != 0 {
                let page = pages[first + word.trailing_zeros() as usize];
                word &= word - 1;
                renumbered(page, self.enter(page));
            }
        }
    }

    /// Starts again with this number of stamps, a power of two.
    fn clear(&mut self, stamps: u32) {
        self.words = vec![0; (stamps / WORD) as usize];
        self.tree = vec![0; self.words.len() + 1];
        self.pages = vec![0; stamps as usize];
        self.next = 0;
        self.live = 0;
    }

    /// Assigns the next stamp to a page, without counting it in the tree.
    fn take(&mut self, page: u64) -> u32 {
        let stamp = self.next;
        self.next += 1;
        self.pages[stamp as usize] = page;
        self.words[(stamp / WORD) as usize] |= 1 << (stamp % WORD);
        stamp
    }

    /// Returns the bits counted by the tree in the words after `from`'s up to `to`'s.
    fn between(&self, from: u32, to: u32) -> u32 {
        let (mut low, mut high) = (node_of(from), node_of(to));
        let mut count = 0_u32;
        // Both paths end at 0; beyond the point where they meet, they would cancel.
        while high != low {
            if high > low {
                count = count.wrapping_add(self.tree[high]);
                high &= high - 1;
            } else {
                count = count.wrapping_sub(self.tree[low]);
                low &= low - 1;
            }
        }
        count
    }

    /// Moves a counted bit from `from`'s word to `to`'s.
    fn transfer(&mut self, from: u32, to: u32) {
        let (mut less, mut more) = (node_of(from), node_of(to));
        // Both paths end at the root, because the number of words is a power of two.
        while less != more {
            if less < more {
                self.tree[less] -= 1;
                less = above(less);
            } else {
                self.tree[more] += 1;
                more = above(more);
            }
        }
    }
}

/// Returns the tree's lowest node that counts this stamp.
fn node_of(stamp: u32) -> usize {
    (stamp / WORD) as usize + 1
}

/// Returns the next node that counts everything that `node` counts.
fn above(node: usize) -> usize {
    node + (node & node.wrapping_neg())
}
