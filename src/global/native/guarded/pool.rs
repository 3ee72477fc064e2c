//! The places for guarded blocks, and the record of each.

use core::iter::repeat_n;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use super::stack::Stack;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::os;

/// Places for guarded blocks, whether in use or recently freed.
pub(super) const PLACES: usize = 256;

/// Start of the pool, which is the closed page before the first place; null while there are no
/// places.
pub(super) static POOL: Apart<AtomicPtr<u8>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Bytes of the pool.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The records of all places.
static BOOK: Apart<Locked<Book>> = Apart::new(Locked::new(Book {
    records: ptr::null_mut(),
    ring: {
        let mut ring = [0; PLACES];
        let mut place = 0;
        while place < PLACES {
            ring[place] = place as u16;
            place += 1;
        }
        ring
    },
    first: 0,
    free: PLACES,
}));

/// The block in use at each place, [packed](pack); 0 if there is none. Its owner measures it, and
/// one thread frees it, without the book.
static IN_USE: Apart<[AtomicUsize; PLACES]> = Apart::new([const { AtomicUsize::new(0) }; PLACES]);

/// What is known of the block of a place, in use or freed.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Whether the block is in use.
    pub(super) state: State,
    /// Address of the block.
    pub(super) block: usize,
    /// Bytes of the block, as requested.
    pub(super) size: usize,
    /// Who allocated it.
    pub(super) allocated: Trace,
    /// Who freed it, if it is freed.
    pub(super) freed: Trace,
}

/// The thread that allocated or freed a block, and its call stack.
#[derive(Clone, Copy)]
pub(super) struct Trace {
    /// The thread's [number](os::thread_id).
    pub(super) thread: i32,
    /// Its call stack, the innermost call first.
    pub(super) stack: Stack,
}

/// What a place is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has had no block yet.
    Unused,
    InUse,
    Freed,
}

/// The places' records and the free places.
///
/// Invariants: `first` < [`PLACES`]; once the pool is open, `records` has [`PLACES`] records; no
/// place is used before.
pub(super) struct Book {
    /// The record of each place, in a mapping.
    records: *mut Record,
    /// The free places, from entry `first` on, in the order in which they became free.
    ring: [u16; PLACES],
    /// Where in the ring the place is that has been free for longest.
    first: usize,
    /// Number of free places.
    free: usize,
}

// SAFETY: the mapping of records belongs to the book, which is used by one thread at a time.
unsafe impl Send for Book {}

impl Trace {
    /// Returns the calling thread and its stack. May allocate, in the unwinder.
    pub(super) fn here() -> Self {
        Self { thread: os::thread_id(), stack: Stack::here() }
    }
}

impl Record {
    /// The record of a place that has had no block.
    pub(super) const UNUSED: Self = {
        let nobody = Trace { thread: 0, stack: Stack::EMPTY };
        Self { state: State::Unused, block: 0, size: 0, allocated: nobody, freed: nobody }
    };
}

/// Returns whether an address is in the pool.
pub(in super::super) fn contains(address: *mut u8) -> bool {
    let pool = POOL.load(Acquire);
    !pool.is_null() && address.addr().wrapping_sub(pool.addr()) < LEN.load(Relaxed)
}

/// Runs `action` on the book; `None` if its lock cannot be waited for. If a thread that forks has
/// it, tries again for a while.
pub(super) fn book<R>(mut action: impl FnMut(&mut Book) -> R) -> Option<R> {
    /// How often it is tried again.
    const PAUSES: usize = 50;
    BOOK.with(&mut action).or_else(|| {
        let again = repeat_n((), if BOOK.is_lost() { 0 } else { PAUSES });
        again.map(|()| os::pause()).find_map(|()| BOOK.with(&mut action))
    })
}

/// Takes the lock before a fork; `pause` as for [`Locked::take_for_fork`].
pub(in super::super) fn take_for_fork(pause: impl FnMut() -> bool) {
    BOOK.take_for_fork(pause);
}

/// Releases the lock after a fork, in the parent.
pub(in super::super) fn after_fork() {
    BOOK.after_fork();
}

/// Releases the lock after a fork, in the child. If another thread held it, no block is guarded
/// there.
pub(in super::super) fn after_fork_in_child() {
    BOOK.after_fork_in_child();
}

/// Bits for the bytes of a block: it has at most an OS page, which has 64 KiB or less.
const SIZE: u32 = 17;

/// Returns what [`IN_USE`] holds for a block: where it starts in its OS page, its bytes, and a 1.
fn pack(block: *mut u8, size: usize) -> usize {
    (block.addr() & (os::page_size() - 1)) << (SIZE + 1) | size << 1 | 1
}

