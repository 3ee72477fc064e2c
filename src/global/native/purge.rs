//! When a heap's free memory goes back to the system, and how.
//!
//! A heap remembers the most bytes that were in use since its free memory was last returned. Once
//! that many less by an eighth (and [`SURPLUS`]) are in use, and still are after the purge delay,
//! the whole heap is walked and every free OS page that takes memory is given back, also within
//! partly used pages. In a steady state that never happens, so nothing is faulted in again.
//!
//! When the heap grows for a block of [`LARGE`] bytes or more, or one is mapped beside it, as much
//! goes back of the large free blocks, none of which could hold it: the tables that a growing
//! collection leaves behind are too small for the next, and would stay resident beside it. A heap
//! that has all it needs returns nothing, and what is faulted in again is never more than what was
//! taken from the system.
//!
//! Nor does any go back where that was [in vain](Repeats) the last time: the program took it again before the purge delay was
//! over, as one does that grows and drops such tables again and again.
//!
//! When blocks that are not small are freed, and one [decline](Decline) by such blocks is longer than what is left in
//! use, and [`AT_ONCE`], huge pages all of whose memory is free go back at once, and again whenever half as much is in use, so
//! that a program which stands still behind its peak does not keep it; [`AT_ONCE_RATE`] on average. A program that goes on
//! takes them again by a fault each; parts of huge pages would come again as OS pages, and more of them are free before long.
//!
//! When a heap grows, and the free memory of all heaps together is more than a [share](super::relief) of
//! what is in use, twice as much of it goes back as the heap has grown by.
//!
//! When a block of [`LARGE`] bytes or more is freed, the thread that frees it puts back its quick
//! lists, and the pages without blocks are collected. Such a block is mostly the table of a collection
//! whose items were freed just before, in any order: the last of them, kept on lists, each lay in a page
//! of its own, which stood in the way of the next large table.
//!
//! The walk goes in steps, between which others get the lock. A thread that comes by does a few of
//! them, as long as its [visit](super::visit) lasts, and goes on with its own work; the next that comes
//! by does the next. Whoever comes by looks after one other heap in its turn, too, for there may be
//! nobody left who uses that.

use core::ops::Range;

use super::huge::{HUGE, Walked};
use super::runs::Runs;
use super::space::{SPACE, Slot};
use super::visit::Visit;
use super::zero::Zeros;
use crate::os;
use crate::pages::{FreeKind, PageHeap};
use crate::strategy::Strategy;

/// What a heap remembers of the memory that goes back. Invariant: `most` is no less than what the
/// engine has in use.
#[derive(Debug)]
pub(super) struct Purge {
    /// Bytes that may take memory: those in use, and those free that did not go back since they were.
    most: usize,
    /// Bytes that `most` has risen by since that was [asked for](Self::growth).
    growth: usize,
    /// Bytes of free memory given back since the beginning.
    purged: u64,
    stuck: Stuck,
    /// When free memory goes back, if much is free; 0 if not much is. Milliseconds.
    due: u64,
    /// Batches and single blocks until that is looked at again.
    countdown: u32,
    /// Of those, how many there were since the heap last [trimmed](Self::takes_trim).
    untrimmed: u32,
    /// Visits that it was [put off](Self::puts_off) by.
    put_off: u32,
    /// The walk under way, if one is.
    walk: Option<Walk>,
    decline: Decline,
    repeats: Repeats,
    /// Milliseconds; the largest number: never.
    delay: u32,
}

/// What the last walk met of free memory in OS pages that were in use, too. It takes memory, and can go back once the rest of
/// these OS pages is free. It is no part of [`Purge::most`]: else there would be one walk after the other.
#[derive(Debug)]
struct Stuck {
    bytes: usize,
    /// Bytes that the heap had in use then.
    used: usize,
    /// When it is tried again, if a block may have been freed since. Milliseconds.
    again: u64,
    /// Walks one after the other that gave little of it back: each waits twice as long as the one before.
    in_vain: u32,
}

