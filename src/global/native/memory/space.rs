//! The address space of all heaps: equal slots, one heap per slot, and tables that classify a block
//! by its address.
//!
//! ```text
//! base                                                                  base + len
//!  | Heap | pages, blocks ▶   ◀ headers | Heap | …                …      | list offsets | marks |
//!  slot 0                               slot 1                            each a u32 for each 16 KiB
//! ```
//! The address of a block gives its heap: slot = (address − base) >> slot_shift. It also gives the
//! quick list: for every granule of 16 KiB the heap stores the list offset of its small blocks, or
//! 0 where a larger block starts. Neither reads a header or takes a lock. For a
//! [medium](crate::global::native::lists::medium) block, the granule's mark says whether it is in
//! use.
//!
//! The space is not reserved. It is a *window*: up to 4 TiB of addresses that the system uses last,
//! if ever, for mappings without an address hint. Heaps map memory there piece by piece, so a limit
//! on the process's address space (RLIMIT_AS) counts only used memory, whenever it is set. If
//! another mapping lands in the window, the heap that runs into it is full. On Windows only
//! reserved addresses can get memory: a slot is reserved when it gets its heap, and the tables when
//! the space opens.
//!
//! Where no window can be had, as with 32-bit addresses, the space is a reservation: as large as
//! the system allows, at most half of RLIMIT_AS.

use core::ops::Range;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};

use crate::global::native::base::mode;
use crate::global::native::base::sealed::Sealed;
use crate::global::tuning::{GRANULE, HALF_UNIT, LARGEST_SLOT, UNIT};
use crate::os;

/// The largest space in bytes; a reservation tries this size first.
const LARGEST: usize = 1 << if usize::BITS == 64 { 42 } else { 30 };

/// The smallest reservation worth having, in bytes.
const LEAST: usize = 1 << 24;

/// The smallest slot in bytes, if there are several slots. Unit tests, each with a heap of its own,
/// need more slots than there are with 32 bits.
const LEAST_SLOT: usize = 1 << if cfg!(test) && usize::BITS == 32 { 25 } else { 26 };

/// Alignment of slots in bytes: covers the largest page size and a huge page.
const ALIGN: usize = 2 << 20;

/// Bytes of a table that become accessible at a time.
pub(super) const TABLE_STEP: usize = 64 << 10;

/// Bytes of a slot that `TABLE_STEP` bytes of a table describe.
pub(super) const COVERED: usize = TABLE_STEP / size_of::<AtomicU32>() * GRANULE;

/// The address space.
///
/// Invariants, once it is [open](Space::open): `base` is aligned to [`ALIGN`]. The slots are
/// between `base` and `table`; those with a heap are the first `half_units` half units. `table` has
/// an entry for each granule, and the marks follow it, one for each granule. Only these still
/// change: `half_units` and `reserved_slots`, as heaps are opened; an entry, before blocks of its
/// granule are handed out; and the marks.
///
/// `table` is stored last. Code that accepts any address (null, another allocator's) loads
/// `half_units` first, whose acquire load makes the rest visible. To a thread that has a block, the
/// rest is visible anyway.
#[derive(Debug)]
pub(in crate::global::native) struct Space {
    /// Where slot 0 starts.
    base: AtomicPtr<u8>,
    /// Half units of the slots that have a heap.
    half_units: AtomicUsize,
    /// For each granule, the list offset of its small blocks.
    table: AtomicPtr<AtomicU32>,
    /// Address that the mark of address 0 would have.
    marks: AtomicPtr<AtomicU32>,
    /// In hardened mode, one byte per unit of the slots; otherwise null.
    states: AtomicPtr<AtomicU8>,
    /// log₂ of the bytes of a slot.
    slot_shift: AtomicU32,
    /// Whether the space is a reservation.
    is_reservation: AtomicBool,
    /// Number of slots reserved so far, in a window that must be reserved (Windows).
    reserved_slots: AtomicUsize,
}

