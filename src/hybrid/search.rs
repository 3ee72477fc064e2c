//! Searches for a block in one place after the other (§3.6–3.10):
//!
//! 1. small blocks: the quick list of the size, then of the next;
//! 2. the free blocks of the size, then of the next; with SPLIT any larger one, which is split;
//! 3. incremental coalescing: with COALESCE blocks that wait are joined until one is large enough;
//! 4. complete coalescing: with COALESCE_QL, if more is held than the threshold allows, all are
//!    joined;
//! 5. the wilderness.
//!
//! When the source has no more memory, everything is joined regardless of the parameters before the
//! request fails. The paper's heap never ends.

use super::heap::{Context, HybridHeap};
use super::lists::{LISTS, State, Taken};
use crate::error::AllocError;
use crate::fit::index::fit;
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::{Block, CELL};

impl HybridHeap {
    /// Puts a block of `len` cells, or one more, to use.
    pub(super) fn allocate<S: Source, M: Meter>(
        &mut self,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Result<Block, AllocError> {
        let small = len <= context.settings.ql_cells();
        if small && let Some(block) = self.quick_block(len, context) {
            return Ok(block);
        }
        let split = context.settings.split;
        let taken = match self.lists.find(len, split, &mut self.cells, context.meter) {
            Some(taken) => Some(taken),
            None => self.coalesce_for(len, context),
        };
        let taken = match taken {
            Some(taken) => taken,
            None => match self.cut(len, context) {
                Ok(block) => return Ok(block),
                Err(exhausted) => {
                    self.join_all(context);
                    let found = self.lists.find(len, true, &mut self.cells, context.meter);
                    match found {
                        Some(taken) => taken,
                        // Joined blocks may adjoin the wilderness.
                        None => return self.cut(len, context).map_err(|_| exhausted),
                    }
                }
            },
        };
        Ok(if small {
            self.serve_small(taken, len, context.settings.preallocate, context.meter)
        } else {
            self.serve(taken, len, context.meter)
        })
    }

    /// Puts a block of `len` cells at a multiple of `align` bytes, more than a cell, to use.
    pub(super) fn allocate_aligned<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        context: &mut Context<'_, S, M>,
    ) -> Result<Block, AllocError> {
        // These cells contain the aligned block wherever they start.
        let certain = u32::try_from(align / CELL - 1).ok().and_then(|gap| len.checked_add(gap));
        let block = certain
            .ok_or(AllocError::Exhausted)
            .and_then(|certain| self.allocate(certain, context))
            .or_else(|exhausted| self.allocate_around(len, align, context).ok_or(exhausted))?;
        // The place is within a block in use, so its address does not wrap around.
        let start = self.cells.aligned(block.start, align).unwrap_or(block.start);
        Ok(self.trim(block, Block { start, len }, context.meter))
    }

    /// Puts a block that happens to contain `len` cells at a multiple of `align` bytes to use: the
    /// smallest free block, or a part of the wilderness. O(n).
    #[cold]
    fn allocate_around<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        context: &mut Context<'_, S, M>,
    ) -> Option<Block> {
        if self.cells.end() == 0 {
            return None;
        }
        self.join_all(context);
        self.widen(context.meter);
        let (cells, meter) = (&self.cells, context.meter);
        let free = cells.blocks(self.top).filter(|&block| {
            meter.visit(cells.header(block.start));
            cells.joinable_above(block.start).is_some() && fit(block, len, align, cells).is_some()
        });
        let Some(block) = free.min_by_key(|block| block.len) else {
            let behind = cells.aligned(self.top, align)?.checked_add(len)?;
            return self.cut(behind - self.top, context).ok();
        };
        self.lists.remove(block, &mut self.cells, meter);
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.cells.put_in_use(block, prev_in_use);
        Some(block)
    }

    /// Returns a block from the quick list of the size or the next.
    fn quick_block<S, M: Meter>(
        &mut self,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Option<Block> {
        let next = len + 1;
        let sizes = if next <= context.settings.ql_cells() { len..=next } else { len..=len };
        for len in sizes {
            if let Some(start) = self.quick.pop(len as usize, &mut self.cells, context.meter) {
                self.monitor.quick += 1;
                return Some(Block { start, len });
            }
        }
        None
    }

    /// Joins blocks to serve `len` cells, as far as the parameters allow.
    fn coalesce_for<S: Source, M: Meter>(
        &mut self,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Option<Taken> {
        let settings = context.settings;
        let at_once = settings.coalesce && !settings.strict_threshold;
        let large = len as usize >= LISTS && (at_once || self.exceeds(context));
        if large && let Some(block) = self.join_large(len, context.meter) {
            return Some(Taken { block, state: State::Joined });
        }
        if settings.coalesce
            && let Some(block) = self.join_below(len, context.meter)
        {
            return Some(Taken { block, state: State::Joined });
        }
        if settings.coalesce_ql && self.exceeds(context) {
            if self.frees_at_join != context.frees {
                self.join_all(context);
            }
            return self.lists.find(len, true, &mut self.cells, context.meter);
        }
        None
    }

    /// Returns whether more is held than the threshold allows.
    fn exceeds<S: Source, M>(&mut self, context: &Context<'_, S, M>) -> bool {
        self.most_in_use = self.most_in_use.max(context.in_use);
        let allowed = self.most_in_use as u128 * u128::from(context.settings.threshold);
        context.source.held() as u128 * 100 > allowed
    }
}
