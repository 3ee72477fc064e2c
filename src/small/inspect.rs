//! Walks and audits the heap.

use super::bins::{BINS, NONE, bin_of};
use super::heap::{BitHeap, FIRST, GRANULE, GranuleRun};
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};

impl BitHeap {
    /// Returns the block in use that starts at this granule, if one does. O(words of its bits).
    pub(super) fn block_in_use(&self, start: u32) -> Option<GranuleRun> {
        self.map.starts_in_use(start).then(|| self.run(start).0)
    }

    /// Returns the block or free run that starts at this granule, and whether it is free; uses only
    /// the map.
    fn run(&self, start: u32) -> (GranuleRun, bool) {
        let free = self.map.get(start);
        let found = self.map.find(start, self.end, !free);
        let end = if free { found } else { (found + 1).min(self.end) };
        (GranuleRun { start, len: end - start }, free)
    }

    /// Returns every block and free run in address order, and whether it is free.
    fn runs(&self) -> impl Iterator<Item = (GranuleRun, bool)> {
        let mut start = FIRST;
        core::iter::from_fn(move || {
            (start < self.end).then(|| {
                let found = self.run(start);
                start = found.0.end();
                found
            })
        })
    }

    pub(super) fn walk_runs(&self, visit: &mut dyn FnMut(Span)) {
        for (run, free) in self.runs() {
            let kind = match free {
                false => SpanKind::Block,
                true if run.len == 1 => SpanKind::Slack,
                true => SpanKind::Free,
            };
            let start = self.address(run.start).addr();
            visit(Span { start, len: run.len as usize * GRANULE, kind });
        }
    }

    /// Checks the invariants. O(n).
    pub(super) fn audit_runs(&self) -> Result<(), Fault> {
        if self.end == 0 {
            return Ok(());
        }
        let at = |granule| self.address(granule).addr();
        Fault::unless(!self.map.get(0) && self.map.get(1), "the bottom is in use", at(0))?;
        Fault::unless(!self.map.get(self.end), "the end is in use", at(self.end))?;
        let mut free = 0;
        for (run, is_free) in self.runs() {
            if is_free {
                // A run of one granule is on no list.
                free += u32::from(run.len > 1);
                let known = run.len == 1
                    || self.len(run.start) == run.len && self.len_below(run.end()) == run.len;
                Fault::unless(known, "a free run knows its length", at(run.start))?;
            } else {
                let ended = self.map.get(run.end() - 1);
                Fault::unless(ended, "the last block ends where the heap does", at(run.start))?;
                Fault::unless(run.len > 1, "a block has two granules or more", at(run.start))?;
            }
        }
        for bin in 0..BINS {
            let (mut previous, mut block) = (NONE, self.bins.head(bin));
            let filled = self.bins.filled_from(bin) == Some(bin);
            Fault::unless(filled == (block != NONE), "a list with a block is known", at(0))?;
            while block != NONE {
                let known = (FIRST..self.end).contains(&block)
                    && self.map.is_free(block)
                    && !self.map.is_free(block - 1);
                Fault::unless(known && free > 0, "lists have free runs alone", at(block))?;
                Fault::unless(self.previous(block) == previous, "links lead back", at(block))?;
                let on_its_own = bin_of(self.len(block)) == bin;
                Fault::unless(on_its_own, "a run is on the list of its length", at(block))?;
                free -= 1;
                (previous, block) = (block, self.next(block));
            }
        }
        Fault::unless(free == 0, "every free run is on a list", at(self.end))
    }
}
