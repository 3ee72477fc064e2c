//! The rule that assigns slots to blocks: [`Slots`].

/// Assigns slots by the rule of [`Event`](super::Event): the slot freed most recently or, if none
/// is free, the lowest one never used.
///
/// The free slots are a stack linked through the table itself:
/// ```text
///  slot    0     1     2     3          head = 3 → 1 → none
///  links  LIVE  none  LIVE   1
/// ```
/// Invariant: following the links from `head` visits every free slot once and ends in `NONE`.
#[derive(Clone, Debug)]
pub struct Slots {
    links: Vec<u32>,
    head: u32,
    live: u32,
}

/// The slot is in use.
const LIVE: u32 = u32::MAX;
/// End of the stack of free slots.
const NONE: u32 = u32::MAX - 1;
/// Maximum number of live blocks in a trace: it bounds the memory that a hostile file can take, and
/// no recorded program came near it.
pub(crate) const MOST_LIVE: u32 = 1 << 28;

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}

impl Slots {
    /// Returns a table with no slot in use.
    #[must_use]
    pub const fn new() -> Self {
        Self { links: Vec::new(), head: NONE, live: 0 }
    }

    /// Makes room for `slots` slots, and writes to it: the table takes no more memory until they are
    /// used up, not even of pages never touched. O(slots).
    pub fn reserve(&mut self, slots: usize) {
        let len = self.links.len();
        self.links.resize(len.max(slots), LIVE);
        self.links.truncate(len);
    }

    /// Returns the slot that the next allocation takes; `None` if 2²⁸ are in use. O(1).
    #[must_use]
    pub fn next(&self) -> Option<u32> {
        match self.head {
            NONE => u32::try_from(self.links.len()).ok().filter(|&slot| slot < MOST_LIVE),
            head => Some(head),
        }
    }

    /// Takes the next slot; `None` if 2²⁸ are in use. O(1) amortised.
    pub fn take(&mut self) -> Option<u32> {
        let slot = self.next()?;
        if self.head == NONE {
            self.links.push(LIVE);
        } else {
            self.head = core::mem::replace(&mut self.links[slot as usize], LIVE);
        }
        self.live += 1;
        Some(slot)
    }

    /// Frees a slot; returns false and changes nothing if it is not in use. O(1).
    pub fn free(&mut self, slot: u32) -> bool {
        let live = self.is_live(slot);
        if live {
            self.links[slot as usize] = core::mem::replace(&mut self.head, slot);
            self.live -= 1;
        }
        live
    }

    /// Returns whether the slot is in use. O(1).
    #[must_use]
    pub fn is_live(&self, slot: u32) -> bool {
        self.links.get(slot as usize) == Some(&LIVE)
    }

    /// Returns the number of slots in use.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.live
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
impl Slots {
    /// Returns a table with this many slots in use. Takes no memory: its links are zeros that are
    /// not touched, so none of the slots can be freed.
    pub(crate) fn all_in_use(live: u32) -> Self {
        Self { links: vec![0; live as usize], head: NONE, live }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_freed_slot_is_reused_first() {
        let mut slots = Slots::new();
        assert_eq!([0; 3].map(|_| slots.take()), [Some(0), Some(1), Some(2)]);
        assert!(slots.free(0) && slots.free(2));
        assert_eq!(slots.live(), 1);
        assert_eq!([0; 3].map(|_| slots.take()), [Some(2), Some(0), Some(3)]);
    }

    #[test]
    fn reserved_slots_take_no_more_memory() {
        let mut slots = Slots::new();
        slots.reserve(1000);
        let room = slots.links.capacity();
        assert_eq!((0..1000).filter_map(|_| slots.take()).last(), Some(999));
        slots.reserve(10);
        assert_eq!((slots.links.capacity(), slots.live()), (room, 1000));
    }

    #[test]
    fn a_slot_not_in_use_cannot_be_freed() {
        let mut slots = Slots::new();
        assert!(!slots.free(0));
        let slot = slots.take().unwrap();
        assert!(slots.free(slot));
        assert!(!slots.free(slot));
        assert!(!slots.free(u32::MAX));
        assert_eq!(slots.next(), Some(slot));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "fills a gibibyte with Miri; there is nothing unsafe")]
    fn there_are_at_most_2_to_the_28_slots() {
        assert_eq!(Slots::all_in_use((1 << 28) - 1).next(), Some((1 << 28) - 1));
        let mut most = Slots::all_in_use(1 << 28);
        assert_eq!((most.next(), most.take(), most.live()), (None, None, 1 << 28));
    }
}
