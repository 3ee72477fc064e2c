//! Search strategies (Nielsen 1977, Table III): where a search starts, and which of the free blocks
//! that it meets it takes.

use core::marker::PhantomData;

use super::fields::Fields;
use super::words::{Block, Request, Words};

/// A search strategy.
pub trait Search {
    /// Whether the whole list is searched for the smallest block, until one fits exactly.
    const BEST: bool;
    /// Whether a search starts where the last one ended.
    const ROTATES: bool;
}

/// First Fit: the first block met that is large enough.
#[derive(Debug)]
pub struct FirstFit;

/// Exact/Best: the first block met that is exactly as large as needed; if there is none, the
/// smallest that is large enough, the first of those.
#[derive(Debug)]
pub struct ExactOrBest;

/// + R: the search starts where the last allocation was made, not from the front, and goes on
///   from the end to the front.
#[derive(Debug)]
pub struct Rotating<Q>(PhantomData<Q>);

impl Search for FirstFit {
    const BEST: bool = false;
    const ROTATES: bool = false;
}

impl Search for ExactOrBest {
    const BEST: bool = true;
    const ROTATES: bool = false;
}

impl<Q: Search> Search for Rotating<Q> {
    const BEST: bool = Q::BEST;
    const ROTATES: bool = true;
}

/// What a search found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The block before it on its list; `NIL` if there is none, or no list.
    pub(super) before: u32,
    /// A free block that is large enough.
    pub(super) block: Block,
    /// Where in it the request's block will start.
    pub(super) start: u32,
}

/// The block that a search would take so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice(pub(super) Option<Found>);

impl Choice {
    /// Considers a block that follows `before`. Returns whether the search is over.
    #[inline(always)]
    pub(super) fn consider<Q: Search, F: Fields>(
        &mut self,
        before: u32,
        block: Block,
        request: Request,
        words: &Words,
    ) -> bool {
        // Most blocks met are too short.
        if block.len < request.len {
            return false;
        }
        let Some(start) = request.place::<F>(block, words) else { return false };
        if self.0.is_none_or(|best| block.len < best.block.len) {
            self.0 = Some(Found { before, block, start });
        }
        !Q::BEST || block.len == request.len
    }

    /// Forgets a block that has become part of another, which will be considered.
    pub(super) fn absorbed(&mut self, start: u32) {
        self.0.take_if(|best| best.block.start == start);
    }
}
