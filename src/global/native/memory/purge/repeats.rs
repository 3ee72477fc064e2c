//! Which purges on growth were in vain, because the program soon used the memory again.

/// The outcome of purges on growth, by the doubling of the bytes that the heap grew by.
#[derive(Debug)]
pub(super) struct Repeats {
    /// For each doubling, the number of further growths that give nothing back.
    in_vain: [u8; usize::BITS as usize],
    /// A bit for each doubling that gave memory back and has not seen it used again.
    gone: usize,
    /// When memory last went back, milliseconds.
    last_at: u64,
}

impl Repeats {
    /// The state before anything went back.
    pub(super) const NONE: Self = Self { in_vain: [0; usize::BITS as usize], gone: 0, last_at: 0 };

    /// Growths that give nothing back before the next try.
    const TRIED: u8 = 16;

    /// Returns whether memory given back for a growth by `bytes` would soon be used again.
    pub(super) fn skip_if_in_vain(&mut self, bytes: usize) -> bool {
        let left = &mut self.in_vain[bytes.max(1).ilog2() as usize];
        let is_in_vain = *left > 0;
        *left = left.saturating_sub(1);
        is_in_vain
    }

    /// Records that memory went back for a growth by `bytes`.
    pub(super) fn note_given_back(&mut self, bytes: usize, now: u64) {
        self.gone |= 1 << bytes.max(1).ilog2();
        self.last_at = now;
    }

    /// Records that memory which went back is used again: in vain, if within the purge delay.
    pub(super) fn note_reused(&mut self, now: u64, delay: u32) {
        let is_soon = now.saturating_sub(self.last_at) <= delay.into();
        let mut gone = core::mem::take(&mut self.gone);
        while is_soon && gone > 0 {
            self.in_vain[gone.trailing_zeros() as usize] = Self::TRIED;
            gone &= gone - 1;
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Memory that was soon used again stays the next sixteen times; then a growth tries again.
    #[test]
    fn memory_taken_again_stays() {
        let mut repeats = Repeats::NONE;
        assert!(!repeats.skip_if_in_vain(3 << 20));
        repeats.note_given_back(3 << 20, 5_000);
        repeats.note_given_back(9 << 20, 5_100);
        repeats.note_reused(7_000, 1_000);
        assert!(!repeats.skip_if_in_vain(3 << 20), "it was taken again late");
        repeats.note_given_back(3 << 20, 9_000);
        repeats.note_reused(9_500, 1_000);
        for _ in 0..Repeats::TRIED {
            assert!(repeats.skip_if_in_vain(2 << 20) && !repeats.skip_if_in_vain(4 << 20));
        }
        assert!(!repeats.skip_if_in_vain(3 << 20));
    }
}
