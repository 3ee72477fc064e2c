//! Collects runs of resident free OS pages, and gives them back together.
//!
//! Free memory between blocks in use is many short runs. Each call that gives memory back makes the
//! kernel wait for every CPU that runs another thread of the process, some 5 µs, whether for one OS
//! page or for many. So up to [`MANY`] runs go back by one call, where the system [supports
//! that](os::discards_many). Elsewhere each run goes back when it is found.

use core::ptr;

use super::space::SPACE;
use super::zero::Zeros;
use crate::os::{self, Run};
use crate::pages::FreeKind;

/// The most runs that go back by one call.
const MANY: usize = u32::BITS as usize;

/// Runs of one heap that were found and have not gone back yet.
///
/// Invariant: the first `len` runs are in free memory in which the engine keeps nothing, as the
/// callers of [`find`](Self::find) guarantee; `len` is less than `room`, and `room` is at most
/// `MANY`.
pub(super) struct Runs {
    runs: [Run; MANY],
    /// One bit per run: whether the run is in a free block below the pages.
    in_blocks: u32,
    len: usize,
    /// Number of runs collected before they go back.
    room: usize,
    /// Bytes that went back so far.
    purged: usize,
}

impl Runs {
    pub(super) fn new() -> Self {
        const NONE: Run = Run { start: ptr::null_mut(), len: 0 };
        let room = if os::discards_many() { MANY } else { 1 };
        Self { runs: [NONE; MANY], in_blocks: 0, len: 0, room, purged: 0 }
    }

    /// Collects the resident OS pages between the addresses `start` and `end`. Whenever `room` runs
    /// are collected, they go back. Returns the bytes of the resident pages.
    ///
    /// # Safety
    /// The OS pages are in free memory of this kind, in which the engine keeps nothing, and `zeros`
    /// belongs to the same heap. That stays so until the runs have gone back or are dropped: the
    /// caller holds the heap's lock. All runs of one `Runs` are of one heap.
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
        os::for_each_resident(SPACE.slot(0).with_addr(start), end - start, &mut |start, len| {
            written += len;
            self.runs[self.len] = Run { start, len };
            self.in_blocks |= in_block << self.len;
            self.len += 1;
            if self.len == self.room {
                // SAFETY: the caller guarantees it for this run, and by the invariant it holds for
                // the earlier ones.
                unsafe { self.give_back(zeros) };
            }
        });
        written
    }

    /// Gives the collected runs back. Returns the bytes that went back since `self` was made. Runs
    /// that the system refuses stay as they are.
    ///
    /// # Safety
    /// The guarantees of [`find`](Self::find) still hold, and `zeros` belongs to the same heap.
    pub(super) unsafe fn give_back(&mut self, zeros: &mut Zeros) -> usize {
        let len = core::mem::take(&mut self.len);
        let in_blocks = core::mem::take(&mut self.in_blocks);
        let mut at = 0;
        while at < len {
            let rest = &self.runs[at..len];
            // SAFETY: by the invariant nothing in the runs is used.
            let gone = if rest.len() > 1 { unsafe { os::discard_all(rest) } } else { 0 };
            // The run at `next` was refused, or is the only one. Try it alone, then those behind it
            // together.
            let next = at + gone;
            for (index, &Run { start, len }) in (at..).zip(&self.runs[at..len.min(next + 1)]) {
                // SAFETY: by the invariant nothing in the run is used.
                if index < next || unsafe { os::discard(start, len) } {
                    if in_blocks >> index & 1 == 1 {
                        zeros.went_back(start.addr()..start.addr() + len);
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
