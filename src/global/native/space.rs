//! The address space of all heaps, in equal slots, one slot for each heap.
//!
//! ```text
//! base                                                                  base + len
//!  | Heap | pages, blocks ▶   ◀ headers | Heap | …                …      | list offsets | marks |
//!  slot 0                               slot 1                            each a u32 for each 16 KiB
//! ```
//! Whose a block is follows from its address alone: (address − base) >> slot_shift. So does the
//! quick list it belongs to: the heap notes it for every granule of 16 KiB that it takes small
//! blocks from, and 0 where a larger block starts. No header is read, and no lock taken. Of a [medium](super::medium)
//! block, its granule's mark says whether it is in use.
//!
//! Nothing is reserved. The space is a *window*, up to 4 TiB of addresses that the system uses last, if
//! ever, for mappings that ask for no address; what a heap needs is mapped there piece by piece. So a
//! limit of the process's address space (RLIMIT_AS) counts what is used, whenever it is set. Where
//! something else comes to lie in the window after all, the heap that meets it has reached its end. On Windows memory
//! comes to reserved addresses alone: there a slot is reserved when it gets its heap, and the tables at once.
//!
//! Where no window can be had, as with addresses of 32 bits, the space is a reservation: as large as
//! the system allows, at most half of RLIMIT_AS.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};

use super::huge::{HUGE, Huge, Marks};
use super::mode;
use super::sealed::Sealed;
use super::tuning::{GRANULE, HugePages, LARGEST_SLOT, UNIT};
use crate::error::AllocError;
use crate::os;
use crate::source::{Region, Source};

/// The most, bytes; a reservation of as much is asked for first.
const LARGEST: usize = 1 << if usize::BITS == 64 { 42 } else { 30 };

/// A reservation of less is not worth while, bytes.
const LEAST: usize = 1 << 24;

/// A slot has no less, if there are several.
const LEAST_SLOT: usize = 1 << 26;

/// What slots are aligned to: the largest page size, and a huge page.
const ALIGN: usize = 2 << 20;

/// Bytes of the table that become accessible at a time.
const TABLE_STEP: usize = 64 << 10;

/// Bytes of a slot whose entries they are.
const COVERED: usize = TABLE_STEP / size_of::<AtomicU32>() * GRANULE;

/// The address space. Invariants, once it is [open](Space::open): `base` is aligned to [`ALIGN`];
/// the slots lie between it and `table`, which has an entry for each granule, as have the marks behind it; those that
/// have a heap lie in the `units` from it. Nothing is changed any more but `units`, which grows as heaps are opened, and
/// the entries, each before the blocks of its granule are handed out, and the marks.
///
/// `table` is stored last. `units` is loaded first where an address may be any (null, another
/// allocator's): whoever sees it sees the rest. Whoever has a block of a slot sees the rest by having it.
#[derive(Debug)]
pub(super) struct Space {
    base: AtomicPtr<u8>,
    units: AtomicUsize,
    table: AtomicPtr<AtomicU32>,
    /// Where the mark of address 0 would be.
    marks: AtomicPtr<AtomicU32>,
    /// In hardened mode, a byte for each unit of the slots; else null.
    states: AtomicPtr<AtomicU8>,
    slot_shift: AtomicU32,
    /// Whether the space is a reservation.
    reserved: AtomicBool,
    /// In a window of addresses that must be reserved: the slots below this one are.
    taken: AtomicUsize,
}

/// The state of a freed block that is zeros.
pub(super) const ZEROED: u8 = 255;

/// The one there is.
pub(super) static SPACE: Sealed<Space> = Sealed::new(Space::new());

impl Space {
    /// One without addresses.
    const fn new() -> Self {
        Self {
            base: AtomicPtr::new(ptr::null_mut()),
            units: AtomicUsize::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            marks: AtomicPtr::new(ptr::null_mut()),
            states: AtomicPtr::new(ptr::null_mut()),
            slot_shift: AtomicU32::new(0),
            reserved: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
        }
    }

