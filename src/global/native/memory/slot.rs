//! The memory of a slot, which becomes accessible piece by piece as the slot's heap needs it.

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Range;
use core::ptr::NonNull;

use super::huge::{HUGE, Huge, Marks};
use super::space::{COVERED, SPACE, TABLE_STEP, table_len};
use crate::error::AllocError;
use crate::global::tuning::{HugePages, UNIT};
use crate::os;
use crate::source::{Region, Source};

/// The memory of a slot behind its heap: a [`Region`] that becomes accessible from both ends as it
/// is used.
///
/// The upper end is for bookkeeping alone, and becomes accessible in step with the extent: when
/// blocks fill the slot or reach a limit, freed blocks must still get the headers that other sizes
/// need.
///
/// Where the kernel may use huge pages (`huge`), the extent becomes accessible by whole huge pages:
/// the kernel decides at the first touch, and uses one only if all of it is accessible then.
///
/// Invariants: all that the region holds is below `low` or from `high` on, and accessible. The
/// entries and the marks of the slot are accessible up to `covered`, at least up to `low`. All
/// bounds are multiples of an OS page, or `low` and `high` are equal.
#[derive(Debug)]
pub(in crate::global::native) struct Slot {
    /// The accessible memory: blocks from below, bookkeeping from above.
    region: Region,
    /// Addresses below the region that are accessible and unused: the first bookkeeping goes there.
    front: Range<usize>,
    /// Address up to which the lower part is accessible.
    low: usize,
    /// Address from which on the upper part is accessible.
    high: usize,
    /// Upper bound for the end of the extent.
    most: usize,
    /// Addresses up to which the list offsets of the slot, and its marks, are accessible.
    covered: [usize; 2],
    /// In hardened mode, the address up to which the states are accessible; at least `low`.
    states_covered: usize,
    /// Which parts of the extent get huge pages.
    huge: Huge,
    /// Advice given to the kernel on huge pages for the whole slot.
    advice: Option<bool>,
    /// Whether the extent may grow.
    growth: Cell<Growth>,
}

/// Whether the extent of a slot may grow, and what was refused since it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Allowed,
    Barred,
    /// Growth was refused, and nothing else.
    Refused,
    /// Memory for bookkeeping was refused, because there is none.
    Exhausted,
}

/// Share of a slot that is for bookkeeping alone (1/48). Pages need less: at most 1/51 of their
/// length, where pages of 16 KiB have blocks of 8 bytes.
const BOOKKEEPING: usize = 48;

/// Fewest bytes that become accessible at a time.
const STEP: usize = 256 << 10;

impl Slot {
    /// Returns the memory of a slot behind its first `own` bytes, which are whole OS pages. Those
    /// from the byte `front` on are for bookkeeping.
    ///
    /// # Safety
    /// The memory behind `own` bytes is not accessible yet, that from `front` on is, and is zeros;
    /// the marks are zeros; nothing else uses any of these.
    pub(in crate::global::native) unsafe fn new(
        slot: usize,
        front: usize,
        own: usize,
        huge_pages: HugePages,
        marks: &'static Marks,
    ) -> Self {
        let start = SPACE.slot(slot).wrapping_add(own);
        let len = SPACE.slot_len() - own;
        // SAFETY: the caller guarantees that it is unused; it becomes accessible before it is
        // handed out, and is fresh from the system.
        let region = unsafe { Region::zeroed(start, len) };
        let end = start.addr() + len;
        let most = (end - len / BOOKKEEPING) & !(os::page_size() - 1);
        Self {
            region,
            front: SPACE.slot(slot).addr() + front..start.addr(),
            low: start.addr(),
            high: end,
            most,
            covered: [SPACE.slot(slot).addr(); 2],
            states_covered: SPACE.slot(slot).addr(),
            huge: Huge::new(huge_pages, start.addr()..most, marks),
            advice: huge_pages.advice(),
            growth: Cell::new(Growth::Allowed),
        }
    }

    /// Returns the state of the huge pages of the slot's extent.
    pub(in crate::global::native) fn huge(&self) -> &Huge {
        &self.huge
    }

    /// Bars the extent from growing.
    pub(in crate::global::native) fn bar_growth(&self) {
        self.growth.set(Growth::Barred);
    }

    /// Lets the extent grow again. Returns whether anything was refused since it was
    /// [barred](Self::bar_growth).
    pub(in crate::global::native) fn allow_growth(&self) -> bool {
        matches!(self.growth.replace(Growth::Allowed), Growth::Refused | Growth::Exhausted)
    }

    /// Returns whether growth was refused because it is [barred](Self::bar_growth), and nothing
    /// else was.
    pub(in crate::global::native) fn is_growth_refused(&self) -> bool {
        self.growth.get() == Growth::Refused
    }

    /// Gives back all memory that was made accessible.
    ///
    /// # Safety
    /// Nobody uses it, or will.
    pub(in crate::global::native) unsafe fn give_up(&self) {
        let at = |address| SPACE.pointer(address);
        let addresses = self.region.addresses();
        let slot = SPACE.slot_of(at(addresses.start));
        let (tables, len) = SPACE.tables_of(slot);
        let covered = self.covered.map(|to| table_len(to - SPACE.slot(slot).addr()).min(len));
        // SAFETY: by the invariant all this is accessible; the caller guarantees that it is unused.
        unsafe {
            SPACE.give_up(at(addresses.start), self.low - addresses.start);
            SPACE.give_up(at(self.high), addresses.end - self.high);
            tables.into_iter().zip(covered).for_each(|(table, len)| SPACE.give_up(table, len));
            if let Some((states, _)) = SPACE.states_of(slot) {
                SPACE.give_up(states, (self.states_covered - SPACE.slot(slot).addr()) / UNIT);
            }
        }
    }

