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

/// Runs `action` on the book; `None` if the lock cannot be taken. The wait is short, since the
/// lock's holder may have been left behind in a fork, but long enough for a holder that was
/// preempted.
pub(super) fn book<R>(mut action: impl FnMut(&mut Book) -> R) -> Option<R> {
    /// Times that the lock is tried before the first sleep.
    const SPINS: usize = 1000;
    /// Times that it is tried with a sleep in between.
    const PAUSES: usize = 50;
    let spins = repeat_n(core::hint::spin_loop as fn(), SPINS);
    let waits = spins.chain(repeat_n(os::pause as fn(), PAUSES));
    // The iterator is lazy: it stops waiting as soon as the lock is taken.
    waits
        .map(|wait| {
            BOOK.try_with(&mut action).or_else(|| {
                wait();
                None
            })
        })
        .find_map(|result| result)
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
