//! The current page (Brent §2.7): blocks of a class are allocated from one page until it is full;
//! then a new current page is chosen, from S3 if the selection finds one there, else from S2, else
//! from S1.

use core::fmt::Debug;
use core::ptr::NonNull;

use super::blocks::Put;
use super::paper::PaperPlacement;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::in_page::{Bitmap, InPage};
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;
use crate::source::Source;

/// How a new current page is chosen from S3, the pages with both free blocks and blocks in use.
pub trait Selection: Debug {
    /// No class, no page.
    const INITIAL: Self;

    /// Takes memory for this many classes. May be called again after an error.
    fn open<S: Source>(
        &mut self,
        classes: usize,
        seed: u64,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Takes memory for `pages` pages in all, one of which may be new in `class`, so that the
    /// following operations need none.
    fn reserve<S: Source>(
        &mut self,
        class: u32,
        pages: usize,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Returns the current page of a class.
    fn current<M: Meter>(&self, class: u32, meter: &M) -> Option<u32>;

    /// Takes a page out of S3, to be the current page.
    fn choose<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> Option<u32>;

    /// Makes a page the current page of its class; the one before is full.
    fn make_current<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    );

    /// Makes the current page of a class, which is wholly free, no longer current.
    fn retire<F: InPage, B: Below>(
        &mut self,
        class: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
    );

    /// Records that a block of a page was put back. Returns whether the page is wholly free and not
    /// current: then it has left S3 and goes to S2.
    fn freed<F: InPage, B: Below, M: Meter>(
        &mut self,
        put: Put,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> bool;

    /// Checks the selection's invariants; returns the number of pages it keeps.
    fn audit<F: InPage, B: Below>(&self, pages: &Pages<Numbered<F>, B>) -> Result<usize, Fault>;
}

/// Placement in the current page; `F` keeps the free blocks within a page.
#[derive(Debug)]
pub struct CurrentPage<C, F = Bitmap> {
    /// Knows the current pages, and chooses new ones.
    selection: C,
    in_page: core::marker::PhantomData<F>,
}

impl<C: Selection, F: InPage> CurrentPage<C, F> {
    /// Chooses a new current page, and takes a block of it.
    #[cold]
    fn take_from_new_page<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<F>, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let page = match self.selection.choose(class, pages, &backing.meter) {
            Some(page) => page,
            None => {
                let (count, classes) = (pages.count() + 1, pages.classes.count());
                self.selection.reserve(class, count, classes, &mut backing.source)?;
                pages.acquire(class, backing)?
            }
        };
        self.selection.make_current(class, page, pages, &backing.meter);
        Ok(pages.take(page, class, &backing.meter).expect("a chosen page has a free block"))
    }
}

impl<C: Selection, F: InPage> PaperPlacement for CurrentPage<C, F> {
    type InPage = F;
    const INITIAL: Self = Self { selection: C::INITIAL, in_page: core::marker::PhantomData };

    fn open<S: Source>(
        &mut self,
        seed: u64,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.selection.open(classes, seed, source)
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<F>, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let current = self.selection.current(class, &backing.meter);
        match current.and_then(|page| pages.take(page, class, &backing.meter)) {
            Some(block) => Ok(block),
            None => self.take_from_new_page(class, pages, backing),
        }
    }

    #[inline(always)]
    fn freed<B: Below, M: Meter>(
        &mut self,
        _: NonNull<u8>,
        put: Put,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> bool {
        self.selection.freed(put, pages, meter)
    }

    fn retire<B: Below, M: Meter>(&mut self, pages: &mut Pages<Numbered<F>, B>, meter: &M) {
        for class in 0..pages.classes.count() as u32 {
            let capacity = pages.class(class).capacity;
            let current = self.selection.current(class, meter);
            let whole = |&page: &u32| pages.headers.header(page).free_count == capacity;
            if let Some(page) = current.filter(whole) {
                self.selection.retire(class, page, pages);
                pages.release(page, meter);
            }
        }
    }

    fn audit<B: Below>(&self, pages: &Pages<Numbered<F>, B>) -> Result<usize, Fault> {
        self.selection.audit(pages)
    }
}
