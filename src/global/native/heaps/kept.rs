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
use core::{mem, ptr};

use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::global::native::base::sync;
use crate::global::native::base::visit::{RATE, Visit};
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::purge::Decline;
use crate::global::native::memory::refused;
use crate::os;

mod density;

use density::MappingDensity;

/// Bytes that may be kept while excess mappings go back no faster than [`RATE`].
const MOST: usize = 64 << 20;

/// Bytes of a run from which on a longer block starts with it.
const PART: usize = HUGE;

/// The least bytes of a run: moving fewer is no cheaper than touching new memory.
pub(super) const LEAST: usize = 64 << 10;

/// The most bytes of mappings that get huge pages before one was seen written all over; without
/// mappings of zeros, which get none before that.
const TRIED: usize = 64 << 20;

/// The most runs that are kept.
const RUNS: usize = 128;

/// The most seams that are known.
const SEAMS: usize = 512;

/// The most runs that go back after one use of the lock.
const GONE: usize = 4;

/// Contiguous OS pages that are mapped, unused, and not known to be zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: *mut u8,
    /// Bytes; 0 if the entry is free.
    len: usize,
    /// When the run was freed, in milliseconds.
    since: u64,
    /// Whether what the program set on the pages was [undone](os::restore).
    is_restored: bool,
}

/// A run that was taken out of the runs, since it has to be [restored](os::restore) first, which is
/// not done under the lock.
#[derive(Debug, PartialEq, Eq)]
struct Unrestored(Run);

impl Run {
    /// Returns the bytes before the first place that a huge page follows at a distance of `before`
    /// bytes.
    fn skipped(&self, before: usize) -> usize {
        self.start.addr().wrapping_add(before).wrapping_neg() % HUGE
    }

    /// Returns the bytes from that place to the end.
    fn usable(&self, before: usize) -> usize {
        self.len.saturating_sub(self.skipped(before))
    }
}

const NONE: Run = Run { start: ptr::null_mut(), len: 0, since: 0, is_restored: false };

/// The last places where pages of different mappings were joined. They save questions to the
/// system: a forgotten one is found by asking, and one that is gone splits what could move as one.
#[derive(Debug)]
struct Seams {
    addresses: [usize; SEAMS],
    next: usize,
}

impl Seams {
    fn note(&mut self, address: *mut u8) {
        self.addresses[self.next] = address.addr();
        self.next = (self.next + 1) % SEAMS;
    }

    fn until(&self, start: *mut u8, len: usize) -> usize {
        let distances = self.addresses.iter().map(|seam| seam.wrapping_sub(start.addr()));
        distances.filter(|&distance| distance > 0).fold(len, usize::min)
    }
}

#[derive(Debug)]
struct Kept {
    runs: [Run; RUNS],
    /// Runs that go back once the lock is let go: another thread may be waiting for it.
    gone: [Run; GONE],
    /// When a mapping was last freed, in milliseconds.
    freed: u64,
    /// Whether freed mappings are wanted again, as far as is known.
    wanted: bool,
    /// When the next mapping may go back for want of room, in milliseconds.
    again: u64,
    seams: Seams,
    /// The decline in the bytes of mappings in use.
    decline: Decline,
    /// Bytes given back in all.
    given: u64,
    /// Predicts whether new mappings that may hold anything will be written all over.
    density: MappingDensity,
    /// The same for mappings of zeros, which a program may want to stay mostly untouched.
    zeroed: MappingDensity,
}

// SAFETY: the pages of the runs are nobody else's.
unsafe impl Send for Kept {}

/// The runs. While a thread has the lock, it maps and unmaps nothing.
static KEPT: Apart<Locked<Kept>> = Apart::new(Locked::new(Kept::new()));

/// Bytes of all runs, updated before the lock is released.
static BYTES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Returns the number of bytes that are kept.
pub(in crate::global::native) fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Takes a part of a block of `len` bytes, placed as by [`take`], from the longest run: its start
/// and its bytes. The caller lengthens it, or [puts it back](put_back).
pub(super) fn take_part(len: usize) -> Option<(*mut u8, usize)> {
    (bytes() != 0).then(|| restored(|kept| kept.take_part(len))).flatten()
}

/// Takes pages to be moved behind others of a mapping that needs `len` bytes more, not 0: their
/// start, and their bytes. They are whole huge pages as long as there are some.
pub(super) fn take_more(len: usize) -> Option<(*mut u8, usize)> {
    (bytes() != 0).then(|| restored(|kept| kept.take_more(len))).flatten()
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
        unsafe { put(Run { start, len, since: os::now(), is_restored: true }) };
    }
}