impl Stuck {
    const NONE: Self = Self { bytes: 0, used: 0, again: 0, in_vain: 0 };

    /// The most that the purge delay is doubled.
    const DOUBLED: u32 = 6;

    /// Bytes that have come loose, probably: less than three quarters of what was in use then is so now.
    fn loose(&self, used: usize) -> usize {
        if used < self.used - self.used / 4 { self.bytes } else { 0 }
    }

    /// A walk gave `given` bytes back, and so many it could not.
    fn met(&mut self, bytes: usize, used: usize, given: usize, delay: u32) {
        let is_in_vain = given < bytes / 8;
        let in_vain = if is_in_vain { (self.in_vain + 1).min(Self::DOUBLED) } else { 0 };
        let again = os::now() + (u64::from(delay) << in_vain);
        *self = Self { bytes, used, again, in_vain };
    }
}

/// A walk through the heap that gives free memory back.
#[derive(Debug)]
struct Walk {
    /// The address up to which it has been.
    swept: usize,
    /// Bytes of `most` that were free when it began.
    free: usize,
    /// Bytes of the OS pages it met that were free as a whole; of those, bytes that it gave back.
    met: usize,
    given: usize,
    /// Bytes of `most` that were stuck when it began.
    stuck: usize,
    /// What it met of the huge page where it is.
    huge: Walked,
    /// Whether it goes on to its end, whoever comes by; else a step is taken as memory is
    /// wanted.
    whole: bool,
    /// Whether it left out what is no huge page.
    leaves: bool,
}

/// What goes back of free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// All OS pages.
    OsPages,
    /// Huge pages all of whose memory is free.
    HugePages,
}

impl Parts {
    /// The bytes of one.
    fn unit(self) -> usize {
        match self {
            Self::OsPages => os::page_size(),
            Self::HugePages => HUGE.max(os::page_size()),
        }
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Nothing,
    /// Memory is to go back later.
    Due,
    /// A walk through all of the heap is to begin.
    Begins,
    /// One goes on.
    GoesOn,
    /// What was to go back at once [did not](Purge::owes).
    Owes,
}

/// Free memory that is not worth returning, bytes.
const SURPLUS: usize = 1 << 20;

/// The least free block, and the least request, that large blocks are returned for, bytes.
pub(super) const LARGE: usize = 1 << 20;

/// Bytes of larger blocks that are freed in a decline before memory goes back at once.
const AT_ONCE: usize = 64 << 20;

/// Bytes for each millisecond that go back so, on average: a thirtieth, or so, of what the system can
/// supply again.
const AT_ONCE_RATE: u64 = 64 << 10;

/// Batches between two looks at the clock.
const LOOK: u32 = 16;

/// Batches after which it is worth while to put back what a thread keeps: that costs it a few dozen.
const TRIM: u32 = 128;

/// What a purge does under the lock at one time: blocks and pages it meets, bytes of free memory it
/// asks the system about and gives back, or one huge page. To look through a page of the smallest blocks takes 10 µs.
const STEP_BLOCKS: usize = 16;
const STEP_BYTES: usize = 256 << 10;

/// Visits by which a purge is put off at most while threads' lists are emptied.
const PUT_OFF: u32 = 64;

/// Steps that are enough for `bytes` where large blocks are free, and bounded by them where what
/// is free lies scattered.
pub(super) fn steps_for(bytes: usize) -> usize {
    4 + 8 * bytes / STEP_BYTES
}

impl Purge {
    pub(super) const fn new(delay: u32) -> Self {
        Self {
            most: 0,
            growth: 0,
            purged: 0,
            stuck: Stuck::NONE,
            due: 0,
            countdown: LOOK,
            untrimmed: 0,
            put_off: 0,
            walk: None,
            decline: Decline::NONE,
            repeats: Repeats::NONE,
            delay,
        }
    }

