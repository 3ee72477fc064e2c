//! Keeps freed mappings for later blocks while the program is known to want them again: new ones
//! would cost as many page faults as before.
//!
//! ```text
//!   freed:     | a run ……………………………………… |
//!   a block:   | header, block … | what is left of the run … |
//!   it grows:  | header, block ……………………… | what is left … |
//! ```
//! A freed mapping is kept if the one freed before was wanted again within the purge delay: by a
//! block that grows, or a new one that may hold anything. At most [`MOST`] bytes are kept. More are
//! kept only for a while after a mapping went back for want of room, so that on average this
//! happens to no more than [`RATE`] bytes for each millisecond. Together with mappings in use, they
//! never exceed the most bytes ever in use. As a program frees most of its mappings, they [go
//! back](Decline).
//!
//! A block that is longer than every run begins with the longest, to which pages of others and new
//! memory [are added](super::mapping). A run that is not taken within a purge delay goes back when
//! a thread [looks](crate::global::native::lists::idle) for idle memory; then no mapping is kept
//! until one is wanted again. When a heap grows, these mappings go back first.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::global::native::base::sync;
use crate::global::native::base::visit::{RATE, Visit};
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::purge::Decline;
use crate::global::native::memory::refused;
use crate::os::{self, OsPageRun};

mod density;
mod runs;
mod seams;

use density::MappingDensity;
pub(super) use runs::LEAST;
use runs::{GONE, KeptRun, KeptRuns, Unrestored};
use seams::Seams;

/// Bytes that may be kept while excess mappings go back no faster than [`RATE`].
const MOST: usize = 64 << 20;

/// The most bytes of mappings that get huge pages before one was seen written all over; without
/// mappings of zeros, which get none before that.
const TRIED: usize = 64 << 20;

/// The kept runs, and what earlier mappings tell about later ones.
#[derive(Debug)]
struct Kept {
    /// The pages that are kept.
    runs: KeptRuns,
    /// When a mapping was last freed, in milliseconds.
    last_freed_at: u64,
    /// Whether freed mappings are wanted again, as far as is known.
    wanted: bool,
    /// When the next mapping may go back for want of room, in milliseconds.
    next_release_at: u64,
    /// Where pages of different mappings adjoin.
    seams: Seams,
    /// The decline in the bytes of mappings in use.
    decline: Decline,
    /// Bytes of runs given back since the process began.
    released_bytes: u64,
    /// Predicts whether new mappings that may hold anything will be written all over.
    density: MappingDensity,
    /// The same for mappings of zeros, which a program may want to stay mostly untouched.
    zeroed: MappingDensity,
}

// SAFETY: by the invariant of `KeptRuns` its pages belong to it alone, whichever thread has the
// lock.
unsafe impl Send for Kept {}

/// The runs. A thread that has the lock maps and unmaps nothing, unless it gives up more runs at
/// once than [`KeptRuns`] notes for later.
static KEPT: Apart<Locked<Kept>> = Apart::new(Locked::new(Kept::new()));

/// Bytes of all runs, updated before the lock is released.
static BYTES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Returns the number of bytes that are kept.
pub(in crate::global::native) fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Takes up to `len` bytes of the longest run, as the first part of a block that is placed as by
/// [`take`]. The caller adds the rest, or [puts them back](put_back).
pub(super) fn take_part(len: usize) -> Option<OsPageRun> {
    (bytes() != 0).then(|| restored(|kept| kept.runs.take_part(len))).flatten()
}

/// Takes up to `len` bytes, not 0, to be moved to the end of a mapping that needs as many more.
/// They are whole huge pages as long as there are some.
pub(super) fn take_more(len: usize) -> Option<OsPageRun> {
    (bytes() != 0).then(|| restored(|kept| kept.runs.take_more(len))).flatten()
}

/// Notes that a mapping may end before `address` and another begin there, as the system sees it.
pub(super) fn note_seam(address: *mut u8) {
    with(|kept| kept.seams.note(address));
}

/// Returns the bytes from `start` on, up to `len`, in which no seam is known.
pub(super) fn until_seam(start: *mut u8, len: usize) -> usize {
    with(|kept| kept.seams.until(start, len)).unwrap_or(len)
}

/// Puts back memory that was taken and not used.
///
/// # Safety
/// The pages are the caller's, which does not use them any more.
pub(super) unsafe fn put_back(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the callee has the same contract.
        unsafe { put(KeptRun { start, len, since: os::now(), is_restored: true }) };
    }
}

/// Adds a run to the others, or gives it back if that cannot be done.
///
/// # Safety
/// The pages are the caller's, which does not use them any more.
unsafe fn put(run: KeptRun) {
    if with(|kept| kept.runs.put(run)) != Some(true) {
        // SAFETY: the caller guarantees that the pages are its own.
        unsafe { refused::release(run.start, run.len) };
    }
}