/// Returns the bytes of the block in use that starts at an address in the pool, and where it is
/// noted. `None` if none starts there.
fn noted(block: *mut u8) -> Option<(&'static AtomicUsize, usize)> {
    let pages = (block.addr() - POOL.load(Relaxed).addr()) / os::page_size();
    let noted = &IN_USE[index_of(block)];
    let packed = noted.load(Acquire);
    let size = packed >> 1 & ((1 << SIZE) - 1);
    let starts_here = pages % 2 == 1 && packed == pack(block, size);
    starts_here.then_some((noted, size))
}

/// Returns the bytes of the block in use that starts at an address in the pool, if one does.
pub(super) fn len_of(block: *mut u8) -> Option<usize> {
    noted(block).map(|(_, size)| size)
}

/// Notes that a block of `size` bytes in the pool is in use.
pub(super) fn note_in_use(block: *mut u8, size: usize) {
    IN_USE[index_of(block)].store(pack(block, size), Release);
}

/// Notes that a block is in use no more, and returns its bytes. `None` if none in use starts there;
/// another thread may just have freed it.
pub(super) fn take_from_use(block: *mut u8) -> Option<usize> {
    let (noted, size) = noted(block)?;
    noted.compare_exchange(pack(block, size), 0, Acquire, Relaxed).is_ok().then_some(size)
}

/// Returns the place whose page, or the closed page before it, contains an address.
pub(super) fn index_of(address: *mut u8) -> usize {
    let offset = address.addr() - POOL.load(Relaxed).addr();
    (offset / os::page_size() / 2).min(PLACES - 1)
}

/// Returns what `ask` returns for the record of the place whose page contains an address; `None` if
/// the lock cannot be taken.
pub(super) fn with_record<R>(address: *mut u8, mut ask: impl FnMut(Record) -> R) -> Option<R> {
    book(|book| ask(book.get(index_of(address))))
}

impl Book {
    /// Takes the place that has been free for longest.
    pub(super) fn take(&mut self) -> Option<usize> {
        self.free = self.free.checked_sub(1)?;
        let index = self.ring[self.first];
        self.first = (self.first + 1) % PLACES;
        Some(usize::from(index))
    }

    /// Gives a place back, as the last to be taken again.
    pub(super) fn give_back(&mut self, index: usize) {
        self.ring[(self.first + self.free) % PLACES] = index as u16;
        self.free += 1;
    }

    /// Returns the record of a place.
    pub(super) fn get(&self, index: usize) -> Record {
        debug_assert!(index < PLACES && !self.records.is_null(), "the place exists");
        // SAFETY: `index` is one of the `PLACES`, and by the invariant each has a record.
        unsafe { self.records.add(index).read() }
    }

    /// Replaces the record of a place.
    pub(super) fn set(&mut self, index: usize, record: Record) {
        debug_assert!(index < PLACES && !self.records.is_null(), "the place exists");
        // SAFETY: `index` is one of the `PLACES`, and by the invariant each has a record.
        unsafe { self.records.add(index).write(record) };
    }
}

/// Opens the pool: its places can be taken from now on.
///
/// # Safety
/// `pool` has `len` bytes of addresses, enough for all places, and `records` has room for
/// [`PLACES`] records. The caller gives up both.
pub(super) unsafe fn open(pool: *mut u8, len: usize, records: *mut Record) {
    for place in 0..PLACES {
        // SAFETY: there is room for this record.
        unsafe { records.add(place).write(Record::UNUSED) };
    }
    if book(|book| book.records = records).is_some() {
        LEN.store(len, Relaxed);
        POOL.store(pool, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place that was free for longest comes first, and no place is handed out twice.
    #[test]
    fn places_come_in_the_order_in_which_they_were_freed() {
        let ring = core::array::from_fn(|place| place as u16);
        let mut book = Book { records: ptr::null_mut(), ring, first: 0, free: PLACES };
        let mut free: std::collections::VecDeque<usize> = (0..PLACES).collect();
        let mut used = Vec::new();
        for round in 0..3000 {
            // For a while more places are taken than given back, and then fewer.
            if round % 5 < 2 + round / 300 % 3 {
                let taken = book.take();
                assert_eq!(taken, free.pop_front());
                used.extend(taken);
            } else if !used.is_empty() {
                let place = used.swap_remove(round * 7 % used.len());
                book.give_back(place);
                free.push_back(place);
            }
        }
        while let Some(place) = free.pop_front() {
            assert_eq!(book.take(), Some(place));
        }
        assert_eq!(book.take(), None);
        book.give_back(7);
        assert_eq!(book.take(), Some(7));
    }
}