    /// Bytes of free memory given back to the system since the beginning.
    pub(super) fn purged(&self) -> u64 {
        self.purged
    }

    /// Bytes that may take memory, without those that are probably stuck.
    pub(super) fn most(&self, used: usize) -> usize {
        let stuck = self.walk.as_ref().map_or(0, |walk| walk.stuck);
        self.most.saturating_sub(stuck).max(used)
    }

    /// Notes what is in use.
    #[inline]
    pub(super) fn grown(&mut self, engine: &PageHeap<Slot>) {
        let used = engine.usage().block;
        if used > self.most {
            self.growth += used - self.most;
            self.most = used;
        }
        self.decline.note(used);
    }

    /// Bytes that the heap has grown by since that was last told, if they are enough to tell.
    #[inline]
    pub(super) fn growth(&mut self) -> Option<usize> {
        (self.growth >= LARGE).then(|| core::mem::take(&mut self.growth))
    }

    /// Notes that bytes went back.
    fn went_back(&mut self, engine: &PageHeap<Slot>, bytes: usize) {
        self.purged += bytes as u64;
        let usage = engine.usage();
        let free = self.most - usage.block;
        self.most -= bytes.min(free);
        // Where more took memory than was known, anything free may.
        let left = self.stuck.bytes.checked_sub(bytes.saturating_sub(free));
        self.stuck.bytes = left.unwrap_or(usage.held - usage.block);
    }

    /// Notes what is in use; whether it is time to [look](Self::look).
    #[inline]
    pub(super) fn tick(&mut self, engine: &PageHeap<Slot>) -> bool {
        self.grown(engine);
        self.untrimmed = self.untrimmed.saturating_add(1);
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = LOOK;
        }
        self.countdown == LOOK
    }

    /// Whether enough has happened that what threads keep may hold many pages; if so, it is to be
    /// put back now.
    pub(super) fn takes_trim(&mut self) -> bool {
        let takes = self.untrimmed >= TRIM;
        if takes {
            self.untrimmed = 0;
        }
        takes
    }

    /// After `bytes` of larger blocks were freed: how many bytes of free memory go back at once, if there are huge pages
    /// among them.
    pub(super) fn freed(&mut self, engine: &PageHeap<Slot>, bytes: usize) -> usize {
        let used = engine.usage().block;
        let goes_back =
            self.delay != u32::MAX && self.decline.freed(used, bytes, self.purged, self.delay);
        if goes_back { self.at_once(used) } else { 0 }
    }

    /// Bytes that go back at once with so many in use: all that may take memory, but no more than twice what was freed in the
    /// decline, less what went back since. Small blocks may have been freed, too, which are no matter of it.
    fn at_once(&self, used: usize) -> usize {
        (self.most - used).min(self.decline.left(self.purged))
    }

    /// Not all that was to go [back at once](Self::freed) did: the rest does when somebody comes by.
    pub(super) fn owes(&mut self) {
        self.decline.owes = true;
        self.countdown = 1;
    }

    /// As [`freed`](Self::freed), of what is owed, once.
    pub(super) fn pays(&mut self, engine: &PageHeap<Slot>) -> usize {
        let owes = core::mem::take(&mut self.decline.owes);
        if owes { self.at_once(engine.usage().block) } else { 0 }
    }

    /// Whether a walk that is to begin may be put off to the next visit.
    pub(super) fn puts_off(&mut self) -> bool {
        self.countdown = 1;
        self.put_off += 1;
        self.put_off < PUT_OFF
    }