    /// Finds address space for about `heaps` heaps or more; returns the number of slots, or `None` if
    /// the system has none to give.
    pub(super) fn open(&self, heaps: usize) -> Option<usize> {
        let heaps = heaps.next_power_of_two();
        let window = window().filter(|(_, len)| len / heaps >= COVERED);
        let (base, len) = window.or_else(reservation)?;
        let slot = (len / heaps).clamp(LEAST_SLOT, LARGEST_SLOT).min(len);
        self.base.store(base, Relaxed);
        if mode::is_hardened() {
            self.states.store(base.wrapping_add(len + 2 * table_len(len) + ALIGN).cast(), Relaxed);
        }
        self.slot_shift.store(slot.trailing_zeros(), Relaxed);
        self.reserved.store(window.is_none(), Relaxed);
        let marks = base.wrapping_add(len + table_len(len)).cast::<AtomicU32>();
        self.marks.store(marks.wrapping_sub(base.addr() / GRANULE), Relaxed);
        self.table.store(base.wrapping_add(len).cast(), Release);
        Some(len / slot)
    }

    /// Sees to it that a slot's addresses are this process's, where they must be; the slots below it have theirs.
    /// Whether they are.
    ///
    /// To be called by one thread at a time.
    pub(super) fn take(&self, slot: usize) -> bool {
        let taken = !os::IN_RESERVATIONS
            || self.reserved.load(Relaxed)
            || slot < self.taken.load(Relaxed)
            || os::reserve_at(self.slot(slot), self.slot_len());
        if taken {
            self.taken.fetch_max(slot + 1, Relaxed);
        }
        taken
    }

    /// The slots below this one have a heap each: addresses in others are no block's.
    pub(super) fn have_heaps(&self, slots: usize) {
        self.units.store((slots << self.slot_shift.load(Relaxed)) / UNIT, Release);
    }

    /// Has these addresses be slots, in a process without heaps.
    #[cfg(test)]
    pub(super) fn pretend(&self, start: *mut u8, len: usize) {
        self.base.store(start, Relaxed);
        self.table.store(start.wrapping_add(len).cast(), Release);
    }

    /// Where a slot starts.
    #[inline(always)]
    pub(super) fn slot(&self, slot: usize) -> *mut u8 {
        self.base.load(Relaxed).wrapping_add(slot << self.slot_shift.load(Relaxed))
    }

    /// Bytes of a slot.
    pub(super) fn slot_len(&self) -> usize {
        1 << self.slot_shift.load(Relaxed)
    }

