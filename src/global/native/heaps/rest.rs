//! How long lists rest after a decision whether they [make
//! way](crate::global::native::lists::growth) before a heap grows.
//!
//! Making way and being filled again costs lists about as much time as a few growths of the heap.
//! So as many growths, or a few times as many uses of the heap, pass before they are asked again.
//! If they must make way sooner, the last time was in vain, and the next rest is twice as long.
//!
//! Lists that stayed are asked again after some uses of the heap, or once it has so much free
//! memory that they might decide otherwise.

/// Uses of a heap that take about as long as a growth.
const USES_OF_GROWTH: usize = 4;

/// Uses for which a decision that lists stay holds good.
const USES: usize = 32;

/// The most times in a row that the rest doubles.
const MOST_DOUBLED: u32 = 6;

/// The rest of the lists that take their blocks from a heap.
#[derive(Debug)]
pub(in crate::global::native) struct Rest {
    /// The rest ends after this number of uses of the heap that take memory.
    uses: usize,
    /// The rest ends after this number of growths of the heap.
    growths: usize,
    /// The rest ends when the heap has this number of free bytes.
    free: usize,
    /// Uses of the heap that are left until the last time that lists made way has paid for itself.
    unpaid: usize,
    /// How many times in a row they made way in vain.
    in_vain: u32,
}

impl Rest {
    /// Makes a rest that is over.
    pub(super) const fn new() -> Self {
        Self { uses: 0, growths: 0, free: 0, unpaid: 0, in_vain: 0 }
    }

    /// Counts a use of the heap, which has `free` free bytes; returns whether lists rest in it.
    #[inline]
    pub(super) fn count_use(&mut self, free: usize) -> bool {
        let rests = self.uses > 0 && self.growths > 0 && free < self.free;
        self.uses = self.uses.saturating_sub(1);
        self.unpaid = self.unpaid.saturating_sub(1);
        rests
    }

    /// Counts a growth.
    #[inline]
    pub(super) fn count_growth(&mut self) {
        self.growths = self.growths.saturating_sub(1);
    }

    /// Begins after lists made way, which takes them as long as `growths` growths, at least one.
    pub(super) fn begin(&mut self, growths: usize) {
        self.in_vain = if self.unpaid > 0 { (self.in_vain + 1).min(MOST_DOUBLED) } else { 0 };
        self.unpaid = growths * USES_OF_GROWTH;
        self.uses = self.unpaid << self.in_vain;
        self.growths = growths << self.in_vain;
        self.free = usize::MAX;
    }

    /// Begins after lists stayed; it ends once the heap has `free` free bytes.
    pub(super) fn begin_as_lists_stay(&mut self, free: usize) {
        self.uses = USES;
        self.growths = usize::MAX;
        self.free = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Lists rest until the heap has been used, or has grown, as often as pays for their way out.
    #[test]
    fn lists_rest_until_their_way_out_has_paid() {
        let mut rest = Rest::new();
        assert!(!rest.count_use(0), "it is over at first");
        rest.begin(3);
        let uses = 3 * USES_OF_GROWTH;
        assert!((0..uses).all(|_| rest.count_use(100 * MIB)));
        assert!(!rest.count_use(100 * MIB));

        rest.begin(3);
        for _ in 0..3 {
            assert!(rest.count_use(100 * MIB));
            rest.count_growth();
        }
        assert!(!rest.count_use(100 * MIB));
    }

    /// Each time that they made way in vain they rest twice as long, up to a bound.
    #[test]
    fn lists_rest_longer_after_a_way_out_in_vain() {
        let mut rest = Rest::new();
        let mut growths = |uses| {
            (0..uses).for_each(|_| _ = rest.count_use(0));
            rest.begin(5);
            rest.growths
        };
        assert_eq!(growths(0), 5, "the first");
        let in_vain: Vec<_> = (0..8).map(|_| growths(5 * USES_OF_GROWTH - 1)).collect();
        assert_eq!(in_vain, [10, 20, 40, 80, 160, 320, 320, 320]);
        assert_eq!(growths(5 * USES_OF_GROWTH), 5);
        assert_eq!(growths(1), 10);
    }

    /// Lists that stayed rest for some uses, and while the heap has little free memory.
    #[test]
    fn lists_that_stayed_are_asked_again() {
        let mut rest = Rest::new();
        rest.begin_as_lists_stay(2 * MIB);
        assert!(rest.count_use(MIB) && !rest.count_use(2 * MIB) && rest.count_use(MIB));
        (0..9).for_each(|_| rest.count_growth());
        assert!((3..USES).all(|_| rest.count_use(2 * MIB - 1)));
        assert!(!rest.count_use(0));
    }
}