    /// Whether a walk is under way that goes on now, or [begins](Self::begin) now.
    pub(super) fn look(&mut self, engine: &PageHeap<Slot>) -> Look {
        if self.is_under_way() {
            self.countdown = 1;
            return if self.goes_on() { Look::GoesOn } else { Look::Owes };
        }
        let used = engine.usage().block;
        let least = SURPLUS.max(self.most / 8);
        let is_free = self.most - used + self.stuck.loose(used) >= least;
        // Any block freed since may have held what is stuck; so may those freed while a walk gave much back.
        let is_freed = self.most > used || self.stuck.in_vain == 0;
        let is_loose = self.stuck.bytes >= least && is_freed;
        if !(is_free || is_loose) || self.delay == u32::MAX {
            self.due = 0;
            return Look::Nothing;
        }
        let now = os::now();
        let due = now + u64::from(self.delay);
        let before = if self.due == 0 { due } else { self.due };
        self.due = if is_free { before.min(due) } else { before.max(self.stuck.again) };
        if now >= self.due { Look::Begins } else { Look::Due }
    }

    /// Whether memory is going back: whoever comes by does some of it.
    pub(super) fn is_under_way(&self) -> bool {
        self.goes_on() || self.decline.owes
    }

    /// Whether a walk is under way to its end.
    pub(super) fn goes_on(&self) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.whole)
    }

    /// Milliseconds until there is something to do; `None` if nothing is to be done as it is.
    pub(super) fn next(&self) -> Option<u64> {
        if self.is_under_way() {
            return Some(0);
        }
        (self.due > 0).then(|| self.due.saturating_sub(os::now()))
    }

    /// Begins a purge of all there is, from the heap's beginning.
    pub(super) fn begin(&mut self, engine: &mut PageHeap<Slot>) {
        self.begin_walk(engine, true);
        (self.due, self.put_off, self.countdown) = (0, 0, 1);
    }

    fn begin_walk(&mut self, engine: &mut PageHeap<Slot>, whole: bool) {
        engine.walk_free_again();
        let stuck = core::mem::take(&mut self.stuck.bytes);
        self.most += stuck;
        let free = self.most - engine.usage().block;
        let (huge, leaves) = (Walked::NOTHING, false);
        self.walk = Some(Walk { swept: 0, free, met: 0, given: 0, stuck, huge, whole, leaves });
    }

    /// A step of a walk that gives back some of the free memory: the one under way, or one that begins
    /// here; returns the bytes, and whether there is more.
    pub(super) fn some(
        &mut self,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
        parts: Parts,
    ) -> (usize, bool) {
        if self.delay == u32::MAX {
            return (0, false);
        }
        if self.walk.is_none() {
            self.begin_walk(engine, false);
        }
        let before = self.purged;
        let more = self.step_by(parts, engine, zeros, visit);
        ((self.purged - before) as usize, more)
    }

    /// A step of the walk under way, which ends with the visit; whether there are more.
    #[cold]
    pub(super) fn step(
        &mut self,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> bool {
        self.step_by(Parts::OsPages, engine, zeros, visit)
    }

    /// As [`step`](Self::step), which gives back only these parts, unless the walk goes on to its end.
    fn step_by(
        &mut self,
        parts: Parts,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        let parts = if walk.whole { Parts::OsPages } else { parts };
        walk.leaves |= parts != Parts::OsPages;
        let (page, unit) = (os::page_size(), parts.unit());
        let mut left = STEP_BYTES;
        let mut runs = Runs::new();
        let more = engine.walk_free(page, STEP_BLOCKS, &mut |source, free, kind| {
            let begin = free.start.next_multiple_of(unit).max(walk.swept).next_multiple_of(page);
            let end = free.end & !(unit - 1);
            let mut start = begin;
            if start < end && kind == FreeKind::Block {
                // What went back and was not used since need not be asked about.
                start = zeros.skip(start..end);
                walk.swept = start;
                walk.met += start.min(end) - begin;
                let gone = pages(begin..start.min(end));
                source.huge().found_free(&mut walk.huge, Some((gone, 0)));
            }
            if start < end {
                let stop = match source.huge().may_be_huge(start) {
                    true => reach(start..end, left),
                    false => end.min(start + left),
                };
                // SAFETY: the memory is free, without bookkeeping, and the lock is held until the step ends.
                let written = unsafe { runs.find(start, stop, kind, zeros) };
                walk.met += stop - start;
                source.huge().found_free(&mut walk.huge, Some((pages(start..stop), written)));
                left = if stop < end { 0 } else { left.saturating_sub(stop - start) };
                walk.swept = stop;
                return left > 0 && !visit.is_over();
            }
            true
        });
        // SAFETY: as above; nothing was allocated since.
        let purged = unsafe { runs.give_back(zeros) };
        walk.given += purged;
        if !more {
            engine.source().huge().found_free(&mut walk.huge, None);
        }
        let Walk { free, met, given, leaves, .. } = *walk;
        self.went_back(engine, purged);
        if !more {
            self.walk = None;
            if leaves {
                return false;
            }
            // Memory that was free all the time and did not go back took none, or is stuck; as is what came with a huge
            // page and was never used, so that there may be more of it than was free.
            let usage = engine.usage();
            let rest = free.saturating_sub(given);
            self.most = self.most.saturating_sub(rest).max(usage.block);
            let scattered = (usage.held - usage.block).saturating_sub(met);
            self.stuck.met(scattered, usage.block, given, self.delay);
        }
        more
    }

    /// Returns about `wanted` bytes of large free blocks: the heap has grown by as many, or as many
    /// were mapped beside it. `false`, and none does, if that was in vain the last time.
    #[cold]
    pub(super) fn large(
        &mut self,
        engine: &PageHeap<Slot>,
        zeros: &mut Zeros,
        wanted: usize,
    ) -> bool {
        /// Bytes looked at, at most, for each byte wanted: many blocks may have gone back before.
        const LOOKED_AT: usize = 8;
        if self.delay == u32::MAX || self.repeats.is_in_vain(wanted) {
            return false;
        }
        let (mut purged, mut left) = (0, wanted.saturating_mul(LOOKED_AT));
        engine.for_each_large_free(LARGE, &mut |free| {
            if purged < wanted && left > 0 {
                let (start, end) = (free.start + TAGS, free.end().saturating_sub(TAGS));
                let mut runs = Runs::new();
                // SAFETY: the memory is free, without the bookkeeping at its ends, and the lock is held.
                purged += unsafe {
                    runs.find(start, end, FreeKind::Block, zeros);
                    runs.give_back(zeros)
                };
                left = left.saturating_sub(free.len);
            }
        });
        self.went_back(engine, purged);
        if purged > 0 {
            self.went_back_for(wanted);
        }
        true
    }

    /// Notes that memory went back as the heap, or the process, grew by so many bytes.
    pub(super) fn went_back_for(&mut self, wanted: usize) {
        self.repeats.went_back(wanted, os::now());
    }

    /// A block of [`LARGE`] bytes or more was allocated in memory that had gone back.
    #[cold]
    pub(super) fn taken_again(&mut self) {
        self.repeats.taken_again(os::now(), self.delay);
    }
}

