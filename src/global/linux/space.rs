//! The address space of all heaps: one reservation, in equal slots, one slot for each heap.
//!
//! ```text
//! base                                                                  base + len
//!  | Heap | pages, blocks ▶   ◀ headers | Heap | …                …      | list offsets |
//!  slot 0                               slot 1                            a u16 for each 16 KiB
//! ```
//! Whose a block is follows from its address alone: (address − base) >> slot_shift. So does the
//! quick list it belongs to: the heap notes it for every granule of 16 KiB that it takes small
//! blocks from, and 0 where a larger block starts. No header is read, and no lock taken.
//!
//! The reservation is as large as the system allows, up to 4 TiB, and at most half of what
//! RLIMIT_AS leaves. It takes no memory: a slot is made accessible as its heap grows.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};

use super::huge::{HUGE, Huge};
use super::os;
use super::tuning::{GRANULE, HugePages, LARGEST_SLOT, UNIT};
use crate::source::{Region, Source};
use crate::strategy::AllocError;

/// What is asked for first, bytes.
const LARGEST: usize = 1 << if usize::BITS == 64 { 42 } else { 30 };

/// Below this it is not worth while, bytes.
const LEAST: usize = 1 << 24;

/// A slot has no less, if there are several.
const LEAST_SLOT: usize = 1 << 26;

/// What slots are aligned to: the largest page size.
const ALIGN: usize = 1 << 20;

/// The address space. Invariants, once it is [open](Space::open): `base` is aligned to [`ALIGN`];
/// the slots lie in the `units` from it, behind them a table entry for each granule. Nothing
/// is changed any more but the entries, each before the blocks of its granule are handed out.
///
/// `units` is stored last, and loaded first where an address may be any (null, another allocator's):
/// whoever sees it sees the rest. Whoever has a block of a slot sees the rest by having it.
#[derive(Debug)]
pub(super) struct Space {
    base: AtomicPtr<u8>,
    units: AtomicUsize,
    table: AtomicPtr<AtomicU16>,
    slot_shift: AtomicU32,
}

/// The one there is.
pub(super) static SPACE: Space = Space {
    base: AtomicPtr::new(ptr::null_mut()),
    units: AtomicUsize::new(0),
    table: AtomicPtr::new(ptr::null_mut()),
    slot_shift: AtomicU32::new(0),
};

