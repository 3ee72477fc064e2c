//! Collects runs of resident free OS pages, to give them back together.
//!
//! Free memory between blocks in use is many short runs. Each call that gives memory back makes the
//! kernel wait for every CPU that runs another thread of the process, some 5 µs for one OS page or
//! for many. So up to [`MANY`] runs go back by one call, where the system [can do
//! that](os::discards_many); elsewhere each goes back when it is found.

use core::ptr;

use super::space::SPACE;
use super::zero::Zeros;
use crate::os::{self, OsPageRun};
use crate::pages::FreeKind;

/// The most runs that go back by one call.
const MANY: usize = u32::BITS as usize;

/// Runs of one heap that were found and have not gone back.
///
/// Invariant: the first `len` are in free memory in which the engine keeps nothing, as the callers
/// of [`find`](Self::find) guarantee; `len` is less than `room`, which is at most `MANY`.
pub(super) struct ResidentRuns {
    /// The runs, and behind the first `len` anything.
    runs: [OsPageRun; MANY],
    /// One bit per run: whether it is in a free block below the pages.
    in_blocks: u32,
    /// Number of runs.
    len: usize,
    /// Number of runs collected before they go back.
    room: usize,
    /// Bytes that went back so far.
    purged: usize,
}

impl ResidentRuns {
    /// Makes a collection without runs.
    pub(super) fn new() -> Self {
        const NONE: OsPageRun = OsPageRun { start: ptr::null_mut(), len: 0 };
        let room = if os::discards_many() { MANY } else { 1 };
        Self { runs: [NONE; MANY], in_blocks: 0, len: 0, room, purged: 0 }
    }

    /// Collects the resident OS pages between two addresses, and returns their bytes. Whenever
    /// `room` runs are collected, they go back.
    ///
    /// # Safety
    /// The OS pages are in free memory of this kind, in which the engine keeps nothing, of the heap
    /// that `zeros` belongs to. They stay so until the runs have gone back or are dropped: the
    /// caller holds the heap's lock. All runs are of one heap.
    pub(super) unsafe fn find(
        &mut self,
        start: usize,
        end: usize,
        kind: FreeKind,
        zeros: &mut Zeros,
    ) -> usize {
        let page = os::page_size();
        let (start, end) = (start.next_multiple_of(page), end & !(page - 1));
        if start >= end {
            return 0;
        }
        let mut written = 0;
        let in_block = u32::from(kind == FreeKind::Block);
        os::for_each_resident(SPACE.pointer(start), end - start, &mut |start, len| {
            written += len;
            self.runs[self.len] = OsPageRun { start, len };
            self.in_blocks |= in_block << self.len;
            self.len += 1;
            if self.len == self.room {
                // SAFETY: the caller guarantees it for this run, the invariant for the others.
                unsafe { self.give_back(zeros) };
            }
        });
        written
    }

    /// Gives the collected runs back, and returns the bytes that went back since `self` was made.
    /// Runs that the system refuses stay as they are.
    ///
    /// # Safety
    /// The guarantees of [`find`](Self::find) still hold; `zeros` belongs to the same heap.
    pub(super) unsafe fn give_back(&mut self, zeros: &mut Zeros) -> usize {
        let len = core::mem::take(&mut self.len);
        let in_blocks = core::mem::take(&mut self.in_blocks);
        let mut at = 0;
        while at < len {
            let rest = &self.runs[at..len];
            // SAFETY: by the invariant nothing in them is used.
            let gone = if rest.len() > 1 { unsafe { os::discard_all(rest) } } else { 0 };
            // The next was refused, or is the only one. It is tried alone, and those behind it
            // together.
            let next = at + gone;
            for (index, &OsPageRun { start, len }) in (at..).zip(&self.runs[at..len.min(next + 1)])
            {
                // SAFETY: as above.
                if index < next || unsafe { os::discard(start, len) } {
                    if in_blocks >> index & 1 == 1 {
                        zeros.note_given_back(start.addr()..start.addr() + len);
                    }
                    SPACE.discard_states(start, len);
                    self.purged += len;
                }
            }
            at = next + 1;
        }
        self.purged
    }
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests;
