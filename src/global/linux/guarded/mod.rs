//! Guarded blocks: one allocation in so many lies at the end of an OS page of its own, before a page that
//! nobody may touch, and its page is closed when it is freed (as GWP-ASan does: Serebryany, Kennelly, Phillips et
//! al. 2023, *Sampling-based detection of memory safety bugs in production*).
//!
//! ```text
//!  | closed | … block | | closed | (freed) | closed | … block | | closed |
//!            place 0             place 1             place 2
//! ```
//! Whoever writes beyond such a block, or uses it after it was freed, gets SIGSEGV at that very instruction;
//! [`report`] then says which block it was, and where it was allocated and freed. Freed places are used again
//! in turn, the one that was freed first.
//!
//! Nobody asks whether an allocation is to be guarded but who [looks](super::quick::Lists::look) at the clock
//! anyway, so there is no cost where none is.

mod report;
mod stack;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use super::lock::Locked;
use super::tuning::UNIT;
use crate::os;
use stack::Stack;

/// Places for guarded blocks, in use at one time or freed of late.
const PLACES: usize = 256;

/// What the bytes between a block's end and its page's hold.
const FILL: u8 = 0xa5;

/// Where the first place's closed page lies; null as long as there are none.
static POOL: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the pool.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// What is known of the places.
static BOOK: Locked<Book> = Locked::new(Book {
    places: ptr::null_mut(),
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
});

/// One place's block, in use or freed.
#[derive(Clone, Copy)]
struct Place {
    state: State,
    block: usize,
    size: usize,
    allocated: Trace,
    freed: Trace,
}

/// Who did something, and where.
#[derive(Clone, Copy)]
struct Trace {
    thread: i32,
    stack: Stack,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unused,
    InUse,
    Freed,
}

/// The places, in a mapping, and those that are free: `free` of them, in a ring that starts at `first`, the one
/// that has been free for longest.
struct Book {
    places: *mut Place,
    ring: [u16; PLACES],
    first: usize,
    free: usize,
}

// SAFETY: the places are reached through the book alone.
unsafe impl Send for Book {}

/// What is to be done about a free or a fault.
enum Misuse {
    FreedTwice,
    NoBlock,
    Overflow,
}

impl Trace {
    fn here() -> Self {
        Self { thread: os::thread_id(), stack: Stack::here() }
    }
}

impl Place {
    const UNUSED: Self = {
        let nobody = Trace { thread: 0, stack: Stack::EMPTY };
        Self { state: State::Unused, block: 0, size: 0, allocated: nobody, freed: nobody }
    };
}

/// Makes the places, and sees to it that faults there are reported. The calling thread has its lists.
pub(super) fn open() {
    let page = os::page_size();
    let len = (2 * PLACES + 1) * page;
    let Some(pool) = os::reserve(len) else { return };
    if !may_be_outside(pool) {
        // A block freed with its size would be taken for a heap's.
        return;
    }
    let Some(places) = os::allocate((PLACES * size_of::<Place>()).next_multiple_of(page)) else {
        return;
    };
    let places = places.cast::<Place>();
    for place in 0..PLACES {
        // SAFETY: there is room for as many.
        unsafe { places.add(place).write(Place::UNUSED) };
    }
    if book(|book| book.places = places).is_none() {
        return;
    }
    LEN.store(len, Relaxed);
    POOL.store(pool, Release);
}

/// Whether a block may be one that lies in no heap: one bit of the address tells, which all addresses have that
/// the system gives of itself, and none of the window. Without the feature there are no guarded blocks, and no
/// other block is freed with a small size but lies in a heap.
#[inline(always)]
pub(super) fn may_be_outside(block: *mut u8) -> bool {
    const BIT: u32 = if cfg!(target_arch = "x86_64") { 46 } else { 47 };
    cfg!(feature = "guarded") && usize::BITS == 64 && block.addr() as u64 >> BIT & 1 == 1
}

/// Whether an address lies among the places.
pub(super) fn has(address: *mut u8) -> bool {
    let pool = POOL.load(Acquire);
    !pool.is_null() && address.addr().wrapping_sub(pool.addr()) < LEN.load(Relaxed)
}

