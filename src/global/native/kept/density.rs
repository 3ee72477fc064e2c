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

use crate::global::native::huge::{self, HUGE};

/// One in `SAMPLE_ONE_IN` mappings that are expected to be dense has a sample.
const SAMPLE_ONE_IN: u8 = 16;

/// A sample is this part of its mapping, where the mapping is expected to be dense.
const SAMPLE_PART: usize = 32;

/// The known density of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Density {
    /// No sample was written yet.
    Unknown,
    /// The last sample was written in part.
    Sparse,
    /// The last sample was written all over.
    Dense,
}

/// Mappings of one kind.
#[derive(Debug)]
pub(super) struct MappingDensity {
    density: Density,
    /// Bytes of the mapping whose sample was last looked at.
    learned_len: usize,
    /// Start and bytes of the sample; 0 bytes: there is none.
    sample: (usize, usize),
    /// Bytes of the mapping with the sample.
    sampled_len: usize,
    /// Bytes that may get huge pages before a sample was written all over. Nothing is tried with a
    /// block more than twice as long.
    tried: usize,
    /// Bytes that got them since the last such sample.
    unproven: usize,
    /// Decisions made while mappings are dense, modulo [`SAMPLE_ONE_IN`].
    decisions: u8,
}

impl MappingDensity {
    /// `tried` is the number of bytes that may get huge pages before a mapping was seen written all
    /// over, in blocks at most twice as long.
    pub(super) const fn new(tried: usize) -> Self {
        Self {
            density: Density::Unknown,
            learned_len: 0,
            sample: (0, 0),
            sampled_len: 0,
            tried,
            unproven: 0,
            decisions: 0,
        }
    }

    /// Decides how many bytes of a new block, from its start on, get huge pages: `block` is not
    /// written yet, and has `size` bytes. The rest may become the sample.
    pub(super) fn decide(&mut self, block: *mut u8, size: usize) -> usize {
        self.look_at_sample(block);
        // A mapping that is far longer than the last is of another kind.
        let is_dense = self.density == Density::Dense && size / 2 <= self.learned_len;
        if is_dense {
            self.decisions = (self.decisions + 1) % SAMPLE_ONE_IN;
            if self.decisions > 0 {
                return size;
            }
        }
        let most = match self.density {
            _ if is_dense => size,
            // A block of gigabytes is probably meant to stay mostly untouched.
            Density::Unknown | Density::Dense if size / 2 <= self.tried => {
                self.tried - self.unproven
            }
            _ => 0,
        };
        let advised = most.min(size - size / SAMPLE_PART) & !(HUGE - 1);
        if !is_dense {
            self.unproven += advised;
        }
        self.sample = (block.addr() + advised, size - advised);
        self.sampled_len = size;
        advised
    }

    /// Learns from the sample if it starts in this mapping, which goes back or is resized; then there
    /// is no sample. Returns whether it did.
    pub(super) fn learn(&mut self, start: *mut u8, len: usize) -> bool {
        let has_sample = self.sample.1 > 0 && self.sample.0.wrapping_sub(start.addr()) < len;
        if has_sample {
            self.look_at_sample(start);
            self.sample = (0, 0);
        }
        has_sample
    }

    /// Learns from the sample, if there is one. `any` is an address of the allocator, for its
    /// provenance.
    fn look_at_sample(&mut self, any: *mut u8) {
        let (start, len) = self.sample;
        if len == 0 {
            return;
        }
        let sample = any.with_addr(start);
        self.density = if huge::is_dense(sample, len) {
            self.unproven = 0;
            Density::Dense
        } else if huge::is_untouched(sample, len) {
            Density::Unknown
        } else {
            Density::Sparse
        };
        self.learned_len = self.sampled_len;
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests;
