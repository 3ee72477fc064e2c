//! Appends records to the log of this process, from any thread, without a lock, without allocating,
//! and without the program noticing.
//!
//! ```text
//!  SESSION ─► Session (copied by fork)        Log (wiped by fork)           file PID.SERIAL.pwlog
//!             ┌───────────┐                   ┌────────────┐                ┌─────────────┐
//!             │ log       ├──────────────────►│ head       ├───────────────►│ Head        │
//!             │ directory │                   │ cursor     │   mapped,      │ chunk 0     │
//!             └───────────┘                   │ chunks 0…n ├──────────────► │ chunk 1     │
//!                                             └────────────┘   shared       └─────────────┘
//! ```
//! * **Order.** A record claims its place by one atomic addition to `cursor`. That addition is
//!   ordered with the allocator's own synchronisation, so a free that comes before a reuse of its
//!   address claims an earlier place.
//! * **No lock.** Whoever claims a place in a chunk not yet mapped maps it; of several, one wins
//!   and the others take their mapping back. So a signal handler that allocates in the middle of a
//!   record, or a thread that dies there, stops nobody.
//! * **Fork.** `Log` lies in memory that a child finds filled with zeros: not attached. The child
//!   opens a log of its own at its first record and never writes to its parent's. It holds for
//!   `fork` by any means, with nothing to call. A child of `vfork` shares its parent's memory, and
//!   rightly its log.
//! * **No file stays open.** The file is opened by its absolute path when the log grows, and
//!   closed at once: programs that close, count or number their files notice nothing.
//! * **Failure.** If the log cannot grow (disk full, a limit, `chroot`), it is marked as stopped,
//!   and the program goes on unrecorded. Room on the disk is claimed before it is mapped.
//!
//! Chunks double from 8,192 records to a mebirecord and then stay at that: a small process leaves
//! a small file, a long recording is mapped in few pieces.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::session::{self, Session, off};
use super::system::{self, Errno, File};
use crate::trace::raw::{HEAD, Head, MAGIC, Record, TEXT, VERSION};

/// Appends a record made by `thread` (see [`new_thread`]) to the log of this process, if the
/// environment armed recording. Never fails visibly; keeps `errno`. O(1), but for the log's
/// growth.
#[inline]
pub fn record(thread: u32, record: Record) {
    if let Some((session, log)) = current()
        && let Some(place) = log.claim(session)
    {
        place.fill(record.encode(thread));
    }
}

/// A number for a thread that has none yet, unique in this process and its ancestors (a forked
/// child's first thread keeps the number it had); to be kept in a thread-local variable. Never 0.
pub fn new_thread() -> u32 {
    // Lies outside the wiped memory, so a child goes on counting.
    static THREADS: AtomicU32 = AtomicU32::new(1);
    THREADS.fetch_add(1, Relaxed)
}

/// The state of this process's log; all zeros at first, and again after `fork`.
pub(super) struct Log {
    /// Null: no log yet. `off()`: none, or no more.
    head: AtomicPtr<Head>,
    /// Number of the next free place.
    cursor: AtomicU64,
    chunks: [AtomicPtr<Place>; CHUNKS],
}

/// A place for a record in the mapped file. All zeros until filled.
struct Place([AtomicU64; 3]);

const PLACE: usize = size_of::<Place>();
/// Places in the first chunk: 192 KiB, a multiple of every OS page size up to 64 KiB.
const FIRST: u64 = 8192;
/// How often the chunks double.
const DOUBLINGS: u32 = 7;
/// Enough for 4 × 10⁹ records.
const CHUNKS: usize = 4096;

impl Place {
    fn fill(&self, [first, address, size]: [u64; 3]) {
        self.0[1].store(address, Relaxed);
        self.0[2].store(size, Relaxed);
        // Last: a record whose first word is there is complete.
        self.0[0].store(first, Release);
    }
}

/// Which chunk the place `index` is in, that chunk's first place, and its number of places.
fn chunk_of(index: u64) -> (usize, u64, u64) {
    let doublings = (index / FIRST + 1).ilog2();
    if doublings <= DOUBLINGS {
        return (doublings as usize, FIRST * ((1 << doublings) - 1), FIRST << doublings);
    }
    let doubled = FIRST * ((1 << (DOUBLINGS + 1)) - 1);
    let size = FIRST << DOUBLINGS;
    let further = (index - doubled) / size;
    (DOUBLINGS as usize + 1 + further as usize, doubled + further * size, size)
}

/// The session and the log to record to, opened if need be.
#[inline]
fn current() -> Option<(&'static Session, &'static Log)> {
    let session = session::current()?;
    let log = session.log();
    let mut head = log.head.load(Acquire);
    if head.is_null() {
        head = log.attach(session);
    }
    (head != off()).then_some((session, log))
}