/// What the program asked a new block to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Contents {
    Zeros,
    Anything,
}

/// Decides how many bytes of a new mapping's block, not written yet, get huge pages.
pub(in crate::global::native) fn decide_huge_pages(
    block: *mut u8,
    size: usize,
    contents: Contents,
) -> usize {
    let thread = sync::token();
    let decide = |kept: &mut Kept| match contents {
        Contents::Zeros => kept.zeroed.decide(block, size, thread),
        Contents::Anything => kept.density.decide(block, size, thread),
    };
    with(decide).unwrap_or(0)
}

/// Returns whether a new block of `size` zero bytes will probably be written all over: then it may
/// be kept memory that is cleared.
pub(in crate::global::native) fn expects_zeros_written(size: usize) -> bool {
    with(|kept| kept.zeroed.decide_unsampled(size)).unwrap_or(false)
}

/// Forgets the sample, and learns from it, if it lies in this mapping, which is about to be resized
/// or unmapped. Returns whether it did: then only a part of the mapping may be advised.
pub(super) fn forget_sample(start: *mut u8, len: usize) -> bool {
    with(|kept| kept.learn(start, len)).flatten().is_some()
}

/// Bytes of mappings after one was freed.
pub(super) struct Balance {
    /// Bytes still in use.
    pub(super) in_use: usize,
    /// The most bytes that may be kept beside them.
    pub(super) most_kept: usize,
}

/// Keeps a freed mapping if it may be wanted; returns whether it did. `delay` is the purge delay in
/// milliseconds. As the program frees most of its mappings, kept ones go back.
///
/// # Safety
/// The pages were mapped, as whole OS pages, and are not used any more.
pub(super) unsafe fn keep(
    start: *mut u8,
    len: usize,
    balance: impl FnOnce() -> Balance,
    delay: u32,
) -> bool {
    if let Some(is_dense) = with(|kept| kept.learn(start, len)).flatten() {
        // With one advice the mapping is one for the system again, which can lengthen it.
        // SAFETY: the caller guarantees that the pages are mapped, and unused.
        unsafe { os::advise_huge_pages(start, len, is_dense) };
    }
    // What else the program set is undone when the pages are taken: mostly nobody takes them.
    // SAFETY: as above.
    if unsafe { !os::may_keep(start, len) } {
        return false;
    }
    let run = KeptRun { start, len, since: os::now(), is_restored: false };
    let (is_kept, surplus) = with(|kept| {
        let Balance { in_use, most_kept } = balance();
        (kept.keep(run, most_kept, delay), kept.note_freed(in_use, len, delay))
    })
    .unwrap_or_default();
    if surplus != 0 {
        give_back(surplus);
    }
    is_kept
}

/// Takes `len` bytes, a multiple of an OS page, for a block that starts on a huge page, an OS page
/// behind the result.
pub(super) fn take(len: usize, delay: u32) -> Option<*mut u8> {
    restored(|kept| kept.take(len, delay))
}

/// Takes the `more` bytes of OS pages from `end` on; returns whether they were kept.
pub(super) fn take_at(end: *mut u8, more: usize) -> bool {
    bytes() != 0 && restored(|kept| kept.runs.take_at(end, more)).is_some()
}

/// Gives back runs that nobody took for `delay` milliseconds, in steps, until the visit is over.
pub(in crate::global::native) fn give_back_idle(visit: &mut Visit, delay: u32) {
    let step = |kept: &mut Kept| {
        let now = os::now();
        let gone = kept.give_back(HUGE, |run| now >= run.since.saturating_add(delay.into()));
        kept.wanted &= gone == 0;
        gone != 0
    };
    while bytes() != 0 && !visit.is_over() && with(step) == Some(true) {}
}

/// Gives back `wanted` bytes, or all there are. Returns whether there were any.
pub(in crate::global::native) fn give_back(wanted: usize) -> bool {
    let mut given = 0;
    while given < wanted && bytes() != 0 {
        match with(|kept| kept.give_back(wanted - given, |_| true)) {
            None | Some(0) => break,
            Some(bytes) => given += bytes,
        }
    }
    given != 0
}

/// Returns the bytes given back in all.
#[cfg(all(test, not(miri)))]
pub(super) fn given() -> u64 {
    with(|kept| kept.released_bytes).expect("the lock can be waited for")
}

/// Returns the milliseconds until there is something to give back; `None` if nothing is kept.
pub(in crate::global::native) fn due_in(delay: u32) -> Option<u64> {
    if bytes() == 0 {
        return None;
    }
    match with(|kept| kept.runs.used().map(|run| run.since).min()) {
        Some(first) => Some(first?.saturating_add(delay.into()).saturating_sub(os::now())),
        // Another thread has the lock.
        None => Some(delay.into()),
    }
}

