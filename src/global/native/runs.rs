//! Runs of free OS pages that take memory, found one after the other and given back together.
//!
//! Free memory between blocks in use is many short runs. At each call that gives memory back the kernel waits for every CPU
//! that runs another thread of the process, some 5 µs, be it one OS page or many. So up to [`MANY`] runs go back by one call,
//! where the system [does that](os::discards_many); elsewhere each does when it is found.

use core::ptr;

use super::space::SPACE;
use super::zero::Zeros;
use crate::os::{self, Run};
use crate::pages::FreeKind;

/// Runs that go back by one call, at most.
const MANY: usize = u32::BITS as usize;

/// Runs of one heap that were found and did not go back yet. Invariant: the first `len` lie in free memory, in which the engine
/// keeps nothing, as those who [found](Self::find) them promised; `len` is less than `room`, which is `MANY` at most.
pub(super) struct Runs {
    runs: [Run; MANY],
    /// A bit for each: whether it lies in a free block below the pages.
    in_blocks: u32,
    len: usize,
    /// Runs that are found before they go back.
    room: usize,
    /// Bytes that went back.
    purged: usize,
}

impl Runs {
    pub(super) fn new() -> Self {
        const NONE: Run = Run { start: ptr::null_mut(), len: 0 };
        let room = if os::discards_many() { MANY } else { 1 };
        Self { runs: [NONE; MANY], in_blocks: 0, len: 0, room, purged: 0 }
    }

    /// Finds the OS pages between two addresses that take memory, and returns their bytes. Whenever there is no room for more,
    /// those found go back.
    ///
    /// # Safety
    /// The OS pages lie in free memory of this kind, in which the engine keeps nothing, of the heap whose zeros these are, and
    /// stay so until the runs went back, or are dropped: the heap's lock is held so long. All runs are of one heap.
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
                // SAFETY: the caller's promise, and by the invariant those before.
                unsafe { self.give_back(zeros) };
            }
        });
        written
    }

    /// Gives the runs back that were found; the bytes that went back since the beginning. What is refused stays as it is.
    ///
    /// # Safety
    /// What was promised when they were [found](Self::find) holds; the zeros are those of the same heap.
    pub(super) unsafe fn give_back(&mut self, zeros: &mut Zeros) -> usize {
        let len = core::mem::take(&mut self.len);
        let in_blocks = core::mem::take(&mut self.in_blocks);
        let mut at = 0;
        while at < len {
            let rest = &self.runs[at..len];
            // SAFETY: by the invariant nothing in them is used.
            let gone = if rest.len() > 1 { unsafe { os::discard_all(rest) } } else { 0 };
            // The next was refused, or is the only one: it goes back alone, or not at all, and those behind it are tried again.
            let next = at + gone;
            for (index, &Run { start, len }) in (at..).zip(&self.runs[at..len.min(next + 1)]) {
                // SAFETY: as above.
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