/// A guarded block; `None` if it is too large, or there is no place. Zeros.
#[cold]
pub(super) fn allocate(size: usize, align: usize) -> Option<NonNull<u8>> {
    let page = os::page_size();
    let align = align.max(UNIT);
    let pool = POOL.load(Acquire);
    if pool.is_null() || size > page || align > page {
        return None;
    }
    report::install();
    let allocated = Trace::here();
    let index = book(Book::take).flatten()?;
    let start = pool.wrapping_add((2 * index + 1) * page);
    // SAFETY: the page is the place's, and nobody else's.
    unsafe {
        if !os::commit(start, page) {
            // The place is lost.
            return None;
        }
        let block = start.add((page - size) & !(align - 1));
        let behind = start.add(page).addr() - block.add(size).addr();
        block.add(size).write_bytes(FILL, behind);
        let place =
            Place { state: State::InUse, block: block.addr(), size, allocated, ..Place::UNUSED };
        let known = book(|book| book.set(index, place));
        if known.is_none() {
            os::close(start, page);
            return None;
        }
        NonNull::new(block)
    }
}

/// Bytes of a guarded block in use.
///
/// # Safety
/// The block lies among the places: what is wrong is noticed.
pub(super) unsafe fn len_of(block: *mut u8) -> usize {
    match with_place(block, |place| (place.state, place.block, place.size)) {
        Some((State::InUse, start, size)) if start == block.addr() => size,
        Some((State::Freed, start, _)) if start == block.addr() => {
            report::misuse(block, &Misuse::FreedTwice)
        }
        Some(_) => report::misuse(block, &Misuse::NoBlock),
        // The lock cannot be had: the page's end is the most it can be.
        None => os::page_size() - (block.addr() & (os::page_size() - 1)),
    }
}

/// Frees a guarded block.
///
/// # Safety
/// As for [`len_of`]; the block is not used any more.
pub(super) unsafe fn free(block: *mut u8) {
    let page = os::page_size();
    let freed = Trace::here();
    let start = block.with_addr(block.addr() & !(page - 1));
    // SAFETY: the caller's promise.
    let size = unsafe { len_of(block) };
    let end = block.addr() + size;
    let behind = start.addr() + page - end;
    // SAFETY: the block is in use, so its page can be read.
    let rest = unsafe { core::slice::from_raw_parts(block.with_addr(end), behind) };
    if rest.iter().any(|&byte| byte != FILL) {
        report::misuse(block, &Misuse::Overflow);
    }
    // SAFETY: the page is the block's, which nobody uses any more.
    unsafe { os::close(start, page) };
    let index = index_of(block);
    book(|book| {
        let place = Place { state: State::Freed, freed, ..book.get(index) };
        book.set(index, place);
        book.give_back(index);
    });
}

/// Runs `action` on the book; `None` if it cannot be had: whoever has its lock may have stayed behind in a fork,
/// so nobody waits for long.
fn book<R>(mut action: impl FnMut(&mut Book) -> R) -> Option<R> {
    (0..1000).find_map(|_| {
        let result = BOOK.try_with(&mut action);
        if result.is_none() {
            core::hint::spin_loop();
        }
        result
    })
}

/// The place in whose page an address lies, or before whose page.
fn index_of(address: *mut u8) -> usize {
    let offset = address.addr() - POOL.load(Relaxed).addr();
    (offset / os::page_size() / 2).min(PLACES - 1)
}

/// What `ask` says of the place in whose page an address lies; `None` if the lock cannot be had.
fn with_place<R>(address: *mut u8, mut ask: impl FnMut(Place) -> R) -> Option<R> {
    book(|book| ask(book.get(index_of(address))))
}

impl Book {
    /// The place that has been free for longest.
    fn take(&mut self) -> Option<usize> {
        self.free = self.free.checked_sub(1)?;
        let index = self.ring[self.first % PLACES];
        self.first = (self.first + 1) % PLACES;
        Some(usize::from(index))
    }

    fn give_back(&mut self, index: usize) {
        self.ring[(self.first + self.free) % PLACES] = index as u16;
        self.free += 1;
    }

    fn get(&self, index: usize) -> Place {
        // SAFETY: there are as many places.
        unsafe { self.places.add(index).read() }
    }

    fn set(&mut self, index: usize, place: Place) {
        // SAFETY: there are as many places.
        unsafe { self.places.add(index).write(place) };
    }
}
