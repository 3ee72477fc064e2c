//! Appends records to the log of this process, from any thread, without locking, without
//! allocating, and unnoticed by the program.
//!
//! ```text
//!  SESSION ─► Session (copied by fork)        Log (wiped by fork)           file PID.SERIAL.pwlog
//!             ┌───────────┐                   ┌────────────┐                ┌─────────────┐
//!             │ log       ├──────────────────►│ head       ├───────────────►│ Head        │
//!             │ directory │                   │ cursor     │   mapped,      │ chunk 0     │
//!             └───────────┘                   │ chunks 0…n ├──────────────► │ chunk 1     │
//!                                             └────────────┘   shared       └─────────────┘
//! ```
//! * **Order.** A record claims its place, one to three words, by one atomic addition to `cursor`.
//!   That addition is ordered with the allocator's own synchronisation, so a free that comes before
//!   a reuse of its address claims an earlier place.
//! * **No lock.** A thread that claims a place in an unmapped chunk maps the chunk. If several do,
//!   one wins and the others unmap theirs. So a signal handler that allocates in the middle of a
//!   record, or a thread that dies there, does not block others.
//! * **Fork.** `Log` is in memory that a child finds zeroed, that is, not attached. The child opens
//!   its own log at its first record and never writes to its parent's. This works for every kind of
//!   `fork`, without a handler. A child of `vfork` shares its parent's memory, and correctly its
//!   log.
//! * **No file stays open.** The file is opened by its absolute path when the log grows, and
//!   closed at once: programs that close, count or number their files notice nothing.
//! * **Failure.** If the log cannot grow (disk full, a limit, `chroot`), it is marked as stopped,
//!   with the reason, and the program continues unrecorded. Disk space is reserved before it is
//!   mapped. A log that cannot even be created leaves an empty file whose name gives the reason.
//! * **Time.** A thread that claims a place that is a multiple of [`SAMPLE_EVERY`] also appends the
//!   time.
//! * **Stopping.** The mark can also be set from outside, as the head is mapped from the file. A
//!   log that is to grow after its keeper has ended stops by itself
//!   ([`Keeper`](crate::raw::Keeper)). It is final; a recording that is turned on again begins
//!   another log (`session`).
//!
//! Chunks double from 128 KiB to 16 MiB and then stay at that size: a small process leaves a small
//! file, and a long recording is mapped in few pieces.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::settings::Settings;
use super::sites::{Append, Sites, Stack};
use super::system::{self, Errno, File};
use crate::raw::form::{Form, Words};
use crate::raw::head::{HEAD, Head, MAGIC, Stopped, TEXT, VERSION, VERSION_WITH_STACKS, WORD};
use crate::raw::record::Record;
use crate::raw::side;

/// The form of this machine's records.
const FORM: Form = Form::new(usize::BITS);

/// Returns the pointer value that means: do not record.
pub(super) const fn off<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

/// The state of this process's log; all zeros at first, and again after `fork`.
pub(super) struct Log {
    /// The value of the switch that it belongs to; 0: none yet.
    epoch: AtomicU32,
    /// Null: no log yet. `off()`: no log, or no longer.
    head: AtomicPtr<Head>,
    /// The next free place, in words.
    cursor: AtomicU64,
    chunks: [AtomicPtr<AtomicU64>; CHUNKS],
    sites: Sites,
}

/// Words in the first chunk: 128 KiB, a multiple of every OS page size up to 64 KiB.
const FIRST: u64 = 16384;
/// Number of times that the chunk size doubles.
const DOUBLINGS: u32 = 7;
/// Words between clock samples: a power of two. One in 256 makes a log 0.4 % longer, and the time
/// it takes is negligible among that many records.
const SAMPLE_EVERY: u64 = 256;
/// Enough for 64 GiB.
const CHUNKS: usize = 4096;

/// Returns the chunk of the place `index`, the chunk's first place, and its number of places.
#[inline]
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

/// Returns whether there is a multiple of [`SAMPLE_EVERY`] among the `len` places from `first` on.
#[inline]
fn is_due(first: u64, len: u64) -> bool {
    first.wrapping_neg() % SAMPLE_EVERY < len
}

/// Appends frames and files to a log.
struct Appending<'a> {
    log: &'a Log,
    settings: &'a Settings,
}

impl Append for Appending<'_> {
    #[inline]
    fn append(&self, len: usize, word: impl Fn(usize) -> u64) {
        self.log.append_words(self.settings, len, word);
    }
}

impl Log {
    /// Returns whether the log belongs to this value of the switch; a log that belongs to none is
    /// assigned to it.
    #[inline]
    pub(super) fn belongs_to(&self, epoch: u32) -> bool {
        let found = self.epoch.load(Relaxed);
        found == epoch || found == 0 && self.claim(epoch)
    }