    /// Makes memory of a slot or of the table accessible, zeros; the kernel is told of huge pages there,
    /// if anything. Whether it could be done.
    ///
    /// # Safety
    /// The memory is whole OS pages of one slot, or of its entries, which nobody else uses, and it was
    /// not accessible before: where the space is a reservation, it may have been.
    pub(super) unsafe fn commit(&self, start: *mut u8, len: usize, huge: Option<bool>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let done = if self.reserved.load(Relaxed) {
                os::commit(start, len)
            } else {
                os::map_at(start, len)
            };
            if let Some(wanted) = huge.filter(|_| done) {
                os::advise_huge_pages(start, len, wanted);
            }
            done
        }
    }

    /// Where the entries of a slot start, where its marks do, and the bytes of each.
    fn tables_of(&self, slot: usize) -> ([*mut u8; 2], usize) {
        let len = table_len(self.slot_len());
        let entries = self.table.load(Relaxed).cast::<u8>().wrapping_add(slot * len);
        ([entries, self.mark_at(self.slot(slot)).cast()], len)
    }

    /// The mark of the block that starts in this one's granule.
    #[inline(always)]
    pub(super) fn mark_of(&self, block: *mut u8) -> &AtomicU32 {
        // SAFETY: as for an entry.
        unsafe { &*self.mark_at(block) }
    }

    /// Where that lies.
    #[inline(always)]
    fn mark_at(&self, block: *mut u8) -> *mut AtomicU32 {
        self.marks.load(Relaxed).wrapping_add(block.addr() / GRANULE)
    }

    /// Where the states of a slot start, and their bytes; `None` but in hardened mode.
    fn states_of(&self, slot: usize) -> Option<(*mut u8, usize)> {
        let states = self.states.load(Relaxed).cast::<u8>();
        let len = self.slot_len() / UNIT;
        (!states.is_null()).then(|| (states.wrapping_add(slot * len), len))
    }

    /// In hardened mode: the state of the unit at an address in a slot that was extended so far.
    #[inline(always)]
    pub(super) fn state_of(&self, block: *mut u8) -> &AtomicU8 {
        // SAFETY: there is a byte for every unit of the slots, and it is accessible as far as a slot is
        // in use; all bits zero is a value.
        unsafe { &*self.states.load(Relaxed).wrapping_add(self.offset(block) / UNIT) }
    }

    /// In hardened mode: whether a block was zeroed when it was freed.
    pub(super) fn was_zeroed(&self, block: *mut u8) -> bool {
        self.state_of(block).load(Relaxed) == ZEROED
    }

    /// In hardened mode: has no block start in a page, none of whose blocks is in use or on a list.
    pub(super) fn forget_states(&self, page: *mut u8, page_size: usize) {
        if mode::is_hardened() {
            let states = self.states.load(Relaxed).wrapping_add(self.offset(page) / UNIT);
            // SAFETY: the states of a page follow each other, and are the heap's while nobody has its blocks.
            unsafe { states.write_bytes(0, page_size / UNIT) };
        }
    }

    /// In hardened mode: gives the states of free memory back, as far as they fill OS pages; no block starts
    /// there then.
    pub(super) fn discard_states(&self, start: *mut u8, len: usize) {
        if mode::is_hardened() {
            let page = os::page_size();
            let first = self.states.load(Relaxed).cast::<u8>();
            let state = |at: usize| first.wrapping_add(self.offset(start.wrapping_add(at)) / UNIT);
            let from = state(0).addr().next_multiple_of(page);
            let to = state(len).addr() & !(page - 1);
            if from < to {
                // SAFETY: the states of memory that was extended so far are accessible, and nobody has a
                // block there.
                unsafe {
                    let states = first.with_addr(from);
                    if !os::discard_to_zeros(states, to - from) {
                        states.write_bytes(0, to - from);
                    }
                }
            }
        }
    }

    /// Gives up memory that was made accessible, in vain.
    ///
    /// # Safety
    /// It was [committed](Self::commit), and nobody uses it.
    pub(super) unsafe fn give_up(&self, start: *mut u8, len: usize) {
        // SAFETY: the caller's promise. Addresses that were reserved stay so, and have zeros the next time.
        unsafe {
            if os::IN_RESERVATIONS || self.reserved.load(Relaxed) {
                os::close(start, len);
            } else {
                os::release(start, len);
            }
        }
    }

    /// Bytes from the base to an address in a slot.
    #[inline(always)]
    fn offset(&self, block: *mut u8) -> usize {
        block.addr().wrapping_sub(self.base.load(Relaxed).addr())
    }

    /// Units from the base to any address; `None` if it lies in no heap's slot or is no multiple of a unit,
    /// as every block's is. One comparison tells both: the rotation makes a large number of a remainder.
    #[inline(always)]
    fn find(&self, block: *mut u8) -> Option<usize> {
        let units = self.units.load(Acquire);
        let unit = self.offset(block).rotate_right(UNIT.trailing_zeros());
        (unit < units).then_some(unit)
    }

    /// Whether a block lies in a slot.
    #[inline(always)]
    pub(super) fn contains(&self, block: *mut u8) -> bool {
        self.find(block).is_some()
    }

    /// Whether other memory lies in the slots: what is freed there would be taken for a heap's.
    pub(super) fn meets(&self, start: *mut u8, len: usize) -> bool {
        let end = self.table.load(Acquire).addr();
        let slots = end.wrapping_sub(self.base.load(Relaxed).addr());
        self.offset(start) < slots || self.offset(start.wrapping_add(len - 1)) < slots
    }

    /// The slot a block lies in; the caller knows that it lies in one.
    #[inline(always)]
    pub(super) fn slot_of(&self, block: *mut u8) -> usize {
        self.offset(block) >> self.slot_shift.load(Relaxed)
    }

    /// Whether all these blocks lie in a slot. Its length is a power of two, so one comparison does
    /// for all distances from its start.
    #[inline(always)]
    pub(super) fn slot_has(&self, slot: usize, blocks: &[NonNull<u8>]) -> bool {
        let start = self.slot(slot).addr();
        let distance = |block: &NonNull<u8>| block.addr().get().wrapping_sub(start);
        blocks.iter().fold(0, |all, block| all | distance(block)) < self.slot_len()
    }

    #[inline(always)]
    fn entry(&self, granule: usize) -> &AtomicU32 {
        // SAFETY: the table has an entry for every granule of the slots, and is accessible as far as a slot is in use;
        // all bits zero is a value.
        unsafe { &*self.table.load(Relaxed).wrapping_add(granule) }
    }

    /// The offset of the quick list for this block: 0 if it is not a small one, `None` if it lies
    /// in no slot, or is no block for not being aligned.
    #[inline(always)]
    pub(super) fn list_of(&self, block: *mut u8) -> Option<u32> {
        self.find(block).map(|unit| self.entry(unit / (GRANULE / UNIT)).load(Relaxed))
    }

    /// Notes the quick list of the blocks in all granules of a page.
    #[inline(always)]
    pub(super) fn set_list_of_page(&self, page: *mut u8, page_size: usize, list: u32) {
        for granule in (0..page_size).step_by(GRANULE) {
            self.set_list(page.wrapping_add(granule), list);
        }
    }

    /// Notes the quick list of the blocks in this one's granule.
    #[inline(always)]
    pub(super) fn set_list(&self, block: *mut u8, list: u32) {
        self.entry(self.offset(block) / GRANULE).store(list, Relaxed);
    }

    /// Notes another quick list for the blocks in this one's granule, unless that was changed meanwhile.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(super) fn change_list(&self, block: *mut u8, from: u32, to: u32) {
        let entry = self.entry(self.offset(block) / GRANULE);
        let _ = entry.compare_exchange(from, to, Relaxed, Relaxed);
    }
}

