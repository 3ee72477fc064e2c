//! Runs of freed pages: adjacent ones are joined, and blocks begin on a huge page of one.

use core::{mem, ptr};

use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::refused;
use crate::os::{self, OsPageRun};

/// Bytes of a run from which on a longer block starts with it.
const PART: usize = HUGE;

/// The least bytes of a run: moving fewer is no cheaper than touching new memory.
pub(in crate::global::native::heaps) const LEAST: usize = 64 << 10;

/// The most runs that are kept.
pub(super) const RUNS: usize = 128;

/// The most runs that go back after one use of the lock.
pub(super) const GONE: usize = 4;

/// Contiguous OS pages that are mapped, unused, and not known to be zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptRun {
    /// Where the pages start.
    pub(super) start: *mut u8,
    /// Bytes; 0 if the entry is free.
    pub(super) len: usize,
    /// When the run was freed, in milliseconds.
    pub(super) since: u64,
    /// Whether what the program set on the pages was [undone](os::restore).
    pub(super) is_restored: bool,
}

/// A run that was taken out of the runs, since it has to be [restored](os::restore) first, which is
/// not done under the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unrestored(pub(super) KeptRun);

impl KeptRun {
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

/// An entry without a run.
pub(super) const NONE: KeptRun =
    KeptRun { start: ptr::null_mut(), len: 0, since: 0, is_restored: false };

/// The runs. Invariants: no two of them are adjacent; their pages are nobody else's.
#[derive(Debug)]
pub(super) struct KeptRuns {
    /// The runs, in any order, and free entries.
    pub(super) entries: [KeptRun; RUNS],
    /// Runs that go back once the lock is let go: another thread may be waiting for it.
    gone: [KeptRun; GONE],
}

impl KeptRuns {
    /// Makes a store without runs.
    pub(super) const fn new() -> Self {
        Self { entries: [NONE; RUNS], gone: [NONE; GONE] }
    }

    /// Yields the runs that are kept.
    pub(super) fn used(&self) -> impl Iterator<Item = &KeptRun> {
        self.entries.iter().filter(|run| run.len != 0)
    }

    /// Returns the bytes of all kept runs.
    pub(super) fn bytes(&self) -> usize {
        self.used().map(|run| run.len).sum()
    }

    /// Adds a run, joined with adjacent runs. Where there is no room, the shortest goes back;
    /// returns whether that is another.
    pub(super) fn put(&mut self, run: KeptRun) -> bool {
        let mut run = run;
        for other in self.entries.iter_mut().filter(|other| other.len != 0) {
            let is_below = other.start.wrapping_add(other.len) == run.start;
            if is_below || run.start.wrapping_add(run.len) == other.start {
                let start = if is_below { other.start } else { run.start };
                let is_restored = run.is_restored && other.is_restored;
                run = KeptRun { start, len: run.len + other.len, is_restored, ..run };
                *other = NONE;
            }
        }
        if run.len < LEAST {
            self.give_up(run);
            return true;
        }
        let place =
            self.entries.iter_mut().min_by_key(|other| other.len).filter(|p| p.len < run.len);
        let Some(place) = place else { return false };
        let shortest = mem::replace(place, run);
        self.give_up(shortest);
        true
    }

    /// Gives a run back, after the lock is let go if there is a place for that.
    fn give_up(&mut self, run: KeptRun) {
        match self.gone.iter_mut().find(|other| other.len == 0) {
            Some(place) => *place = run,
            // SAFETY: the pages were mapped, and nothing uses them.
            None => unsafe { refused::release(run.start, run.len) },
        }
    }

    /// Takes `len` bytes for a block that starts on a huge page, an OS page behind the result; from
    /// the longest run, so that the block has room to grow.
    pub(super) fn take(&mut self, len: usize) -> Result<Option<*mut u8>, Unrestored> {
        let page = os::page_size();
        let index = self.longest(|run| run.usable(page) >= len);
        self.if_restored(index, |runs, index| runs.take_from(index, page, len).start)
    }

    /// Takes up to `len` bytes of the longest run, as the first part of such a block.
    pub(super) fn take_part(&mut self, len: usize) -> Result<Option<OsPageRun>, Unrestored> {
        let page = os::page_size();
        let index = self.longest(|run| run.usable(page) >= PART);
        self.if_restored(index, |runs, index| runs.take_from(index, page, len))
    }