    #[cold]
    fn claim(&self, epoch: u32) -> bool {
        let claimed = self.epoch.compare_exchange(0, epoch, Relaxed, Relaxed);
        claimed.is_ok() || claimed == Err(epoch)
    }

    /// Returns whether the log belongs to a later value of the switch. (Values wrap.)
    pub(super) fn is_later_than(&self, epoch: u32) -> bool {
        let found = self.epoch.load(Relaxed);
        found != 0 && found.wrapping_sub(epoch).cast_signed() > 0
    }

    /// Returns whether the log has ended, or could not be created.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.head.load(Relaxed) == off()
    }

    /// Appends a record made by `thread`, unless the log has stopped or cannot grow. Opens the log
    /// if necessary.
    #[inline]
    pub(super) fn record(&self, settings: &Settings, thread: u32, record: Record) {
        if !self.is_open(settings) {
            return;
        }
        match FORM.short(thread, record) {
            0 => self.append_long(settings, FORM.long(thread, record)),
            word => self.append(settings, word),
        }
    }

    /// Appends a record with its call stack, as [`record`](Self::record) does.
    #[inline]
    pub(super) fn record_at(
        &self,
        settings: &Settings,
        thread: u32,
        record: Record,
        stack: &Stack<'_>,
    ) {
        if !self.is_open(settings) {
            return;
        }
        let stack = side::stack(self.sites.node(&Appending { log: self, settings }, stack));
        match FORM.short(thread, record) {
            0 => {
                let Words { words, len } = FORM.long(thread, record);
                let word = |at: usize| at.checked_sub(1).map_or(stack, |at| words[at]);
                self.append_words(settings, 1 + len, word);
            }
            word => self.append_words(settings, 2, |at| if at == 0 { stack } else { word }),
        }
    }

    /// Returns whether the log accepts records; opens it if necessary.
    #[inline]
    fn is_open(&self, settings: &Settings) -> bool {
        let mut head = self.head.load(Acquire);
        if head.is_null() {
            head = self.attach(settings);
        }
        if head == off() {
            return false;
        }
        // SAFETY: a published head is mapped and never unmapped.
        let stopped = unsafe { &*head }.stopped.load(Relaxed) != 0;
        if stopped {
            self.head.store(off(), Release);
        }
        !stopped
    }

    /// Appends a record of one word, unless the log has stopped or cannot grow.
    #[inline]
    fn append(&self, settings: &Settings, word: u64) {
        let index = self.cursor.fetch_add(1, Relaxed);
        if index >= settings.most_words() {
            return self.end(Stopped::Limit);
        }
        if let Some(place) = self.place(settings, index) {
            place.store(word, Release);
        }
        if is_due(index, 1) {
            self.sample_clock(settings);
        }
    }

    /// Appends the time.
    #[cold]
    fn sample_clock(&self, settings: &Settings) {
        let now = side::time(system::monotonic());
        let index = self.cursor.fetch_add(1, Relaxed);
        if index < settings.most_words()
            && let Some(place) = self.place(settings, index)
        {
            place.store(now, Release);
        }
    }

    /// Appends a longer record, unless the log has stopped or cannot grow.
    #[cold]
    fn append_long(&self, settings: &Settings, record: Words) {
        self.append_words(settings, record.len, |at| record.words[at]);
    }

    /// Appends `len` words, unless the log has stopped or cannot grow.
    #[inline]
    fn append_words(&self, settings: &Settings, len: usize, word: impl Fn(usize) -> u64) {
        let first = self.cursor.fetch_add(len as u64, Relaxed);
        if first + len as u64 > settings.most_words() {
            return self.end(Stopped::Limit);
        }
        // The first word is written last: a record with a first word is complete.
        if let Some([head, further @ ..]) = self.places(settings, first, len) {
            for (at, place) in (1..).zip(further) {
                place.store(word(at), Relaxed);
            }
            head.store(word(0), Release);
        } else {
            for further in (1..len).rev() {
                if let Some(place) = self.place(settings, first + further as u64) {
                    place.store(word(further), Relaxed);
                }
            }
            if let Some(place) = self.place(settings, first) {
                place.store(word(0), Release);
            }
        }
        if is_due(first, len as u64) {
            self.sample_clock(settings);
        }
    }

    /// Returns the `len` claimed places from `first` on, if they are in one chunk. Also returns
    /// `None` if the log has stopped or cannot grow.
    #[inline]
    fn places(&self, settings: &Settings, first: u64, len: usize) -> Option<&[AtomicU64]> {
        let (_, begin, room) = chunk_of(first);
        if first + len as u64 > begin + room {
            return None;
        }
        let place = self.pointer(settings, first)?;
        // SAFETY: the chunk is valid for this many words from the first one on, as just checked,
        // and is never unmapped.
        Some(unsafe { core::slice::from_raw_parts(place, len) })
    }

    /// Returns a claimed place; `None` if the log has stopped or cannot grow.
    #[inline]
    fn place(&self, settings: &Settings, index: u64) -> Option<&AtomicU64> {
        // SAFETY: a place is a valid word, and its chunk is never unmapped.
        Some(unsafe { &*self.pointer(settings, index)? })
    }

    /// Like [`place`](Self::place), but the pointer may access the whole chunk.
    #[inline]
    fn pointer(&self, settings: &Settings, index: u64) -> Option<*const AtomicU64> {
        let (chunk, first, len) = chunk_of(index);
        let mut words = self.chunks.get(chunk).map_or(ptr::null_mut(), |c| c.load(Acquire));
        if words.is_null() {
            words = self.grow(settings, chunk, first, len)?.as_ptr();
        }
        // SAFETY: a published chunk is `len` words long, valid and never unmapped. Mapping it
        // ensured that the file has space up to the limit, and claimed places are below the limit.
        Some(unsafe { words.add((index - first) as usize) })
    }

    /// Marks the log as stopped, unless it is marked already.
    #[cold]
    fn end(&self, why: Stopped) {
        let head = self.head.swap(off(), AcqRel);
        if !head.is_null() && head != off() {
            // SAFETY: a published head is mapped and never unmapped.
            let stopped = unsafe { &(*head).stopped };
            // An earlier reason is kept.
            let _ = stopped.compare_exchange(0, why.code(), Relaxed, Relaxed);
        }
    }

    /// Creates a log for this process and publishes its head, or `off()`.
    #[cold]
    fn attach(&self, settings: &Settings) -> *mut Head {
        let _errno = Errno::keep();
        let ours = create(settings);
        let new = ours.map_or(off(), NonNull::as_ptr);
        match self.head.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(theirs) => {
                if let Some(head) = ours {
                    // SAFETY: our head was mapped with this length, and was never published. Its
                    // file stays, empty; readers recognise it by its lack of records.
                    unsafe { system::unmap(head.cast(), HEAD) };
                }
                theirs
            }
        }
    }

    /// Maps a chunk, unless another thread has; stops the log on failure.
    #[cold]
    fn grow(
        &self,
        settings: &Settings,
        chunk: usize,
        first: u64,
        len: u64,
    ) -> Option<NonNull<AtomicU64>> {
        let _errno = Errno::keep();
        let head = self.head.load(Acquire);
        if head.is_null() || head == off() {
            return None;
        }
        // Small logs do without the question.
        if chunk > 0 && settings.is_abandoned() {
            self.end(Stopped::Asked);
            return None;
        }
        // SAFETY: a published head is mapped and never unmapped.
        let head = unsafe { &*head };
        let bytes = len as usize * WORD;
        let from = HEAD as u64 + first * WORD as u64;
        // Reserve no more space than may be used.
        let used = settings.most_words().saturating_sub(first).min(len) as usize * WORD;
        let map = || {
            let slot = self.chunks.get(chunk).ok_or(libc::EFBIG)?;
            let file = File::open(settings.path(head.process, head.serial).c_str(), libc::O_RDWR)?;
            file.allocate(from, used)?;
            Ok((slot, file.map(from, bytes)?))
        };
        let (slot, ours) = match map() {
            Ok(mapped) => mapped,
            Err(error) => {
                self.end(Stopped::Failed(error));
                return None;
            }
        };
        match slot.compare_exchange(ptr::null_mut(), ours.as_ptr().cast(), AcqRel, Acquire) {
            Ok(_) => {
                self.release_before(chunk);
                Some(ours.cast())
            }
            Err(theirs) => {
                // SAFETY: our mapping has this length, and was never published.
                unsafe { system::unmap(ours, bytes) };
                NonNull::new(theirs)
            }
        }
    }

    /// Releases the memory of the chunk before `chunk`; a thread that still writes there finds the
    /// file's contents again.
    fn release_before(&self, chunk: usize) {
        let before = chunk.checked_sub(1).map(|before| self.chunks[before].load(Acquire));
        if let Some(base) = before.and_then(NonNull::new) {
            let doublings = (chunk as u32 - 1).min(DOUBLINGS);
            system::release(base.cast(), (FIRST << doublings) as usize * WORD);
        }
    }
}

