//! The interface of an algorithm: [`Algorithm`].

use core::alloc::Layout;

use super::fields::Fields;
use super::words::{Block, Request, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// How a [`WordHeap`](super::WordHeap) manages its words.
pub trait Algorithm {
    /// The overhead fields of its blocks.
    type Fields: Fields;
    /// The algorithm before there is any memory.
    const EMPTY: Self;
    /// The end of memory is a multiple of this many words.
    const UNIT: u32;

    /// Converts a layout to a request; `None` if no memory is long enough.
    fn request(layout: Layout) -> Option<Request>;

    /// Returns whether this block may have served this request.
    fn serves(block: Block, request: Request) -> bool;

    /// Returns the start of the block that serves a request whose contents start at this word.
    fn start_of(contents: u32, request: Request) -> Option<u32>;

    /// Returns where memory must end to serve a request, if all words from `from` on are free.
    fn reach(request: Request, from: u32, words: &Words) -> Option<u32>;

    /// Takes a block for a request, with search and compaction as the algorithm prescribes.
    fn take<M: Meter>(&mut self, request: Request, words: &mut Words, meter: &M) -> Option<Block>;

    /// Frees words that were just added as one block in use.
    fn add<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M);

    /// Frees a block in use.
    fn release<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M);

    /// Makes a block in use serve another request without moving it, if possible.
    fn resize<M: Meter>(
        &mut self,
        block: Block,
        request: Request,
        words: &mut Words,
        meter: &M,
    ) -> Option<Block>;

    /// Returns how often all of memory was walked to make the lists of free blocks anew.
    fn collections(&self) -> u64;

    /// Checks the algorithm's own invariants.
    fn audit(&self, words: &Words) -> Result<(), Fault>;
}