/// Bytes behind `len` bytes of slots: the entries and the marks; in hardened mode the states, and a gap before them that
/// stays inaccessible.
fn besides(len: usize) -> usize {
    let states = if mode::is_hardened() { ALIGN + len / UNIT } else { 0 };
    2 * table_len(len) + states
}

/// Bytes of the entries for `len` bytes of slots.
fn table_len(len: usize) -> usize {
    (len / GRANULE) * size_of::<AtomicU32>()
}

/// Addresses for slots and their table that nothing uses, and the bytes of the slots.
///
/// The system places mappings from the upper end of its addresses downwards, or from the program
/// upwards, which lies above the window; so they lie below three eighths of all, and at random.
fn window() -> Option<(*mut u8, usize)> {
    /// Places that are tried.
    const TRIES: usize = 8;
    let all = os::addresses()?;
    let most = (all / 16).min(LARGEST);
    let len = if os::IN_RESERVATIONS { within(os::address_space_limit(), most) } else { most };
    let places = all / 4 / ALIGN;
    (0..TRIES).find_map(|_| {
        // Of no other address, so that who knows one does not know this.
        let place = os::random() as usize % places;
        let base = ptr::with_exposed_provenance_mut(all / 8 + place * ALIGN);
        let is_free = os::is_free(base, len + besides(len))
            && (!os::IN_RESERVATIONS || os::reserve_at(base.wrapping_add(len), besides(len)));
        is_free.then_some((base, len))
    })
}