/// Creates a log's file, and maps and fills its head. Without space for it, the file's name says
/// so.
fn create(settings: &Settings) -> Option<NonNull<Head>> {
    let (process, parent) = system::processes();
    let mut serial = 0;
    let file = loop {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        match File::open(settings.path(process, serial).c_str(), flags) {
            Ok(file) => break file,
            Err(libc::EEXIST) => serial = u32::checked_add(serial, 1)?,
            Err(_) => return None,
        }
    };
    let map = || {
        file.allocate(0, HEAD)?;
        file.map(0, HEAD)
    };
    let head = match map() {
        Ok(head) => head.cast::<Head>(),
        Err(error) => {
            let failed = settings.failed_path(process, serial, error.unsigned_abs());
            system::rename(settings.path(process, serial).c_str(), failed.c_str());
            return None;
        }
    };
    // SAFETY: the mapping is ours, as long as a head, aligned to an OS page, and not yet published.
    // It is filled in place: a copy of 64 KiB could overflow a small stack.
    unsafe {
        let head = head.as_ptr();
        let stacks = settings.stack_depth() > 0;
        let version = if stacks { VERSION_WITH_STACKS } else { VERSION };
        (&raw mut (*head).version).write(version);
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
    use crate::raw::request::Request;

    /// Returns the log of a process before its first record, and settings without limits.
    fn log() -> (Box<Log>, Box<Settings>) {
        let functions = Default::default();
        let request = Request { functions, max_log: None, stacks: 0, directory: b"/" };
        let (mut log, mut settings) = (Box::<Log>::new_uninit(), Box::<Settings>::new_uninit());
        // SAFETY: zero is a valid value of every field of both, and the directory fits.
        unsafe {
            log.as_mut_ptr().write_bytes(0, 1);
            settings.as_mut_ptr().write_bytes(0, 1);
            Settings::write(settings.as_mut_ptr(), &request);
            (log.assume_init(), settings.assume_init())
        }
    }

    /// A record with a new call stack may reach the limit several times.
    #[test]
    fn a_log_ends_for_its_first_reason_and_grows_no_more() {
        let (log, settings) = log();
        assert!(log.place(&settings, 0).is_none(), "there is no log yet");
        // SAFETY: zero is a valid value of every field.
        let head = unsafe { Box::<Head>::new_zeroed().assume_init() };
        let head = Box::into_raw(head);
        log.head.store(head, Release);
        for why in [Stopped::Failed(28), Stopped::Limit, Stopped::Limit] {
            assert_eq!(log.is_over(), why == Stopped::Limit);
            log.end(why);
        }
        log.head.store(head, Release);
        log.end(Stopped::Limit);
        assert!(log.is_over() && log.place(&settings, 0).is_none());
        // SAFETY: it came from a box, and the log does not use it any more.
        let head = unsafe { Box::from_raw(head) };
        assert_eq!(head.stopped.into_inner(), Stopped::Failed(28).code());
    }

    #[test]
    fn a_log_that_does_not_exist_can_end() {
        let (log, _) = log();
        log.end(Stopped::Limit);
        assert!(log.is_over());
    }

    /// Words that were claimed together are written through a pointer that may access all of them,
    /// which Miri checks; one by one if they are in two chunks.
    #[test]
    fn a_record_of_several_words_is_written_where_it_was_claimed() {
        let chunks =
            [FIRST, 2 * FIRST].map(|len| (0..len).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let (log, settings) = log();
        for (chunk, place) in chunks.iter().zip(&log.chunks) {
            place.store(chunk.as_ptr().cast_mut(), Release);
        }
        for first in [1, FIRST - 3, FIRST - 2, FIRST - 1, FIRST] {
            log.cursor.store(first, Relaxed);
            log.append_words(&settings, 3, |at| at as u64 + 7);
            let words = chunks.iter().flatten().skip(first as usize - 1).take(5);
            let written: Vec<_> = words.map(|word| word.swap(0, Relaxed)).collect();
            assert_eq!(written[..4], [0, 7, 8, 9], "{first}");
            // The time follows a multiple of 256.
            assert_eq!(written[4] != 0, is_due(first, 3), "{first}");
        }
    }

    #[test]
    fn the_clock_is_sampled_at_every_claimed_multiple() {
        for len in 1..9 {
            for first in 0..1000 {
                let among = (first..first + len).any(|place| place % SAMPLE_EVERY == 0);
                assert_eq!(is_due(first, len), among, "{first}, {len}");
            }
        }
    }

    #[test]
    fn chunks_tile_the_log() {
        let mut index = 0;
        for number in 0..20 {
            let (chunk, first, len) = chunk_of(index);
            assert_eq!((chunk, first), (number, index));
            assert_eq!(chunk_of(first + len - 1), (chunk, first, len));
            assert_eq!((len * WORD as u64) % (1 << 16), 0);
            index += len;
        }
    }
}