impl Log {
    /// Claims the next place; `None` if the log has stopped or cannot grow.
    #[inline]
    fn claim(&self, session: &Session) -> Option<&Place> {
        let index = self.cursor.fetch_add(1, Relaxed);
        let (chunk, first, len) = chunk_of(index);
        let mut places = self.chunks.get(chunk).map_or(ptr::null_mut(), |c| c.load(Acquire));
        if places.is_null() {
            places = self.grow(session, chunk, first, len)?.as_ptr();
        }
        // SAFETY: a published chunk is `len` places long, valid and never unmapped, and zeros are
        // a valid place.
        Some(unsafe { &*places.add((index - first) as usize) })
    }

    /// Makes a log for this process and publishes its head, or `off()`.
    #[cold]
    fn attach(&self, session: &Session) -> *mut Head {
        let _errno = Errno::keep();
        let ours = create(session);
        let new = ours.map_or(off(), NonNull::as_ptr);
        match self.head.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(theirs) => {
                if let Some(head) = ours {
                    // SAFETY: our head was mapped with this length, and nobody else has seen it.
                    // Its file stays, empty; it is told by its lack of records.
                    unsafe { system::unmap(head.cast(), HEAD) };
                }
                theirs
            }
        }
    }

    /// Maps a chunk, or finds it mapped by another thread; stops the log if it cannot.
    #[cold]
    fn grow(
        &self,
        session: &Session,
        chunk: usize,
        first: u64,
        len: u64,
    ) -> Option<NonNull<Place>> {
        let _errno = Errno::keep();
        let head = self.head.load(Acquire);
        if head.is_null() || head == off() {
            return None;
        }
        // SAFETY: a published head is mapped and never unmapped.
        let head = unsafe { &*head };
        let bytes = len as usize * PLACE;
        let from = HEAD as u64 + first * PLACE as u64;
        let map = || {
            let file = File::open(session.path(head.process, head.serial).c_str(), libc::O_RDWR);
            let file = file.ok().filter(|file| file.allocate(from, bytes))?;
            Some((self.chunks.get(chunk)?, file.map(from, bytes)?))
        };
        let Some((slot, ours)) = map() else {
            head.stopped.store(1, Relaxed);
            self.head.store(off(), Release);
            return None;
        };
        match slot.compare_exchange(ptr::null_mut(), ours.as_ptr().cast(), AcqRel, Acquire) {
            Ok(_) => {
                self.release_before(chunk);
                Some(ours.cast())
            }
            Err(theirs) => {
                // SAFETY: our mapping has this length, and nobody else has seen it.
                unsafe { system::unmap(ours, bytes) };
                NonNull::new(theirs)
            }
        }
    }

    /// Gives back the memory of the chunk before `chunk`; a thread that still writes there finds
    /// the file's contents again.
    fn release_before(&self, chunk: usize) {
        let before = chunk.checked_sub(1).map(|before| self.chunks[before].load(Acquire));
        if let Some(base) = before.and_then(NonNull::new) {
            let doublings = (chunk as u32 - 1).min(DOUBLINGS);
            system::release(base.cast(), (FIRST << doublings) as usize * PLACE);
        }
    }
}

/// Creates the file of a log and maps and fills its head.
fn create(session: &Session) -> Option<NonNull<Head>> {
    let (process, parent) = system::processes();
    let mut serial = 0;
    let file = loop {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        match File::open(session.path(process, serial).c_str(), flags) {
            Ok(file) => break file,
            Err(libc::EEXIST) => serial = u32::checked_add(serial, 1)?,
            Err(_) => return None,
        }
    };
    if !file.allocate(0, HEAD) {
        return None;
    }
    let head = file.map(0, HEAD)?.cast::<Head>();
    // SAFETY: the mapping is ours, as long as a head, aligned to an OS page, and nobody else has
    // seen it. It is filled in place: a copy of 64 KiB could overflow a small stack.
    unsafe {
        let head = head.as_ptr();
        (&raw mut (*head).version).write(VERSION);
        (&raw mut (*head).pointer_width).write(usize::BITS);
        (&raw mut (*head).process).write(process);
        (&raw mut (*head).parent).write(parent);
        (&raw mut (*head).serial).write(serial);
        (&raw mut (*head).started).write(system::now());
        let text = (&raw mut (*head).text).cast::<u8>();
        let path = system::executable(text, TEXT / 2);
        (&raw mut (*head).path).write(path as u32);
        if let Ok(arguments) = File::open(c"/proc/self/cmdline", libc::O_RDONLY) {
            let len = arguments.read(text.add(path), TEXT - path);
            (&raw mut (*head).arguments).write(len as u32);
        }
        (*head).magic.store(MAGIC, Release);
    }
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_tile_the_log() {
        let mut index = 0;
        for number in 0..20 {
            let (chunk, first, len) = chunk_of(index);
            assert_eq!((chunk, first), (number, index));
            assert_eq!(chunk_of(first + len - 1), (chunk, first, len));
            assert_eq!((len * PLACE as u64) % (1 << 16), 0);
            index += len;
        }
    }
}