/// State of a freed block that was zeroed.
pub(in crate::global::native) const ZEROED: u8 = 255;

/// The address space of the process.
pub(in crate::global::native) static SPACE: Sealed<Space> = Sealed::new(Space::new());

impl Space {
    /// Returns a space without addresses.
    const fn new() -> Self {
        Self {
            base: AtomicPtr::new(ptr::null_mut()),
            half_units: AtomicUsize::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            marks: AtomicPtr::new(ptr::null_mut()),
            states: AtomicPtr::new(ptr::null_mut()),
            slot_shift: AtomicU32::new(0),
            is_reservation: AtomicBool::new(false),
            reserved_slots: AtomicUsize::new(0),
        }
    }

    /// Finds address space for `heaps` heaps or more, if the system has that many addresses.
    /// Returns the number of slots, or `None` if the system has no addresses to give.
    pub(in crate::global::native) fn open(&self, heaps: usize) -> Option<usize> {
        let heaps = heaps.next_power_of_two();
        let window = window().filter(|(_, len)| len / heaps >= COVERED);
        let (base, len) = window.or_else(reservation)?;
        let slot = (len / heaps).clamp(LEAST_SLOT, LARGEST_SLOT).min(len);
        self.base.store(base, Relaxed);
        if mode::is_hardened() {
            self.states.store(base.wrapping_add(len + 2 * table_len(len) + ALIGN).cast(), Relaxed);
        }
        self.slot_shift.store(slot.trailing_zeros(), Relaxed);
        self.is_reservation.store(window.is_none(), Relaxed);
        let marks = base.wrapping_add(len + table_len(len)).cast::<AtomicU32>();
        self.marks.store(marks.wrapping_sub(base.addr() / GRANULE), Relaxed);
        self.table.store(base.wrapping_add(len).cast(), Release);
        Some(len / slot)
    }

    /// Reserves the addresses of `slot` where memory needs reserved addresses (Windows). Returns
    /// whether the slot can be used. Call it from one thread at a time, and for lower slots first.
    pub(in crate::global::native) fn reserve_slot(&self, slot: usize) -> bool {
        let is_reserved = !os::NEEDS_RESERVATION
            || self.is_reservation.load(Relaxed)
            || slot < self.reserved_slots.load(Relaxed)
            || os::reserve_at(self.slot(slot), self.slot_len());
        if is_reserved {
            self.reserved_slots.fetch_max(slot + 1, Relaxed);
        }
        is_reserved
    }

    /// Publishes that the first `slots` slots have heaps: addresses in other slots are no block's.
    pub(in crate::global::native) fn publish_heaps(&self, slots: usize) {
        self.half_units.store((slots << self.slot_shift.load(Relaxed)) / HALF_UNIT, Release);
    }

    /// Makes these addresses count as slots, in a process without heaps.
    #[cfg(all(test, unix))]
    pub(in crate::global::native) fn pretend(&self, start: *mut u8, len: usize) {
        self.base.store(start, Relaxed);
        self.table.store(start.wrapping_add(len).cast(), Release);
    }

    /// Returns the start address of a slot.
    #[inline(always)]
    pub(in crate::global::native) fn slot(&self, slot: usize) -> *mut u8 {
        self.base.load(Relaxed).wrapping_add(slot << self.slot_shift.load(Relaxed))
    }

    /// Returns the pointer to an address in the space, with the provenance of the space.
    pub(super) fn pointer(&self, address: usize) -> *mut u8 {
        self.base.load(Relaxed).with_addr(address)
    }

    /// Returns the size of a slot in bytes.
    pub(super) fn slot_len(&self) -> usize {
        1 << self.slot_shift.load(Relaxed)
    }

