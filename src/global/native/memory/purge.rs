//! When a heap's free memory goes back to the system, and how much of it.
//!
//! | event | what goes back |
//! |---|---|
//! | the purge delay has passed since much memory became free | all free OS pages, by a [walk] through the whole heap |
//! | the heap grows for a large block, or one is mapped beside it | as many bytes of large free blocks |
//! | larger blocks were freed in one [decline] | free huge pages, at once |
//! | the heap grows, and all heaps have much free memory | twice the growth: see [`relief`](crate::global::native::heaps::relief) |
//!
//! **After the delay.** A heap remembers the most bytes in use since it last gave memory back. The
//! delay begins when an eighth less than that, and [`SURPLUS`] less, is in use, and the walk after
//! it gives back every free OS page that is resident, also within pages that are partly in use. In
//! a steady state that never happens, so nothing is faulted in again.
//!
//! **On growth.** When the heap grows for a block of [`LARGE`] bytes, none of its large free blocks
//! could hold that block. The tables that a growing collection leaves behind are too small for the
//! next one, and would stay resident beside it. A heap that does not grow gives nothing back here,
//! and no more is faulted in again than the heap grew by. Nothing goes back if the program used the
//! memory [again](repeats) within the purge delay the last time.
//!
//! **In a decline** huge pages go back whole. A program that goes on allocating takes each again by
//! one fault, where parts of it would come again as OS pages. [`decline`] says when.
//!
//! When a block of [`LARGE`] bytes is freed, the freeing thread also flushes its quick lists and
//! the heap collects its empty pages ([`start_trim_if_due`](Purge::start_trim_if_due)). Such a
//! block is often the table of a collection whose items were just freed in random order: those left
//! on quick lists would each keep a page, and the pages would keep the next large table from
//! fitting.
//!
//! Whole [huge pages](huge_pages) that are free are found by the engine's lists of free blocks. For
//! all other free memory, a walk passes the blocks in use.
//!
//! A walk goes in steps, and lets other threads have the lock between them. A thread on its slow
//! path does a few steps, within its [visit](crate::global::native::base::visit), and the next
//! thread continues. It does so for one other heap, too, since a heap may have no users left.

mod decline;
mod huge_pages;
mod repeats;
mod stuck;
mod walk;

use super::runs::ResidentRuns;
use super::slot::Slot;
use super::zero::Zeros;
use crate::global::native::base::visit::Visit;
use crate::os;
use crate::pages::{FreeKind, PageHeap};
use crate::strategy::Strategy;

pub(in crate::global::native) use self::decline::Decline;
use self::repeats::Repeats;
use self::stuck::Stuck;
pub(in crate::global::native) use self::walk::Granularity;
use self::walk::{Reach, STEP_BYTES, Walk};

/// The state of a heap's purges. Invariant: `most_resident` is at least the bytes that the engine
/// has in use.
#[derive(Debug)]
pub(in crate::global::native) struct Purge {
    /// Bytes that may be resident: those in use, and those free that have not gone back since they
    /// were freed.
    most_resident: usize,
    /// Bytes that `most_resident` has risen by and that [`take_growth`](Self::take_growth) has not
    /// returned yet.
    growth: usize,
    /// Bytes that the heap held when its usage was last recorded; `usize::MAX`: it was not yet.
    held: usize,
    /// Bytes given back since the heap began.
    purged: u64,
    /// Free memory that the last walk could not give back.
    stuck: Stuck,
    /// When free memory goes back, milliseconds; 0 if too little is free.
    due: u64,
    /// Uses of the heap until it next looks at the clock.
    countdown: u32,
    /// Uses of the heap since it last [trimmed](Self::start_trim_if_due).
    untrimmed: u32,
    /// Visits that have put off the purge which is due.
    put_off: u32,
    /// The walk under way.
    walk: Option<Walk>,
    /// The decline in the bytes in use, in which memory may go back at once.
    decline: Decline,
    /// Which purges on growth were in vain.
    repeats: Repeats,
    /// The purge delay, milliseconds; `u32::MAX`: nothing ever goes back.
    delay: u32,
}

