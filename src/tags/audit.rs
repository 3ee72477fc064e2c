//! What must hold of the tags of adjoining blocks, checked.

use super::cells::Cells;
use super::layout::Block;
use crate::error::Fault;

impl Cells {
    /// Checks the tags of the blocks that tile the cells, behind which an empty one in use is the
    /// last, and calls `visit` for each with whether it is in use, which `in_use` says. `joined`: no
    /// two neighbours are both free. O(n).
    pub(crate) fn audit(
        &self,
        joined: bool,
        in_use: impl Fn(Block) -> bool,
        mut visit: impl FnMut(Block, bool),
    ) -> Result<(), Fault> {
        const KNOWN: &str = "PREV_IN_USE says whether the block below is in use";
        let mut expected = self.first();
        let mut prev_in_use = true;
        for block in self.blocks(self.end()) {
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
        let end = self.contents(self.end()).addr();
        Fault::unless(expected == self.end(), "blocks tile the heap", end)?;
        let last = self.block(self.end());
        let ended = last.len == 0 && self.is_in_use(last.start);
        Fault::unless(ended, "the last header is of an empty block in use", end)?;
        Fault::unless(self.prev_is_in_use(last.start) == prev_in_use, KNOWN, end)
    }
}