    /// Makes memory of a slot or of its tables accessible, filled with zeros, and gives the kernel
    /// the advice `huge` on huge pages, if any. Returns whether that worked.
    ///
    /// # Safety
    /// The memory is whole OS pages of one slot or of its tables, which only the caller uses. It
    /// was not accessible before, unless the space is a reservation.
    pub(in crate::global::native) unsafe fn commit(
        &self,
        start: *mut u8,
        len: usize,
        huge: Option<bool>,
    ) -> bool {
        // SAFETY: the caller guarantees that the pages are its own.
        unsafe {
            let done = if self.is_reservation.load(Relaxed) {
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

    /// Returns where the entries and the marks of a slot start, and the bytes of each.
    pub(super) fn tables_of(&self, slot: usize) -> ([*mut u8; 2], usize) {
        let len = table_len(self.slot_len());
        let entries = self.table.load(Relaxed).cast::<u8>().wrapping_add(slot * len);
        ([entries, self.mark_at(self.slot(slot)).cast()], len)
    }

    /// Returns the mark of the granule that `block` starts in.
    #[inline(always)]
    pub(in crate::global::native) fn mark_of(&self, block: *mut u8) -> &AtomicU32 {
        // SAFETY: as for an entry.
        unsafe { &*self.mark_at(block) }
    }

    /// Returns the address of that mark.
    #[inline(always)]
    fn mark_at(&self, block: *mut u8) -> *mut AtomicU32 {
        self.marks.load(Relaxed).wrapping_add(block.addr() / GRANULE)
    }

    /// Returns where the states of a slot start, and their bytes; `None` unless in hardened mode.
    pub(super) fn states_of(&self, slot: usize) -> Option<(*mut u8, usize)> {
        let states = self.states.load(Relaxed).cast::<u8>();
        let len = self.slot_len() / UNIT;
        (!states.is_null()).then(|| (states.wrapping_add(slot * len), len))
    }

    /// Returns the state of the unit at `block`, in hardened mode. The slot's extent must reach
    /// that unit.
    #[inline(always)]
    pub(in crate::global::native) fn state_of(&self, block: *mut u8) -> &AtomicU8 {
        // SAFETY: every unit of the slots has a byte, accessible as far as a slot is in use; zero
        // is a value.
        unsafe { &*self.states.load(Relaxed).wrapping_add(self.offset(block) / UNIT) }
    }

    /// Returns whether a block was zeroed when it was freed, in hardened mode.
    pub(in crate::global::native) fn was_zeroed(&self, block: *mut u8) -> bool {
        self.state_of(block).load(Relaxed) == ZEROED
    }

    /// In hardened mode, marks a page as having no block starts. None of its blocks is in use or
    /// listed.
    pub(in crate::global::native) fn forget_states(&self, page: *mut u8, page_size: usize) {
        if mode::is_hardened() {
            let states = self.states.load(Relaxed).wrapping_add(self.offset(page) / UNIT);
            // SAFETY: the states of a page are contiguous, and the heap's while no block of it is
            // in use.
            unsafe { states.write_bytes(0, page_size / UNIT) };
        }
    }

    /// In hardened mode, gives back the states of free memory where they fill OS pages. No block
    /// starts there then.
    pub(super) fn discard_states(&self, start: *mut u8, len: usize) {
        if mode::is_hardened() {
            let page = os::page_size();
            let first = self.states.load(Relaxed).cast::<u8>();
            let state = |at: usize| first.wrapping_add(self.offset(start.wrapping_add(at)) / UNIT);
            let from = state(0).addr().next_multiple_of(page);
            let to = state(len).addr() & !(page - 1);
            if from < to {
                // SAFETY: the states of memory in the extent are accessible, and nobody has a block
                // there.
                unsafe {
                    let states = first.with_addr(from);
                    if !os::discard_to_zeros(states, to - from) {
                        states.write_bytes(0, to - from);
                    }
                }
            }
        }
    }

    /// Gives back memory that was made accessible in vain.
    ///
    /// # Safety
    /// The memory was [committed](Self::commit), and nobody uses it.
    pub(in crate::global::native) unsafe fn give_up(&self, start: *mut u8, len: usize) {
        // SAFETY: the caller guarantees that the memory is unused. Reserved addresses stay so, and
        // have zeros the next time.
        unsafe {
            if os::NEEDS_RESERVATION || self.is_reservation.load(Relaxed) {
                os::close(start, len);
            } else {
                os::release(start, len);
            }
        }
    }

    /// Returns the bytes from the base to an address in a slot.
    #[inline(always)]
    fn offset(&self, block: *mut u8) -> usize {
        block.addr().wrapping_sub(self.base.load(Relaxed).addr())
    }

    /// Returns the half units from the base to any address. `None` if the address is in no heap's
    /// slot, or not a multiple of half a unit as every block's is. One comparison checks both: the
    /// rotation makes a large number of a remainder.
    #[inline(always)]
    fn find(&self, block: *mut u8) -> Option<usize> {
        let half_units = self.half_units.load(Acquire);
        let found = self.offset(block).rotate_right(HALF_UNIT.trailing_zeros());
        (found < half_units).then_some(found)
    }

    /// Returns whether a block is in a heap's slot.
    #[inline(always)]
    pub(in crate::global::native) fn contains(&self, block: *mut u8) -> bool {
        self.find(block).is_some()
    }

    /// Returns whether other memory overlaps the slots: a free there would go to a heap.
    pub(in crate::global::native) fn overlaps(&self, start: *mut u8, len: usize) -> bool {
        let end = self.table.load(Acquire).addr();
        let slots = end.wrapping_sub(self.base.load(Relaxed).addr());
        self.offset(start) < slots || self.offset(start.wrapping_add(len - 1)) < slots
    }

    /// Returns the slot of a block that the caller knows to be in one.
    #[inline(always)]
    pub(in crate::global::native) fn slot_of(&self, block: *mut u8) -> usize {
        self.offset(block) >> self.slot_shift.load(Relaxed)
    }

    /// Returns whether there is a heap in the [slot of](Self::slot_of) any address.
    #[inline(always)]
    pub(in crate::global::native) fn has_heap(&self, slot: usize) -> bool {
        slot << self.slot_shift.load(Relaxed) < self.half_units.load(Acquire) * HALF_UNIT
    }

    /// Returns whether all `blocks` are in this slot. Its length is a power of two, so one
    /// comparison checks all distances from its start.
    #[inline(always)]
    pub(in crate::global::native) fn slot_has(&self, slot: usize, blocks: &[NonNull<u8>]) -> bool {
        let start = self.slot(slot).addr();
        let distance = |block: &NonNull<u8>| block.addr().get().wrapping_sub(start);
        blocks.iter().fold(0, |all, block| all | distance(block)) < self.slot_len()
    }

    /// Returns the list offset of a granule of the slots, by its number.
    #[inline(always)]
    fn entry(&self, granule: usize) -> &AtomicU32 {
        // SAFETY: the table has an entry for every granule of the slots, accessible as far as a
        // slot is in use; zero is a value.
        unsafe { &*self.table.load(Relaxed).wrapping_add(granule) }
    }

    /// Returns the offset of the quick list for `block`: 0 if it is not small, `None` if the
    /// address is in no heap's slot or is not aligned.
    #[inline(always)]
    pub(in crate::global::native) fn list_of(&self, block: *mut u8) -> Option<u32> {
        self.find(block).map(|found| self.entry(found / (GRANULE / HALF_UNIT)).load(Relaxed))
    }

    /// Stores the quick list for the blocks in all granules of these `len` bytes, at least one: 0
    /// where they are, or become, part of a block that is not small. They may have been pages
    /// before. Eight entries at a time, which the compiler does not do by itself.
    #[inline]
    pub(in crate::global::native) fn set_list(&self, start: *mut u8, len: usize, list: u32) {
        let first = self.offset(start);
        let granules = (first + len - 1) / GRANULE - first / GRANULE + 1;
        let entries = self.table.load(Relaxed).wrapping_add(first / GRANULE);
        // SAFETY: as in `entry`; the bytes are a heap's.
        let entries = unsafe { slice::from_raw_parts(entries, granules) };
        let store = |entry: &AtomicU32| entry.store(list, Relaxed);
        let (eights, rest) = entries.as_chunks::<8>();
        eights.iter().for_each(|eight| eight.iter().for_each(store));
        rest.iter().for_each(store);
    }

    /// Replaces the quick list `from` of the granule of `block` by `to`, unless it has changed.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(in crate::global::native) fn change_list(&self, block: *mut u8, from: u32, to: u32) {
        let entry = self.entry(self.offset(block) / GRANULE);
        let _ = entry.compare_exchange(from, to, Relaxed, Relaxed);
    }
}

/// Returns the bytes behind `len` bytes of slots: entries and marks; in hardened mode also states,
/// after a gap that stays inaccessible.
fn bytes_behind(len: usize) -> usize {
    let states = if mode::is_hardened() { ALIGN + len / UNIT } else { 0 };
    2 * table_len(len) + states
}

/// Returns the bytes of the entries for `len` bytes of slots.
pub(super) fn table_len(len: usize) -> usize {
    (len / GRANULE) * size_of::<AtomicU32>()
}

/// Where the window may lie, in thirty-seconds of all addresses.
pub(in crate::global::native) const WINDOW: Range<usize> = 13..20;

/// Finds unused addresses for slots and tables. Returns the base and the bytes of the slots.
///
/// The window lies at random between 13 and 20 [thirty-seconds](WINDOW) of all addresses. The
/// system places mappings from the top downwards, to the programs at two thirds, or from one third
/// upwards. Programs that map memory at addresses of their own choice do so elsewhere. On x86-64,
/// where the window lies between 52 and 80 TiB, GNU CLISP does so from 16 to 32 TiB, Clozure CL
/// from 48 TiB, and the thread sanitizer up to 32 TiB and from 48 to 52 TiB.
fn window() -> Option<(*mut u8, usize)> {
    /// Number of places to try.
    const TRIES: usize = 16;
    let all = os::addresses()?;
    let most = (all / 16).min(LARGEST);
    let len = if os::NEEDS_RESERVATION { within(os::address_space_limit(), most) } else { most };
    let (from, to) = (all / 32 * WINDOW.start, all / 32 * WINDOW.end);
    let places = (to - from - len - bytes_behind(len)) / ALIGN;
    (0..TRIES).find_map(|_| {
        // Not derived from any other address, so that knowing one does not reveal it.
        let place = os::random() as usize % places;
        let base = ptr::with_exposed_provenance_mut(from + place * ALIGN);
        let is_free = os::is_free(base, len + bytes_behind(len))
            && (!os::NEEDS_RESERVATION
                || os::reserve_at(base.wrapping_add(len), bytes_behind(len)));
        is_free.then_some((base, len))
    })
}

/// Yields `len`, a half of it, a quarter and so on, down to 1.
fn halves(len: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS).map(move |times| len >> times).take_while(|&len| len > 0)
}

/// Returns the largest [part](halves) of `len` that takes at most half of `limit`; 0 if there is
/// none.
fn within(limit: usize, len: usize) -> usize {
    halves(len).find(|&len| len <= limit / 2).unwrap_or(0)
}

/// Reserves addresses for slots and tables. Returns the same as [`window`].
fn reservation() -> Option<(*mut u8, usize)> {
    let most = within(os::address_space_limit(), LARGEST);
    halves(most).take_while(|&len| len >= LEAST).find_map(|len| {
        let memory = os::reserve(len + bytes_behind(len) + ALIGN)?;
        Some((memory.wrapping_add(memory.align_offset(ALIGN)), len))
    })
}

#[cfg(all(test, not(miri)))]
mod tests;
