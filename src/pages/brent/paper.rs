//! Code that Brent's placements share: numbered headers, blocks put back one by one, whole pages to
//! S2.

use core::alloc::Layout;
use core::fmt::Debug;
use core::ptr::NonNull;

use super::blocks::Put;
use crate::engine::{Backing, Heap, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::pages::below::Below;
use crate::pages::class::Classes;
use crate::pages::engine::{PageEngine, Placement};
use crate::pages::headers::in_page::InPage;
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;
use crate::source::Source;
use crate::strategy::SpanKind;

/// A placement of the paper; [`Placement`] documents the methods.
pub trait PaperPlacement: Debug + Sized {
    /// How the free blocks within a page are kept.
    type InPage: InPage;

    /// The same as [`Placement::INITIAL`].
    const INITIAL: Self;
    /// The same as [`Placement::LEAST_BLOCK`].
    const LEAST_BLOCK: usize = 1;
    /// The same as [`Placement::UNUSED`].
    const UNUSED: SpanKind = SpanKind::Free;

    /// Takes memory for this many classes. May be called again after an error.
    fn open<S: Source>(
        &mut self,
        seed: u64,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Takes a block of a class.
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<Self::InPage>, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError>;

    /// Records that the block at this address was put back. Returns whether its page goes to S2.
    fn freed<B: Below, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        put: Put,
        pages: &mut Pages<Numbered<Self::InPage>, B>,
        meter: &M,
    ) -> bool;

    /// Does the same as [`Placement::retire`].
    fn retire<B: Below, M: Meter>(
        &mut self,
        _pages: &mut Pages<Numbered<Self::InPage>, B>,
        _meter: &M,
    ) {
    }

    /// Does the same as [`Placement::audit`].
    fn audit<B: Below>(&self, pages: &Pages<Numbered<Self::InPage>, B>) -> Result<usize, Fault>;
}

impl<P: PaperPlacement> Placement for P {
    type Headers = Numbered<P::InPage>;
    const INITIAL: Self = P::INITIAL;
    const LEAST_BLOCK: usize = P::LEAST_BLOCK;
    const UNUSED: SpanKind = P::UNUSED;

    fn open<S: Source>(
        &mut self,
        seed: u64,
        classes: &Classes,
        source: &mut S,
    ) -> Result<(), AllocError> {
        PaperPlacement::open(self, seed, classes.count(), source)
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        _: Layout,
        pages: &mut Pages<Self::Headers, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let block = self.take_or_give_back(pages, backing, |placement, pages, backing| {
            PaperPlacement::take(placement, class, pages, backing)
        })?;
        Ok(Served::whole(block, pages.class(class).size as usize, Part::Pages))
    }

    #[inline(always)]
    fn free<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<PageEngine<Self, B>, S, M>,
        page: u32,
        block: NonNull<u8>,
        requested: usize,
    ) {
        let Heap { engine, backing } = heap;
        debug_assert!(engine.is_in_use(page, block, requested), "a freed block is in use");
        let PageEngine { placement, pages, .. } = engine;
        let put = pages.put(page, block, &backing.meter);
        if placement.freed(block, put, pages, &backing.meter) {
            pages.release(page, &backing.meter);
        }
        backing.freed(requested, put.size as usize, Part::Pages);
    }

    fn retire<B: Below, M: Meter>(&mut self, pages: &mut Pages<Self::Headers, B>, meter: &M) {
        PaperPlacement::retire(self, pages, meter);
    }

    fn audit<B: Below>(&self, pages: &Pages<Self::Headers, B>) -> Result<usize, Fault> {
        PaperPlacement::audit(self, pages)
    }
}
