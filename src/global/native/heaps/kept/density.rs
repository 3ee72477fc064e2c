//! Predicts whether a new mapping will be written all over, and so should get huge pages.
//!
//! ```text
//!   a mapping:  | huge pages … ……………………………………… | the sample |
//! ```
//! Memory on huge pages looks written all over after a single write to each. So the end of some
//! mappings gets none: the *sample*, which tells later whether the mapping was written all over. It
//! is looked at when the next mapping is made, or when its own goes.
//!
//! The first mappings get huge pages before anything is known, since most are buffers that are
//! written soon, and since a part that is never written takes no memory but for its last huge page.
//! Only a table written here and there takes more; so [a bound](MappingDensity::new) limits what
//! is tried.

use crate::global::native::memory::huge::{self, DensityPredictor, HUGE, SAMPLE_ONE_IN};

/// A sample is this part of its mapping, where the mapping is expected to be dense.
const SAMPLE_PART: usize = 32;

/// Decisions of other threads that wait for a sample.
const AWAITED: u32 = 32;

/// Mappings of one kind.
#[derive(Debug)]
pub(super) struct MappingDensity {
    /// Whether the last sample was written all over; where the sample is; when the next is due.
    predictor: DensityPredictor,
    /// Whether the last sample was written in part.
    is_sparse: bool,
    /// Bytes of the mapping whose sample was last looked at.
    learned_len: usize,
    /// Bytes of the mapping with the sample.
    sampled_len: usize,
    /// The thread that allocated it.
    sampled_by: u32,
    /// Decisions of other threads since then.
    awaited: u32,
    /// Bytes that may get huge pages before a sample was written all over. Nothing is tried with a
    /// block more than twice as long.
    tried: usize,
    /// Bytes that got them since the last such sample.
    unproven: usize,
}

impl MappingDensity {
    /// Returns the state of a kind of mappings before the first one is made. `tried` is the number
    /// of bytes that may get huge pages before a mapping was seen written all over, in blocks at
    /// most twice as long.
    pub(super) const fn new(tried: usize) -> Self {
        Self {
            predictor: DensityPredictor::new(),
            is_sparse: false,
            learned_len: 0,
            sampled_len: 0,
            sampled_by: 0,
            awaited: 0,
            tried,
            unproven: 0,
        }
    }

    /// Decides how many bytes of a new block, from its start on, get huge pages: `block` is not
    /// written yet, and has `size` bytes. The rest may become the sample. `thread` is the caller's
    /// [token](crate::global::native::base::sync::token).
    pub(super) fn decide(&mut self, block: *mut u8, size: usize, thread: u32) -> usize {
        let is_awaited = self.await_sample(block, thread);
        if !is_awaited {
            self.look_at_sample(block);
        }
        let is_dense = self.is_known_dense(size);
        if is_dense && (is_awaited || !self.predictor.count_decision(SAMPLE_ONE_IN)) {
            return size;
        }
        // A block of gigabytes is probably meant to stay mostly untouched.
        let may_try = !self.is_sparse && size / 2 <= self.tried;
        let most = if is_dense {
            size
        } else if may_try {
            self.tried - self.unproven
        } else {
            0
        };
        let advised = most.min(size - size / SAMPLE_PART) & !(HUGE - 1);
        if !is_dense {
            self.unproven += advised;
        }
        if !is_awaited {
            self.predictor.set_sample(block.addr() + advised, size - advised);
            (self.sampled_len, self.sampled_by, self.awaited) = (size, thread, 0);
        }
        advised
    }

    /// Returns whether this decision waits for the sample, which another thread may still be
    /// writing, and counts it then: at most [`AWAITED`] decisions wait. `any` is as for
    /// [`look_at_sample`](Self::look_at_sample).
    fn await_sample(&mut self, any: *mut u8, thread: u32) -> bool {
        let (start, len) = self.predictor.sample();
        if len == 0 || self.sampled_by == thread || self.awaited == AWAITED {
            return false;
        }
        self.awaited += 1;
        !huge::is_dense(any.with_addr(start), len)
    }

    /// Decides on a new block of `size` bytes without a sample. Returns whether it will probably be
    /// written all over: only if that is known of blocks like it, and no new sample is due. If so,
    /// counts the decision.
    pub(super) fn decide_unsampled(&self, size: usize) -> bool {
        let is_expected =
            self.is_known_dense(size) && !self.predictor.is_sample_next(SAMPLE_ONE_IN);
        if is_expected {
            self.predictor.count_decision(SAMPLE_ONE_IN);
        }
        is_expected
    }

    /// Returns whether the last sample was written all over. A block that is far longer than its
    /// mapping is of another kind.
    fn is_known_dense(&self, size: usize) -> bool {
        self.predictor.is_dense() && size / 2 <= self.learned_len
    }

    /// Learns from the sample if it starts in this mapping, which goes back or is resized; then
    /// there is no sample any more. Returns whether it was written all over; `None` if it was
    /// elsewhere.
    pub(super) fn learn(&mut self, start: *mut u8, len: usize) -> Option<bool> {
        let (sample, sample_len) = self.predictor.sample();
        if sample_len == 0 || sample.wrapping_sub(start.addr()) >= len {
            return None;
        }
        self.look_at_sample(start);
        self.predictor.set_sample(0, 0);
        Some(self.predictor.is_dense())
    }

    /// Learns from the sample, if there is one. `any` is an address of the allocator, for its
    /// provenance.
    fn look_at_sample(&mut self, any: *mut u8) {
        let (start, len) = self.predictor.sample();
        if len == 0 {
            return;
        }
        self.predictor.check_sample(any);
        let is_dense = self.predictor.is_dense();
        self.is_sparse = !is_dense && !huge::is_untouched(any.with_addr(start), len);
        if is_dense {
            self.unproven = 0;
        }
        self.learned_len = self.sampled_len;
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
