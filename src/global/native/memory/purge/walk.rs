//! A walk through a heap in address order that gives free memory back, in steps.

use core::ops::Range;

use super::super::huge::{HUGE, Walked};
use super::super::runs::ResidentRuns;
use super::super::slot::Slot;
use super::super::space::SPACE;
use super::super::zero::Zeros;
use crate::global::native::base::visit::Visit;
use crate::os;
use crate::pages::{FreeKind, PageHeap};

/// The most blocks and pages that a step visits, since it holds the heap's lock. To look through a
/// page of the smallest blocks takes 10 µs.
pub(super) const STEP_BLOCKS: usize = 16;

/// The most bytes of free memory that the system is asked about and gets back in a step, except
/// that a huge page goes back whole.
pub(super) const STEP_BYTES: usize = 256 << 10;

/// The least pieces of free memory that go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Granularity {
    /// Every OS page.
    OsPages,
    /// Huge pages that are free as a whole.
    HugePages,
}

impl Granularity {
    /// Returns the bytes of a piece.
    fn unit(self) -> usize {
        match self {
            Self::OsPages => os::page_size(),
            Self::HugePages => HUGE.max(os::page_size()),
        }
    }
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the heap's end, by itself.
    ToTheEnd,
    /// As far as memory is wanted.
    AsWanted,
}

/// A walk under way.
#[derive(Debug)]
pub(super) struct Walk {
    /// The address up to which it has been.
    swept: usize,
    /// The huge page it is in.
    huge: Walked,
    /// Bytes of the OS pages visited that were wholly free.
    pub(super) met: usize,
    /// Bytes given back since it began, by this walk or otherwise.
    pub(super) given: usize,
    /// Free bytes of `Purge::most_resident` when it began.
    pub(super) free: usize,
    /// Stuck bytes within those.
    pub(super) stuck: usize,
    /// How far it goes.
    pub(super) reach: Reach,
    /// Whether it passed over free memory that is no whole huge page.
    pub(super) has_skipped: bool,
}

impl Walk {
    /// Makes a walk that has not begun, of a heap with this many free and stuck bytes.
    pub(super) fn new(free: usize, stuck: usize, reach: Reach) -> Self {
        let (huge, has_skipped) = (Walked::NOTHING, false);
        Self { swept: 0, huge, met: 0, given: 0, free, stuck, reach, has_skipped }
    }

    /// Does one step, which ends early when the visit is over. Gives back free memory in pieces of
    /// this granularity; in a walk to the heap's end, every OS page. Returns the bytes given back,
    /// and whether the walk has not reached the heap's end.
    pub(super) fn step(
        &mut self,
        granularity: Granularity,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> (usize, bool) {
        let granularity =
            if self.reach == Reach::ToTheEnd { Granularity::OsPages } else { granularity };
        self.has_skipped |= granularity != Granularity::OsPages;
        let (page, unit) = (os::page_size(), granularity.unit());
        let mut left = STEP_BYTES;
        let mut runs = ResidentRuns::new();
        let more = engine.walk_free(page, STEP_BLOCKS, &mut |source, free, kind| {
            let begin = free.start.next_multiple_of(unit).max(self.swept).next_multiple_of(page);
            let end = free.end & !(unit - 1);
            let mut start = begin;
            if start < end && kind == FreeKind::Block {
                // Skips what went back before and was not used since.
                start = zeros.skip(start..end);
                self.swept = start;
                self.met += start.min(end) - begin;
                let gone = pointers(begin..start.min(end));
                source.huge().note_free(&mut self.huge, Some((gone, 0)));
            }
            if start < end {
                let stop = match source.huge().may_be_huge(start) {
                    true => end_of_step(start..end, left),
                    false => end.min(start + left),
                };
                // SAFETY: the memory is free and holds no bookkeeping. The caller holds the heap's
                // lock, and this step allocates nothing before the runs go back.
                let written = unsafe { runs.find(start, stop, kind, zeros) };
                self.met += stop - start;
                source.huge().note_free(&mut self.huge, Some((pointers(start..stop), written)));
                left = if stop < end { 0 } else { left.saturating_sub(stop - start) };
                self.swept = stop;
                return left > 0 && !visit.is_over();
            }
            true
        });
        // SAFETY: as above; `zeros` is the same heap's.
        let given = unsafe { runs.give_back(zeros) };
        if !more {
            engine.source().huge().note_free(&mut self.huge, None);
        }
        (given, more)
    }
}

/// Returns where a step ends that may give back `left` bytes of `memory`: not within a huge page
/// that can go back whole, for a huge page given back in part is split, and comes again as small
/// pages.
fn end_of_step(memory: Range<usize>, left: usize) -> usize {
    let stop = memory.end.min(memory.start + left);
    let page = stop & !(HUGE - 1);
    if stop < memory.end && page >= memory.start && page + HUGE <= memory.end {
        return if page > memory.start { page } else { page + HUGE };
    }
    stop
}

/// Returns the pointers to a range of a heap's addresses.
fn pointers(addresses: Range<usize>) -> Range<*mut u8> {
    SPACE.pointer(addresses.start)..SPACE.pointer(addresses.end)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A huge page goes back whole, or not yet; other memory by [`STEP_BYTES`].
    #[test]
    fn steps_do_not_split_huge_pages() {
        let at = |bytes: usize| 7 * HUGE + bytes;
        for (memory, stop) in [
            (at(0)..at(4096), at(4096)),
            (at(0)..at(HUGE), at(HUGE)),
            (at(0)..at(3 * HUGE), at(HUGE)),
            (at(0)..at(HUGE - 4096), at(STEP_BYTES)),
            (at(4096)..at(3 * HUGE), at(4096 + STEP_BYTES)),
            (at(HUGE - 4096)..at(2 * HUGE), at(HUGE)),
            (at(HUGE - 4096)..at(2 * HUGE - 4096), at(HUGE - 4096 + STEP_BYTES)),
        ] {
            assert_eq!(end_of_step(memory.clone(), STEP_BYTES), stop, "{memory:x?}");
        }
    }
}