impl Space {
    /// Reserves the address space for about `heaps` heaps or more; returns the number of slots, or
    /// `None` if the system has none to give.
    pub(super) fn open(&self, heaps: usize) -> Option<usize> {
        let mut len = LARGEST;
        while len > os::address_space_limit() / 2 {
            len /= 2;
        }
        let memory = loop {
            if len < LEAST {
                return None;
            }
            match os::reserve(len + table_len(len) + ALIGN) {
                Some(memory) => break memory,
                None => len /= 2,
            }
        };
        let base = memory.wrapping_add(memory.align_offset(ALIGN));
        let share = len / heaps.next_power_of_two();
        let slot = share.clamp(LEAST_SLOT, LARGEST_SLOT).min(len);
        self.base.store(base, Relaxed);
        self.table.store(base.wrapping_add(len).cast(), Relaxed);
        self.slot_shift.store(slot.trailing_zeros(), Relaxed);
        self.units.store(len / UNIT, Release);
        Some(len / slot)
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

    /// Makes a slot's table entries accessible, zeros. Whether it could be done.
    pub(super) fn open_table(&self, slot: usize) -> bool {
        let len = table_len(self.slot_len());
        let start = self.table.load(Relaxed).cast::<u8>().wrapping_add(slot * len);
        // SAFETY: the table lies in the reservation.
        unsafe { os::commit(start, len) }
    }

    /// Bytes from the base to an address in a slot.
    #[inline(always)]
    fn offset(&self, block: *mut u8) -> usize {
        block.addr().wrapping_sub(self.base.load(Relaxed).addr())
    }

    /// Units from the base to any address; `None` if it lies in no slot or is no multiple of a unit, as
    /// every block's is. One comparison tells both: the rotation makes a large number of a remainder.
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

    /// The slot a block lies in, of which is known that it lies in one.
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
    fn entry(&self, granule: usize) -> &AtomicU16 {
        // SAFETY: the table has an entry for every granule of the slots, and is accessible for
        // every slot in use; all bits zero is a value.
        unsafe { &*self.table.load(Relaxed).wrapping_add(granule) }
    }

    /// The offset of the quick list for this block: 0 if it is not a small one, `None` if it lies
    /// in no slot, or is no block for not being aligned.
    #[inline(always)]
    pub(super) fn list_of(&self, block: *mut u8) -> Option<u16> {
        self.find(block).map(|unit| self.entry(unit / (GRANULE / UNIT)).load(Relaxed))
    }

    /// Notes the quick list of the blocks in all granules of a page.
    #[inline(always)]
    pub(super) fn set_list_of_page(&self, page: *mut u8, page_size: usize, list: u16) {
        for granule in (0..page_size).step_by(GRANULE) {
            self.set_list(page.wrapping_add(granule), list);
        }
    }

    /// Notes the quick list of the blocks in this one's granule.
    #[inline(always)]
    pub(super) fn set_list(&self, block: *mut u8, list: u16) {
        self.entry(self.offset(block) / GRANULE).store(list, Relaxed);
    }
}

/// Bytes of the entries for `len` bytes of slots.
fn table_len(len: usize) -> usize {
    (len / GRANULE) * size_of::<AtomicU16>()
}

/// A slot's memory behind its heap: a region that becomes accessible as it is used, from both ends.
///
/// Its last part is for bookkeeping alone: blocks that fill the slot must not leave other blocks
/// without headers later, when they have been freed.
///
/// Where the kernel may be told to use huge pages (`huge`), the extent becomes accessible by whole huge
/// pages: the kernel chooses when a page is first touched, and only if all of a huge page is
/// accessible then.
///
/// Invariant: what the region holds lies below `low` or from `high` on; all of that is accessible.
#[derive(Debug)]
pub(super) struct Slot {
    region: Region,
    low: usize,
    high: usize,
    /// Where the extent ends at most.
    most: usize,
    huge: Huge,
}

/// The part of a slot that is for bookkeeping alone: pages of the smallest blocks need less.
const BOOKKEEPING: usize = 64;

/// The least that is made accessible at one time, bytes.
const STEP: usize = 256 << 10;

impl Slot {
    /// The memory from `start` on.
    ///
    /// # Safety
    /// The memory is part of the reservation, not accessible yet, and nobody else's.
    pub(super) unsafe fn new(start: *mut u8, len: usize, huge_pages: HugePages) -> Self {
        // SAFETY: the caller's promise; the memory becomes accessible before it is handed out, and
        // is fresh from the system.
        let region = unsafe { Region::zeroed(start, len) };
        let end = start.addr() + len;
        let most = end - len / BOOKKEEPING;
        let huge = Huge::new(huge_pages, start.addr()..most);
        Self { region, low: start.addr(), high: end, most, huge }
    }

    /// What is known of the extent's huge pages.
    pub(super) fn huge(&self) -> &Huge {
        &self.huge
    }

    /// Makes the extent accessible as far as `end`.
    fn reach(&mut self, end: usize) -> Result<(), AllocError> {
        if end > self.most {
            return Err(AllocError::Exhausted);
        }
        if end > self.low {
            let step = STEP.max(self.region.extent().len() / 8);
            let mut to = (self.low + step).min(self.most).max(end);
            if self.huge.concerns(to) {
                to = to.next_multiple_of(HUGE).min(self.most);
            }
            if self.commit(self.low..to).is_err() {
                to = end;
                self.commit(self.low..to)?;
            }
            self.low = to;
        }
        self.huge.reach(SPACE.base.load(Relaxed).with_addr(end));
        Ok(())
    }

    /// Makes the addresses accessible.
    fn commit(&self, range: Range<usize>) -> Result<(), AllocError> {
        let start = SPACE.base.load(Relaxed).with_addr(range.start);
        // SAFETY: the region lies in the reservation.
        let done = unsafe { os::commit(start, range.len()) };
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
        let wanted = top.saturating_sub(layout.size() + layout.align());
        if wanted < self.high {
            let to = self.high.saturating_sub(STEP).min(wanted).max(self.region.extent().end);
            self.commit(to..self.high)?;
            self.high = to;
        }
        self.region.dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        self.region.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.region.dedicated()
    }
}