    /// Makes the extent accessible up to `end`, or a step further.
    fn reach(&mut self, end: usize) -> Result<(), AllocError> {
        if end > self.most {
            return Err(AllocError::Exhausted);
        }
        if end > self.low && self.low < self.high {
            let page = os::page_size();
            let end = end.next_multiple_of(page);
            let step = STEP.max(self.region.extent().len() / 8).next_multiple_of(page);
            let mut to = (self.low + step).min(self.most).max(end);
            if self.huge.may_be_huge_below(to) {
                to = to.next_multiple_of(HUGE).min(self.most);
            }
            self.cover(end)?;
            self.set_aside(end)?;
            let commit = |slot: &mut Self, to: usize| {
                let to = to.min(slot.high);
                slot.commit(slot.low..to)?;
                slot.low = to;
                Ok(())
            };
            if self.cover(to).is_err() || commit(self, to).is_err() {
                commit(self, end)?;
            }
        }
        self.huge.reach(SPACE.pointer(end));
        Ok(())
    }

    /// Makes the bookkeeping memory accessible that an extent up to `end` needs: at a limit, freed
    /// blocks must still serve other sizes. The unused memory in `front` counts.
    fn set_aside(&mut self, end: usize) -> Result<(), AllocError> {
        let addresses = self.region.addresses();
        let wanted = (end - addresses.start) / BOOKKEEPING;
        self.open_down_to(addresses.end - wanted.saturating_sub(self.front.len()))
    }

    /// Makes the upper end accessible from `wanted` on, and [`STEP`] bytes more if possible.
    fn open_down_to(&mut self, wanted: usize) -> Result<(), AllocError> {
        if wanted < self.high {
            let page = os::page_size();
            let extent = self.region.extent().end.max(self.low);
            let bound = |from: usize| (from & !(page - 1)).max(extent).min(self.high);
            let (most, least) = (bound(wanted.min(self.high.saturating_sub(STEP))), bound(wanted));
            self.high = match self.commit(most..self.high) {
                Ok(()) => most,
                Err(_) => self.commit(least..self.high).map(|()| least)?,
            };
        }
        Ok(())
    }

    /// Makes the entries and the marks accessible for the slot up to `end`.
    fn cover(&mut self, end: usize) -> Result<(), AllocError> {
        let slot = SPACE.slot_of(SPACE.pointer(self.region.addresses().start));
        let (tables, len) = SPACE.tables_of(slot);
        for (table, covered) in tables.into_iter().zip(&mut self.covered) {
            while *covered < end {
                let from = table_len(*covered - SPACE.slot(slot).addr());
                let step = TABLE_STEP.min(len - from);
                // SAFETY: this is a part of the slot's table, behind the part that is accessible.
                if !unsafe { SPACE.commit(table.wrapping_add(from), step, None) } {
                    return Err(AllocError::Exhausted);
                }
                // Saturating: with 32-bit pointers less than `COVERED` may follow the slot's start.
                *covered = covered.saturating_add(COVERED);
            }
        }
        self.cover_states(end)
    }

    /// In hardened mode, makes the states accessible for the slot up to `end`.
    fn cover_states(&mut self, end: usize) -> Result<(), AllocError> {
        /// Bytes of a slot whose states become accessible at a time.
        const STATED: usize = 4 << 20;
        let slot = SPACE.slot_of(SPACE.pointer(self.states_covered));
        let Some((states, len)) = SPACE.states_of(slot) else { return Ok(()) };
        while self.states_covered < end {
            let from = (self.states_covered - SPACE.slot(slot).addr()) / UNIT;
            let step = (STATED / UNIT).min(len - from);
            // SAFETY: these are states of this slot, behind those that are accessible.
            if !unsafe { SPACE.commit(states.wrapping_add(from), step, None) } {
                return Err(AllocError::Exhausted);
            }
            self.states_covered += STATED;
        }
        Ok(())
    }

    /// Makes a part of the slot accessible.
    fn commit(&self, range: Range<usize>) -> Result<(), AllocError> {
        let start = SPACE.pointer(range.start);
        // SAFETY: by the invariant these are pages of the slot that are not accessible yet.
        let done = range.is_empty() || unsafe { SPACE.commit(start, range.len(), self.advice) };
        if done { Ok(()) } else { Err(AllocError::Exhausted) }
    }
}

// SAFETY: as a `Region`; the memory is accessible by the invariant.
unsafe impl Source for Slot {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        if self.growth.get() != Growth::Allowed {
            if self.growth.get() == Growth::Barred {
                self.growth.set(Growth::Refused);
            }
            return Err(AllocError::Exhausted);
        }
        let memory = self.region.extend(bytes, align)?;
        if let Err(error) = self.reach(self.region.extent().end) {
            // SAFETY: the bytes were just added.
            unsafe { self.region.retract(bytes) };
            return Err(error);
        }
        Ok(memory)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.region.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let start = self.front.start.next_multiple_of(layout.align());
        if start + layout.size() <= self.front.end {
            self.front.start = start + layout.size();
            return NonNull::new(SPACE.pointer(start)).ok_or(AllocError::Exhausted);
        }
        let top = self.region.dedicated().start;
        let opened = self.open_down_to(top.saturating_sub(layout.size() + layout.align()));
        let dedicated = opened.and_then(|()| self.region.dedicate(layout));
        if dedicated.is_err() && self.growth.get() != Growth::Allowed {
            self.growth.set(Growth::Exhausted);
        }
        dedicated
    }

    fn extent(&self) -> Range<usize> {
        self.region.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.region.dedicated()
    }
}

#[cfg(all(test, unix, not(miri), target_pointer_width = "64"))]
mod tests;