/// What came of the large free blocks that went back as the heap grew, by the doubling of the bytes it grew by.
#[derive(Debug)]
struct Repeats {
    /// How often the next growth by so much gives nothing back.
    in_vain: [u8; usize::BITS as usize],
    /// A bit for each doubling for which some went back and was not taken again so far, and when the last did. Milliseconds.
    gone: usize,
    when: u64,
}

impl Repeats {
    const NONE: Self = Self { in_vain: [0; usize::BITS as usize], gone: 0, when: 0 };

    /// Growths after which it is tried again.
    const TRIED: u8 = 16;

    /// Whether memory that goes back now will soon be taken again, as far as is known.
    fn is_in_vain(&mut self, bytes: usize) -> bool {
        let left = &mut self.in_vain[bytes.max(1).ilog2() as usize];
        let is_in_vain = *left > 0;
        *left = left.saturating_sub(1);
        is_in_vain
    }

    fn went_back(&mut self, bytes: usize, now: u64) {
        self.gone |= 1 << bytes.max(1).ilog2();
        self.when = now;
    }

    /// What went back is taken again: for which growths that was in vain.
    fn taken_again(&mut self, now: u64, delay: u32) {
        let is_soon = now.saturating_sub(self.when) <= delay.into();
        let mut gone = core::mem::take(&mut self.gone);
        while is_soon && gone > 0 {
            self.in_vain[gone.trailing_zeros() as usize] = Self::TRIED;
            gone &= gone - 1;
        }
    }
}