/// Itself, a half, a quarter and so on, down to 1.
fn halves(len: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS).map(move |times| len >> times).take_while(|&len| len > 0)
}

/// The largest [part](halves) of `len` that takes no more than half of the limit; 0: there is none.
fn within(limit: usize, len: usize) -> usize {
    halves(len).find(|&len| len <= limit / 2).unwrap_or(0)
}

/// As [`window`], reserved.
fn reservation() -> Option<(*mut u8, usize)> {
    let most = within(os::address_space_limit(), LARGEST);
    halves(most).take_while(|&len| len >= LEAST).find_map(|len| {
        let memory = os::reserve(len + besides(len) + ALIGN)?;
        Some((memory.wrapping_add(memory.align_offset(ALIGN)), len))
    })
}

/// A slot's memory behind its heap: a region that becomes accessible as it is used, from both ends.
///
/// Its last part is for bookkeeping alone, and becomes accessible in step with the extent: blocks that
/// fill the slot, or reach a limit, must not leave other blocks without headers later, when they have
/// been freed.
///
/// Where the kernel may be told to use huge pages (`huge`), the extent becomes accessible by whole huge
/// pages: the kernel chooses when a page is first touched, and only if all of a huge page is
/// accessible then.
///
/// Invariants: what the region holds lies below `low` or from `high` on; all of that is accessible, and
/// so are the entries and the marks of the slot, each up to `covered`, which is no less than `low`. All are at the
/// bounds of OS pages, or `low` and `high` are the same.
#[derive(Debug)]
pub(super) struct Slot {
    region: Region,
    low: usize,
    high: usize,
    /// Where the extent ends at most.
    most: usize,
    covered: [usize; 2],
    /// In hardened mode: up to where the states are accessible, no less than `low`.
    stated: usize,
    huge: Huge,
    /// What the kernel is told of all of the slot.
    advice: Option<bool>,
}

/// The part of a slot that is for bookkeeping alone: pages of the smallest blocks need less.
const BOOKKEEPING: usize = 64;

/// The least that is made accessible at one time, bytes.
const STEP: usize = 256 << 10;

impl Slot {
    /// The memory of a slot behind its first `own` bytes, whole OS pages.
    ///
    /// # Safety
    /// The memory is not accessible yet, and nobody else's; the marks are zeros, and nobody else's either.
    pub(super) unsafe fn new(
        slot: usize,
        own: usize,
        huge_pages: HugePages,
        marks: &'static Marks,
    ) -> Self {
        let start = SPACE.slot(slot).wrapping_add(own);
        let len = SPACE.slot_len() - own;
        // SAFETY: the caller's promise; the memory becomes accessible before it is handed out, and
        // is fresh from the system.
        let region = unsafe { Region::zeroed(start, len) };
        let end = start.addr() + len;
        let most = (end - len / BOOKKEEPING) & !(os::page_size() - 1);
        Self {
            region,
            low: start.addr(),
            high: end,
            most,
            covered: [SPACE.slot(slot).addr(); 2],
            stated: SPACE.slot(slot).addr(),
            huge: Huge::new(huge_pages, start.addr()..most, marks),
            advice: huge_pages.advice(),
        }
    }

    /// The extent's huge pages.
    pub(super) fn huge(&self) -> &Huge {
        &self.huge
    }

    /// Gives up all that was made accessible.
    ///
    /// # Safety
    /// Nobody uses it, or will.
    pub(super) unsafe fn give_up(&self) {
        let at = |address| SPACE.slot(0).with_addr(address);
        let addresses = self.region.addresses();
        let slot = SPACE.slot_of(at(addresses.start));
        let (tables, len) = SPACE.tables_of(slot);
        let covered = self.covered.map(|to| table_len(to - SPACE.slot(slot).addr()).min(len));
        // SAFETY: by the invariant all this is accessible; the caller's promise.
        unsafe {
            SPACE.give_up(at(addresses.start), self.low - addresses.start);
            SPACE.give_up(at(self.high), addresses.end - self.high);
            tables.into_iter().zip(covered).for_each(|(table, len)| SPACE.give_up(table, len));
            if let Some((states, _)) = SPACE.states_of(slot) {
                SPACE.give_up(states, (self.stated - SPACE.slot(slot).addr()) / UNIT);
            }
        }
    }