/// Keeps other threads out until [`after_fork`], so that the child finds the runs intact.
pub(in crate::global::native) fn take_for_fork(pause: impl FnMut() -> bool) {
    KEPT.take_for_fork(pause);
}

/// Lets other threads in again, in the parent.
pub(in crate::global::native) fn after_fork() {
    KEPT.after_fork();
}

/// As [`after_fork`], in the child. If another thread had the lock, its runs stay mapped for ever,
/// uncounted.
pub(in crate::global::native) fn after_fork_in_child() {
    if KEPT.after_fork_in_child() {
        BYTES.store(0, Relaxed);
    }
}

/// Runs `action` under the lock, then unmaps the runs that it [took out](KeptRuns::take_gone);
/// `None` if the lock cannot be waited for.
fn with<R>(action: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    let (result, gone) = KEPT.with(|kept| {
        let result = action(kept);
        BYTES.store(kept.runs.bytes(), Relaxed);
        (result, kept.runs.take_gone())
    })?;
    release(gone);
    Some(result)
}

/// Takes memory. A block must not find there what the program set on the pages of an earlier one:
/// that is undone first. Runs for which this cannot be done go back.
fn restored<R>(take: impl Fn(&mut Kept) -> Result<Option<R>, Unrestored>) -> Option<R> {
    loop {
        let Unrestored(run) = match with(&take)? {
            Ok(taken) => return taken,
            Err(unrestored) => unrestored,
        };
        // SAFETY: the pages were mapped, nothing uses them, and no other thread has the run.
        unsafe {
            if os::restore(run.start, run.len) {
                put(KeptRun { is_restored: true, ..run });
            } else {
                refused::release(run.start, run.len);
            }
        }
    }
}

/// Gives back the runs that were [taken out](KeptRuns::take_gone).
fn release(gone: [KeptRun; GONE]) {
    for run in gone.into_iter().filter(|run| run.len != 0) {
        // SAFETY: the pages were mapped, nothing uses them, and no other thread has the runs.
        unsafe { refused::release(run.start, run.len) };
    }
}

impl Kept {
    /// Keeps nothing, and knows nothing yet.
    const fn new() -> Self {
        Self {
            runs: KeptRuns::new(),
            last_freed_at: 0,
            wanted: false,
            next_release_at: 0,
            seams: Seams::new(),
            decline: Decline::NONE,
            released_bytes: 0,
            density: MappingDensity::new(TRIED),
            zeroed: MappingDensity::new(0),
        }
    }

    /// Learns from a mapping that is freed or resized, if a sample lies in it. Returns whether the
    /// sample was written all over.
    fn learn(&mut self, start: *mut u8, len: usize) -> Option<bool> {
        let learned = self.density.learn(start, len);
        self.zeroed.learn(start, len).or(learned)
    }

    /// Adds the run of a freed mapping if it may be wanted; returns whether it did. At most `most`
    /// bytes are kept then; `delay` is as for [`keep`].
    fn keep(&mut self, run: KeptRun, most: usize, delay: u32) -> bool {
        let (wanted, after) = (self.wanted, self.runs.bytes() + run.len);
        self.last_freed_at = run.since;
        if !wanted || delay == 0 || delay == u32::MAX || after > most {
            return false;
        }
        if after > MOST && run.since >= self.next_release_at {
            self.next_release_at = run.since + u64::from(delay).max((run.len / RATE) as u64);
            return false;
        }
        self.runs.put(run)
    }

    /// Records that a mapping of `len` bytes was freed, which leaves `used` bytes in use. Returns
    /// how many kept bytes go back at once.
    fn note_freed(&mut self, used: usize, len: usize, delay: u32) -> usize {
        self.decline.note(used.saturating_add(len));
        let goes_back = self.decline.note_freed(used, len, self.released_bytes, delay);
        if goes_back { self.decline.left(self.released_bytes) } else { 0 }
    }

    /// Takes [a block's bytes](KeptRuns::take), and learns that they were wanted.
    fn take(&mut self, len: usize, delay: u32) -> Result<Option<*mut u8>, Unrestored> {
        if delay > 0 && os::now() <= self.last_freed_at.saturating_add(delay.into()) {
            self.wanted |= self.last_freed_at > 0;
        }
        self.runs.take(len)
    }

    /// Gives back [up to `wanted` bytes of a run](KeptRuns::give_back). Returns their number.
    fn give_back(&mut self, wanted: usize, which: impl Fn(&KeptRun) -> bool) -> usize {
        let given = self.runs.give_back(wanted, which);
        self.released_bytes += given as u64;
        given
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