/// A decline in what is in use, in which memory goes back at once. It ends when a mebibyte more is in use
/// than at its lowest. The next in which memory goes back begins after the purge delay, or later if much
/// went back: a program may free and allocate in turns.
#[derive(Debug)]
struct Decline {
    /// The fewest bytes in use since it began.
    low: usize,
    /// Bytes that fewer are in use since then for larger blocks that were freed: one that is soon replaced by its like is no
    /// decline.
    freed: usize,
    /// Memory goes back once fewer bytes are in use than this, half of what were when it last did.
    next: usize,
    /// Whether memory goes back in it.
    goes_back: bool,
    /// Whether some was to go back, and did not so far.
    owes: bool,
    /// When memory last went back in a decline, milliseconds, 0: it never did; and all that had [gone back](Purge::purged)
    /// when that decline began to give some.
    at: u64,
    before: u64,
}

impl Decline {
    const NONE: Self = Self {
        low: 0,
        freed: 0,
        next: usize::MAX,
        goes_back: false,
        owes: false,
        at: 0,
        before: 0,
    };

    /// Notes what is in use.
    #[inline]
    fn note(&mut self, used: usize) {
        if used > self.low + LARGE {
            let &mut Self { at, before, .. } = self;
            *self = Self { low: used, at, before, ..Self::NONE };
        }
        self.low = self.low.min(used);
    }

    /// Larger blocks were freed, after which so many bytes are in use, and so many went back since the beginning: whether
    /// memory goes back.
    fn freed(&mut self, used: usize, bytes: usize, purged: u64, delay: u32) -> bool {
        let fallen = self.low.saturating_sub(used).min(bytes);
        self.low -= fallen;
        self.freed += fallen;
        if used >= self.next || self.freed < AT_ONCE.max(used) {
            return false;
        }
        let now = os::now();
        if !self.goes_back {
            if now < self.again(purged, delay) {
                self.next = used.saturating_sub(LARGE);
                return false;
            }
            (self.goes_back, self.before) = (true, purged);
        }
        (self.next, self.at) = (used / 2, now);
        true
    }

    /// Bytes that may go back in it still, if so much went back since the beginning.
    fn left(&self, purged: u64) -> usize {
        (2 * self.freed).saturating_sub((purged - self.before) as usize)
    }

    /// When the next may give memory back, if so much went back since the beginning. Milliseconds.
    fn again(&self, purged: u64, delay: u32) -> u64 {
        let wait = ((purged - self.before) / AT_ONCE_RATE).max(delay.into());
        if self.at > 0 { self.at + wait } else { 0 }
    }
}

/// Where a step ends that goes through this memory and may go through `left` bytes. A huge page goes back as a whole:
/// otherwise it would be split, and come again as small ones.
fn reach(memory: Range<usize>, left: usize) -> usize {
    let stop = memory.end.min(memory.start + left);
    let page = stop & !(HUGE - 1);
    if stop < memory.end && page >= memory.start && page + HUGE <= memory.end {
        return if page > memory.start { page } else { page + HUGE };
    }
    stop
}

/// Bytes at both ends of a large free block that may hold links and sizes.
const TAGS: usize = 16;

/// OS pages of the heaps.
fn pages(addresses: Range<usize>) -> Range<*mut u8> {
    let base = SPACE.slot(0);
    base.with_addr(addresses.start)..base.with_addr(addresses.end)
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