    /// Makes the extent accessible as far as `end`.
    fn reach(&mut self, end: usize) -> Result<(), AllocError> {
        if end > self.most {
            return Err(AllocError::Exhausted);
        }
        if end > self.low && self.low < self.high {
            let page = os::page_size();
            let end = end.next_multiple_of(page);
            let step = STEP.max(self.region.extent().len() / 8).next_multiple_of(page);
            let mut to = (self.low + step).min(self.most).max(end);
            if self.huge.concerns(to) {
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
        self.huge.reach(SPACE.slot(0).with_addr(end));
        Ok(())
    }

    /// Makes as much accessible for bookkeeping as an extent up to `end` needs: where a limit is reached,
    /// blocks that were freed must still serve other sizes.
    fn set_aside(&mut self, end: usize) -> Result<(), AllocError> {
        let slot = self.region.addresses();
        self.open_down_to(slot.end - (end - slot.start) / BOOKKEEPING)
    }

    /// Makes the upper end accessible from `wanted` on, and some more unless memory ends.
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
        let slot = SPACE.slot_of(SPACE.slot(0).with_addr(self.region.addresses().start));
        let (tables, len) = SPACE.tables_of(slot);
        for (table, covered) in tables.into_iter().zip(&mut self.covered) {
            while *covered < end {
                let from = table_len(*covered - SPACE.slot(slot).addr());
                let step = TABLE_STEP.min(len - from);
                // SAFETY: these are of this slot, behind those that are accessible.
                if !unsafe { SPACE.commit(table.wrapping_add(from), step, None) } {
                    return Err(AllocError::Exhausted);
                }
                // With pointers of 32 bits a slot may lie where less follows.
                *covered = covered.saturating_add(COVERED);
            }
        }
        self.state(end)
    }

    /// In hardened mode, makes the states accessible for the slot up to `end`.
    fn state(&mut self, end: usize) -> Result<(), AllocError> {
        /// Bytes of a slot whose states become accessible at a time.
        const STATED: usize = 4 << 20;
        let slot = SPACE.slot_of(SPACE.slot(0).with_addr(self.stated));
        let Some((states, len)) = SPACE.states_of(slot) else { return Ok(()) };
        while self.stated < end {
            let from = (self.stated - SPACE.slot(slot).addr()) / UNIT;
            let step = (STATED / UNIT).min(len - from);
            // SAFETY: these are states of this slot, behind those that are accessible.
            if !unsafe { SPACE.commit(states.wrapping_add(from), step, None) } {
                return Err(AllocError::Exhausted);
            }
            self.stated += STATED;
        }
        Ok(())
    }

    /// Makes the addresses accessible.
    fn commit(&self, range: Range<usize>) -> Result<(), AllocError> {
        let start = SPACE.slot(0).with_addr(range.start);
        // SAFETY: by the invariant these are pages of the slot that are not accessible.
        let done = range.is_empty() || unsafe { SPACE.commit(start, range.len(), self.advice) };
        if done { Ok(()) } else { Err(AllocError::Exhausted) }
    }
}

// SAFETY: the region's promises; the memory is accessible by the invariant.
unsafe impl Source for Slot {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        let memory = self.region.extend(bytes, align)?;
        if let Err(error) = self.reach(self.region.extent().end) {
            // SAFETY: the bytes were just added.
            unsafe { self.region.retract(bytes) };
            return Err(error);
        }
        Ok(memory)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: passed on.
        unsafe { self.region.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let top = self.region.dedicated().start;
        self.open_down_to(top.saturating_sub(layout.size() + layout.align()))?;
        self.region.dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        self.region.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.region.dedicated()
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