/// Adds a run to the others, or gives it back if that cannot be done.
///
/// # Safety
/// The pages are the caller's, which does not use them any more.
unsafe fn put(run: Run) {
    if with(|kept| kept.put(run)) != Some(true) {
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
    with(|kept| kept.zeroed.expects_all(size)).unwrap_or(false)
}

/// Forgets the sample if it lies in this mapping, which is about to be resized. Returns whether it
/// did: then only a part of the mapping may be advised.
pub(super) fn forget_sample(start: *mut u8, len: usize) -> bool {
    with(|kept| kept.learn(start, len)).flatten().is_some()
}

/// Keeps a freed mapping if it may be wanted; returns whether it did. `in_use` tells the bytes of
/// mappings still in use, and those that may be kept beside them; `delay` is the purge delay in
/// milliseconds. As the program frees most of its mappings, kept ones go back.
///
/// # Safety
/// The pages were mapped, as whole OS pages, and are not used any more.
pub(super) unsafe fn keep(
    start: *mut u8,
    len: usize,
    in_use: impl FnOnce() -> (usize, usize),
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
    let run = Run { start, len, since: os::now(), is_restored: false };
    let (is_kept, surplus) = with(|kept| {
        let (used, most) = in_use();
        (kept.keep(run, most, delay), kept.note_freed(used, len, delay))
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
    bytes() != 0 && restored(|kept| kept.take_at(end, more)).is_some()
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
    with(|kept| kept.given).expect("the lock can be waited for")
}

/// Returns the milliseconds until there is something to give back; `None` if nothing is kept.
pub(in crate::global::native) fn due_in(delay: u32) -> Option<u64> {
    if bytes() == 0 {
        return None;
    }
    match with(|kept| kept.used().map(|run| run.since).min()) {
        Some(first) => Some(first?.saturating_add(delay.into()).saturating_sub(os::now())),
        // Another thread has the lock.
        None => Some(delay.into()),
    }
}

/// Keeps other threads out until [`after_fork`], so that the child finds the runs intact.
pub(in crate::global::native) fn take_for_fork(pause: impl FnMut() -> bool) {
    KEPT.take_for_fork(pause);
}

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

fn with<R>(action: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    let (result, gone) = KEPT.with(|kept| {
        let result = action(kept);
        BYTES.store(kept.bytes(), Relaxed);
        (result, kept.take_gone())
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
                put(Run { is_restored: true, ..run });
            } else {
                refused::release(run.start, run.len);
            }
        }
    }
}

/// Gives back the runs that were [taken out](Kept::take_gone).
fn release(gone: [Run; GONE]) {
    for run in gone.into_iter().filter(|run| run.len != 0) {
        // SAFETY: the pages were mapped, nothing uses them, and no other thread has the runs.
        unsafe { refused::release(run.start, run.len) };
    }
}

impl Kept {
    const fn new() -> Self {
        Self {
            runs: [NONE; RUNS],
            gone: [NONE; GONE],
            freed: 0,
            wanted: false,
            again: 0,
            seams: Seams { addresses: [0; SEAMS], next: 0 },
            decline: Decline::NONE,
            given: 0,
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

    fn used(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.len != 0)
    }

    fn bytes(&self) -> usize {
        self.used().map(|run| run.len).sum()
    }

    /// Adds the run of a freed mapping if it may be wanted. `most` and `delay` are as for [`keep`].
    fn keep(&mut self, run: Run, most: usize, delay: u32) -> bool {
        let (wanted, after) = (self.wanted, self.bytes() + run.len);
        self.freed = run.since;
        if !wanted || delay == 0 || delay == u32::MAX || after > most {
            return false;
        }
        if after > MOST && run.since >= self.again {
            self.again = run.since + u64::from(delay).max((run.len / RATE) as u64);
            return false;
        }
        self.put(run)
    }

    /// Records that a mapping of `len` bytes was freed, which leaves `used` bytes in use. Returns
    /// how many kept bytes go back at once.
    fn note_freed(&mut self, used: usize, len: usize, delay: u32) -> usize {
        self.decline.note(used.saturating_add(len));
        let goes_back = self.decline.note_freed(used, len, self.given, delay);
        if goes_back { self.decline.left(self.given) } else { 0 }
    }

    /// Adds a run, joined with adjacent runs. Where there is no room, the shortest goes back;
    /// returns whether that is another.
    fn put(&mut self, run: Run) -> bool {
        let mut run = run;
        for other in self.runs.iter_mut().filter(|other| other.len != 0) {
            let is_below = other.start.wrapping_add(other.len) == run.start;
            if is_below || run.start.wrapping_add(run.len) == other.start {
                let start = if is_below { other.start } else { run.start };
                let is_restored = run.is_restored && other.is_restored;
                run = Run { start, len: run.len + other.len, is_restored, ..run };
                *other = NONE;
            }
        }
        if run.len < LEAST {
            self.give_up(run);
            return true;
        }
        let place = self.runs.iter_mut().min_by_key(|other| other.len).filter(|p| p.len < run.len);
        let Some(place) = place else { return false };
        let shortest = mem::replace(place, run);
        self.give_up(shortest);
        true
    }

    /// Gives a run back, after the lock is let go if there is a place for that.
    fn give_up(&mut self, run: Run) {
        match self.gone.iter_mut().find(|other| other.len == 0) {
            Some(place) => *place = run,
            // SAFETY: the pages were mapped, and nothing uses them.
            None => unsafe { refused::release(run.start, run.len) },
        }
    }

    /// Takes from the longest run that fits, so that the block has room to grow.
    fn take(&mut self, len: usize, delay: u32) -> Result<Option<*mut u8>, Unrestored> {
        if delay > 0 && os::now() <= self.freed.saturating_add(delay.into()) {
            self.wanted |= self.freed > 0;
        }
        let page = os::page_size();
        let index = self.longest(|run| run.usable(page) >= len);
        self.if_restored(index, |kept, index| kept.take_from(index, page, len).0)
    }

    fn take_part(&mut self, len: usize) -> Result<Option<(*mut u8, usize)>, Unrestored> {
        let page = os::page_size();
        let index = self.longest(|run| run.usable(page) >= PART);
        self.if_restored(index, |kept, index| kept.take_from(index, page, len))
    }

    /// Takes whole huge pages of the shortest run that has some, so that few runs remain. If none
    /// has, or less is wanted, takes the end of the shortest run that suffices, or all of the
    /// longest.
    fn take_more(&mut self, len: usize) -> Result<Option<(*mut u8, usize)>, Unrestored> {
        if len >= HUGE
            && let Some(index) = self.shortest(|run| run.usable(0) >= HUGE)
        {
            return self.if_restored(Some(index), |kept, index| {
                let whole = kept.runs[index].usable(0).min(len) & !(HUGE - 1);
                kept.take_from(index, 0, whole)
            });
        }
        let index = self.shortest(|run| run.len >= len).or_else(|| self.longest(|run| run.len > 0));
        self.if_restored(index, |kept, index| {
            let run = &mut kept.runs[index];
            let part = run.len.min(len);
            run.len -= part;
            (run.start.wrapping_add(run.len), part)
        })
    }

    /// Takes from a run, if there is one. One that is not restored is taken out instead.
    fn if_restored<R>(
        &mut self,
        index: Option<usize>,
        take: impl FnOnce(&mut Self, usize) -> R,
    ) -> Result<Option<R>, Unrestored> {
        let Some(index) = index else { return Ok(None) };
        if !self.runs[index].is_restored {
            return Err(Unrestored(mem::replace(&mut self.runs[index], NONE)));
        }
        Ok(Some(take(self, index)))
    }

    /// Takes up to `most` bytes of a run: their start, which a huge page follows at a distance of
    /// `before` bytes, and their number.
    fn take_from(&mut self, index: usize, before: usize, most: usize) -> (*mut u8, usize) {
        let run = mem::replace(&mut self.runs[index], NONE);
        let (Run { start, len: whole, .. }, skipped) = (run, run.skipped(before));
        let len = most.min(run.usable(before));
        let taken = start.wrapping_add(skipped);
        for (start, len) in [(start, skipped), (taken.wrapping_add(len), whole - skipped - len)] {
            let run = Run { start, len, ..run };
            if len != 0 && !self.put(run) {
                self.give_up(run);
            }
        }
        (taken, len)
    }

    fn take_at(&mut self, end: *mut u8, more: usize) -> Result<Option<()>, Unrestored> {
        let index = self.runs.iter().position(|run| run.start == end && run.len >= more);
        self.if_restored(index, |kept, index| {
            let run = &mut kept.runs[index];
            run.len -= more;
            run.start = run.start.wrapping_add(more);
        })
    }

    /// Gives back up to `wanted` bytes of the shortest of `which` runs, and what is left of a huge
    /// page. Returns their number.
    fn give_back(&mut self, wanted: usize, which: impl Fn(&Run) -> bool) -> usize {
        let Some(index) = self.shortest(|run| run.len != 0 && which(run)) else { return 0 };
        let run = &mut self.runs[index];
        let len = wanted.checked_next_multiple_of(HUGE).unwrap_or(wanted).min(run.len);
        run.len -= len;
        let gone = Run { start: run.start.wrapping_add(run.len), len, ..*run };
        self.give_up(gone);
        self.given += len as u64;
        len
    }

    /// Takes out the runs that go back.
    fn take_gone(&mut self) -> [Run; GONE] {
        mem::replace(&mut self.gone, [NONE; GONE])
    }

    fn longest(&self, which: impl Fn(&Run) -> bool) -> Option<usize> {
        (0..RUNS).filter(|&index| which(&self.runs[index])).max_by_key(|&i| self.runs[i].len)
    }

    fn shortest(&self, which: impl Fn(&Run) -> bool) -> Option<usize> {
        (0..RUNS).filter(|&index| which(&self.runs[index])).min_by_key(|&i| self.runs[i].len)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