    /// Takes up to `len` bytes: whole huge pages of the shortest run that has some, so that few
    /// runs remain. If none has, or less is wanted, takes the end of the shortest run that
    /// suffices, or all of the longest.
    pub(super) fn take_more(&mut self, len: usize) -> Result<Option<OsPageRun>, Unrestored> {
        if len >= HUGE
            && let Some(index) = self.shortest(|run| run.usable(0) >= HUGE)
        {
            return self.if_restored(Some(index), |runs, index| {
                let whole = runs.entries[index].usable(0).min(len) & !(HUGE - 1);
                runs.take_from(index, 0, whole)
            });
        }
        let index = self.shortest(|run| run.len >= len).or_else(|| self.longest(|run| run.len > 0));
        self.if_restored(index, |runs, index| {
            let run = &mut runs.entries[index];
            let part = run.len.min(len);
            run.len -= part;
            OsPageRun { start: run.start.wrapping_add(run.len), len: part }
        })
    }

    /// Takes from a run, if there is one. One that is not restored is taken out instead.
    fn if_restored<R>(
        &mut self,
        index: Option<usize>,
        take: impl FnOnce(&mut Self, usize) -> R,
    ) -> Result<Option<R>, Unrestored> {
        let Some(index) = index else { return Ok(None) };
        if !self.entries[index].is_restored {
            return Err(Unrestored(mem::replace(&mut self.entries[index], NONE)));
        }
        Ok(Some(take(self, index)))
    }

    /// Takes up to `most` bytes of a run, from the first place on that a huge page follows at a
    /// distance of `before` bytes.
    fn take_from(&mut self, index: usize, before: usize, most: usize) -> OsPageRun {
        let run = mem::replace(&mut self.entries[index], NONE);
        let (KeptRun { start, len: whole, .. }, skipped) = (run, run.skipped(before));
        let len = most.min(run.usable(before));
        let taken = start.wrapping_add(skipped);
        for (start, len) in [(start, skipped), (taken.wrapping_add(len), whole - skipped - len)] {
            let run = KeptRun { start, len, ..run };
            if len != 0 && !self.put(run) {
                self.give_up(run);
            }
        }
        OsPageRun { start: taken, len }
    }

    /// Takes the `more` bytes from `end` on, if a run starts there.
    pub(super) fn take_at(&mut self, end: *mut u8, more: usize) -> Result<Option<()>, Unrestored> {
        let index = self.entries.iter().position(|run| run.start == end && run.len >= more);
        self.if_restored(index, |runs, index| {
            let run = &mut runs.entries[index];
            run.len -= more;
            run.start = run.start.wrapping_add(more);
        })
    }

    /// Gives back up to `wanted` bytes of the shortest of `which` runs, and what is left of a huge
    /// page. Returns their number.
    pub(super) fn give_back(&mut self, wanted: usize, which: impl Fn(&KeptRun) -> bool) -> usize {
        let Some(index) = self.shortest(|run| run.len != 0 && which(run)) else { return 0 };
        let run = &mut self.entries[index];
        let len = wanted.checked_next_multiple_of(HUGE).unwrap_or(wanted).min(run.len);
        run.len -= len;
        let gone = KeptRun { start: run.start.wrapping_add(run.len), len, ..*run };
        self.give_up(gone);
        len
    }

    /// Takes out the runs that go back.
    pub(super) fn take_gone(&mut self) -> [KeptRun; GONE] {
        mem::replace(&mut self.gone, [NONE; GONE])
    }

    /// Returns the index of the longest of `which` runs.
    fn longest(&self, which: impl Fn(&KeptRun) -> bool) -> Option<usize> {
        (0..RUNS).filter(|&index| which(&self.entries[index])).max_by_key(|&i| self.entries[i].len)
    }

    /// Returns the index of the shortest of `which` runs.
    fn shortest(&self, which: impl Fn(&KeptRun) -> bool) -> Option<usize> {
        (0..RUNS).filter(|&index| which(&self.entries[index])).min_by_key(|&i| self.entries[i].len)
    }
}
