//! Checks the tags of adjoining blocks.

use super::cells::Cells;
use super::layout::Block;
use crate::error::Fault;

impl Cells {
    /// Checks the tags of the blocks that tile the cells up to `end`, where an empty block in use
    /// ends them. Calls `visit` for each block with whether it is in use, according to `in_use`.
    /// `joined`: no two neighbours are both free. O(n).
    pub(crate) fn audit(
        &self,
        end: u32,
        joined: bool,
        in_use: impl Fn(Block) -> bool,
        mut visit: impl FnMut(Block, bool),
    ) -> Result<(), Fault> {
        const KNOWN: &str = "PREV_IN_USE says whether the block below is in use";
        let mut expected = self.first();
        let mut prev_in_use = true;
        for block in self.blocks(end) {
            let at = self.contents(block.start).addr();
            let in_use = in_use(block);
            Fault::unless(self.prev_is_in_use(block.start) == prev_in_use, KNOWN, at)?;
            let apart = in_use || prev_in_use || !joined;
            Fault::unless(apart, "free neighbours are joined", at)?;
            let footed = in_use || self.footer(block) == block.len;
            Fault::unless(footed, "a footer is its block's size", at)?;
            visit(block, in_use);
            expected = block.end();
            prev_in_use = in_use;
        }
        let at = self.contents(end).addr();
        Fault::unless(expected == end && end <= self.end(), "blocks tile the heap", at)?;
        let ended = self.block(end).len == 0 && self.is_in_use(end);
        Fault::unless(ended, "the last header is of an empty block in use", at)?;
        Fault::unless(self.prev_is_in_use(end) == prev_in_use, KNOWN, at)
    }
}