/// What a thread that looks after a heap has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Plan {
    Nothing,
    /// Memory goes back later.
    Due,
    /// A walk through the whole heap begins now.
    Begin,
    /// One is under way.
    Continue,
    /// The last free should have given [more back at once](Purge::note_remainder) than its visit
    /// had time for.
    Remainder,
}

/// Less free memory than this is not worth giving back, bytes.
const SURPLUS: usize = 1 << 20;

/// Requests of this size give large free blocks back when the heap grows for them, bytes; free
/// blocks of this size are large.
pub(in crate::global::native) const LARGE: usize = 1 << 20;

/// Uses of the heap between two looks at the clock.
const LOOK: u32 = 16;

/// Uses of the heap between two trims. A trim costs a thread as much as a few dozen uses.
const TRIM: u32 = 128;

/// Visits that may put off a purge while threads' lists are emptied.
const PUT_OFF: u32 = 64;

/// Returns the steps that give `bytes` back where large blocks are free. Where free memory is
/// scattered, they bound the work.
pub(in crate::global::native) fn steps_for(bytes: usize) -> usize {
    4 + bytes / (STEP_BYTES / 8)
}

impl Purge {
    /// Makes the state of a heap without memory, for this purge delay in milliseconds.
    pub(in crate::global::native) const fn new(delay: u32) -> Self {
        Self {
            most_resident: 0,
            growth: 0,
            held: usize::MAX,
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

    /// Returns the bytes given back since the heap began.
    pub(in crate::global::native) fn purged(&self) -> u64 {
        self.purged
    }

    /// Returns the bytes that may be resident and can go back or are in use: without the stuck
    /// ones.
    pub(in crate::global::native) fn most_resident(&self, used: usize) -> usize {
        let stuck = self.walk.as_ref().map_or(0, |walk| walk.stuck);
        self.most_resident.saturating_sub(stuck).max(used)
    }

    /// Records the bytes in use, and those that the heap grew by.
    #[inline]
    pub(in crate::global::native) fn note_usage(&mut self, engine: &PageHeap<Slot>) {
        let usage = engine.usage();
        let (used, held) = (usage.block, usage.held);
        // New memory is resident beside the free memory. That did not serve, so it stays free:
        // mostly it lies in pages of small blocks, which serve only one size.
        let new = held.saturating_sub(self.held);
        self.held = held;
        let most = (self.most_resident + new).max(used);
        self.growth += most - self.most_resident;
        self.most_resident = most;
        self.decline.note(used);
    }

    /// Returns the bytes that the heap has grown by since the last time that this was `Some`, once
    /// they are [`LARGE`].
    #[inline]
    pub(in crate::global::native) fn take_growth(&mut self) -> Option<usize> {
        (self.growth >= LARGE).then(|| core::mem::take(&mut self.growth))
    }

    /// Records that `bytes` went back.
    fn note_given_back(&mut self, engine: &PageHeap<Slot>, bytes: usize) {
        self.purged += bytes as u64;
        if let Some(walk) = &mut self.walk {
            walk.given += bytes;
        }
        let usage = engine.usage();
        let free = self.most_resident - usage.block;
        self.most_resident -= bytes.min(free);
        // If more was resident than known, all free memory may be.
        let left = self.stuck.bytes.checked_sub(bytes.saturating_sub(free));
        self.stuck.bytes = left.unwrap_or(usage.held - usage.block);
    }

    /// Counts a use of the heap, and returns whether it is time to [plan](Self::plan).
    #[inline]
    pub(in crate::global::native) fn tick(&mut self, engine: &PageHeap<Slot>) -> bool {
        self.note_usage(engine);
        self.untrimmed = self.untrimmed.saturating_add(1);
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = LOOK;
        }
        self.countdown == LOOK
    }

    /// Returns whether the calling thread should flush its lists and have the heap collect its
    /// empty pages: once in [`TRIM`] uses.
    pub(in crate::global::native) fn start_trim_if_due(&mut self) -> bool {
        let takes = self.untrimmed >= TRIM;
        if takes {
            self.untrimmed = 0;
        }
        takes
    }

    /// Records that larger blocks of `bytes` were freed, and returns the bytes of free memory that
    /// go back at once, as far as they are huge pages.
    pub(in crate::global::native) fn note_freed(
        &mut self,
        engine: &PageHeap<Slot>,
        bytes: usize,
    ) -> usize {
        let used = engine.usage().block;
        let goes_back =
            self.delay != u32::MAX && self.decline.note_freed(used, bytes, self.purged, self.delay);
        if goes_back { self.at_once(used) } else { 0 }
    }

    /// Returns the bytes that go back at once: all that may be resident, up to what is
    /// [left](Decline::left) of the decline, which small blocks freed meanwhile do not add to.
    fn at_once(&self, used: usize) -> usize {
        (self.most_resident - used).min(self.decline.left(self.purged))
    }

    /// Records that a visit was too short for the memory that goes back [at
    /// once](Self::note_freed): the next visits give back the rest.
    pub(in crate::global::native) fn note_remainder(&mut self) {
        self.decline.has_remainder = true;
        self.countdown = 1;
    }

    /// Returns the bytes that such a visit left, and records that none are left.
    pub(in crate::global::native) fn take_remainder(&mut self, engine: &PageHeap<Slot>) -> usize {
        let has_remainder = core::mem::take(&mut self.decline.has_remainder);
        if has_remainder { self.at_once(engine.usage().block) } else { 0 }
    }

    /// Returns whether a purge that is due may wait for the next visit; true [`PUT_OFF`] − 1 times.
    pub(in crate::global::native) fn try_put_off(&mut self) -> bool {
        self.countdown = 1;
        self.put_off += 1;
        self.put_off < PUT_OFF
    }

    /// Returns what a visit has to do; [`Plan::Begin`] asks it to call [`begin`](Self::begin).
    pub(in crate::global::native) fn plan(&mut self, engine: &PageHeap<Slot>) -> Plan {
        if self.is_under_way() {
            self.countdown = 1;
            return if self.is_walk_under_way() { Plan::Continue } else { Plan::Remainder };
        }
        let used = engine.usage().block;
        let least = SURPLUS.max(self.most_resident / 8);
        let free = self.most_resident(used) - used;
        let is_free = free + self.stuck.loose_bytes(used) >= least;
        // Any block freed since may have loosened stuck memory, and so may one freed during a walk
        // that gave much back.
        let is_freed = self.most_resident > used || self.stuck.in_vain == 0;
        let is_loose = self.stuck.bytes >= least && is_freed;
        if !(is_free || is_loose) || self.delay == u32::MAX {
            (self.due, self.put_off) = (0, 0);
            return Plan::Nothing;
        }
        let now = os::now();
        let due = now + u64::from(self.delay);
        let before = if self.due == 0 { due } else { self.due };
        self.due = if is_free { before.min(due) } else { before.max(self.stuck.next_try_at) };
        if now >= self.due { Plan::Begin } else { Plan::Due }
    }

    /// Returns whether memory is going back, so that each visit continues it.
    pub(in crate::global::native) fn is_under_way(&self) -> bool {
        self.is_walk_under_way() || self.decline.has_remainder
    }

    /// Returns whether a walk through the whole heap is under way.
    fn is_walk_under_way(&self) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.reach == Reach::ToTheEnd)
    }

    /// Returns the milliseconds until a visit has something to do; `None` if it has nothing to do
    /// while no block is allocated or freed.
    pub(in crate::global::native) fn due_in(&self) -> Option<u64> {
        if self.is_under_way() {
            return Some(0);
        }
        (self.due > 0).then(|| self.due.saturating_sub(os::now()))
    }

    /// Begins a walk through the whole heap.
    pub(in crate::global::native) fn begin(&mut self, engine: &mut PageHeap<Slot>) {
        self.begin_walk(engine, Reach::ToTheEnd);
        (self.due, self.put_off, self.countdown) = (0, 0, 1);
    }

    /// Begins a walk, in which stuck memory counts as resident again.
    fn begin_walk(&mut self, engine: &mut PageHeap<Slot>, reach: Reach) {
        engine.walk_free_again();
        let stuck = core::mem::take(&mut self.stuck.bytes);
        self.most_resident += stuck;
        let free = self.most_resident - engine.usage().block;
        self.walk = Some(Walk::new(free, stuck, reach));
    }

    /// Does a step of the walk under way, or of a new one that goes on only as callers want more.
    /// Gives back pieces of this granularity. Returns the bytes given back, and whether there is
    /// more.
    pub(in crate::global::native) fn step_partial(
        &mut self,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
        granularity: Granularity,
    ) -> (usize, bool) {
        if self.delay == u32::MAX {
            return (0, false);
        }
        if self.walk.is_none() {
            self.begin_walk(engine, Reach::AsWanted);
        }
        let before = self.purged;
        let more = self.step_by(granularity, engine, zeros, visit);
        ((self.purged - before) as usize, more)
    }

    /// Does a step of the walk under way, which ends early when the visit is over; returns whether
    /// there are more.
    #[cold]
    pub(in crate::global::native) fn step(
        &mut self,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> bool {
        self.step_by(Granularity::OsPages, engine, zeros, visit)
    }

    /// As [`step`](Self::step), but gives back only pieces of this granularity, unless the walk
    /// goes to the heap's end.
    fn step_by(
        &mut self,
        granularity: Granularity,
        engine: &mut PageHeap<Slot>,
        zeros: &mut Zeros,
        visit: &mut Visit,
    ) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        let (purged, more) = walk.step(granularity, engine, zeros, visit);
        self.note_given_back(engine, purged);
        if more {
            return true;
        }
        let Some(Walk { free, met, given, stuck, has_skipped, .. }) = self.walk.take() else {
            return false;
        };
        let usage = engine.usage();
        if has_skipped {
            // It did not learn what is stuck.
            let stuck = stuck.min(self.most_resident - usage.block);
            self.most_resident -= stuck;
            self.stuck.bytes = self.stuck.bytes.max(stuck);
        } else {
            // Memory that was free all the time and did not go back was not resident, or is stuck.
            // So is the untouched part of a huge page: there may be more of it than was free.
            let rest = free.saturating_sub(given);
            self.most_resident = self.most_resident.saturating_sub(rest).max(usage.block);
            let scattered = (usage.held - usage.block).saturating_sub(met);
            self.stuck.note_walk(scattered, usage.block, given, self.delay);
        }
        false
    }

    /// Gives back about `wanted` bytes of large free blocks, since the heap has grown by as many,
    /// or as many were mapped beside it. Returns `false`, and gives nothing back, if that was in
    /// vain the last time.
    #[cold]
    pub(in crate::global::native) fn give_back_large(
        &mut self,
        engine: &PageHeap<Slot>,
        zeros: &mut Zeros,
        wanted: usize,
    ) -> bool {
        /// Bytes visited at most for each byte wanted: much of them may have gone back before.
        const VISITED: usize = 8;
        if self.delay == u32::MAX || self.repeats.skip_if_in_vain(wanted) {
            return false;
        }
        let (mut purged, mut left) = (0, wanted.saturating_mul(VISITED));
        for free in engine.large_free_blocks(LARGE) {
            if purged >= wanted || left == 0 {
                break;
            }
            let (start, end) = (free.start + TAGS, free.end().saturating_sub(TAGS));
            let mut runs = ResidentRuns::new();
            // SAFETY: the memory is free, the bookkeeping at its ends is left out, and the caller
            // holds the heap's lock.
            purged += unsafe {
                runs.find(start, end, FreeKind::Block, zeros);
                runs.give_back(zeros)
            };
            left = left.saturating_sub(free.len);
        }
        self.note_given_back(engine, purged);
        if purged != 0 {
            self.note_given_back_for(wanted);
        }
        true
    }

    /// Records that memory went back as the heap, or the process, grew by `wanted` bytes.
    pub(in crate::global::native) fn note_given_back_for(&mut self, wanted: usize) {
        self.repeats.note_given_back(wanted, os::now());
    }

    /// Records that a block of [`LARGE`] bytes was allocated in memory that had gone back.
    #[cold]
    pub(in crate::global::native) fn note_reused(&mut self) {
        self.repeats.note_reused(os::now(), self.delay);
    }
}

/// Bytes at each end of a large free block that may hold links and sizes.
const TAGS: usize = 16;

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
