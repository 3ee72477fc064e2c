//! The current page (Brent §2.7): blocks of a class are allocated from one page until it is full;
//! then a new current page is chosen, from S3 if the selection finds one there, else from S2, else
//! from S1.

use core::ptr::NonNull;

use super::in_page::{Bitmap, InPage};
use super::pages::{Pages, Put};
use super::placement::Placement;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::sealed::Sealed;
use crate::source::Source;
use crate::strategy::SpanKind;

/// How a new current page is chosen from S3, the pages with both free blocks and blocks in use.
#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
pub trait Selection: Sealed {
    /// No class, no page.
    #[doc(hidden)]
    const INITIAL: Self;

    /// Takes memory for this many classes. May be called again after an error.
    #[doc(hidden)]
    fn open<S: Source>(
        &mut self,
        classes: usize,
        seed: u64,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Takes memory for `pages` pages in all, one of which may be new in `class`, so that nothing
    /// that follows needs memory.
    #[doc(hidden)]
    fn reserve<S: Source>(
        &mut self,
        class: u32,
        pages: usize,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// The current page of a class.
    #[doc(hidden)]
    fn current<M: Meter>(&self, class: u32, meter: &M) -> Option<u32>;

    /// Takes a page out of S3, to be the current page.
    #[doc(hidden)]
    fn choose<F: InPage, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<F>,
        meter: &M,
    ) -> Option<u32>;

    /// Makes a page the current page of its class; the one before is full.
    #[doc(hidden)]
    fn make_current<F: InPage, M: Meter>(
        &mut self,
        class: u32,
        page: u32,
        pages: &mut Pages<F>,
        meter: &M,
    );

    /// A block of a page was put back. Whether the page is wholly free and not current: then it
    /// has left S3 and goes to S2.
    #[doc(hidden)]
    fn freed<F: InPage, M: Meter>(&mut self, put: Put, pages: &mut Pages<F>, meter: &M) -> bool;

    /// Checks the selection's invariants; returns the number of pages it keeps.
    #[doc(hidden)]
    fn audit<F: InPage>(&self, pages: &Pages<F>) -> Result<usize, Fault>;
}

/// Placement in the current page; free blocks within a page are `F`'s.
#[derive(Debug)]
pub struct CurrentPage<C, F = Bitmap> {
    selection: C,
    in_page: core::marker::PhantomData<F>,
}

impl<C: Selection, F: InPage> CurrentPage<C, F> {
    #[cold]
    fn allocate_from_new_page<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<F>,
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

impl<C, F> Sealed for CurrentPage<C, F> {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl<C: Selection, F: InPage> Placement for CurrentPage<C, F> {
    type InPage = F;
    const INITIAL: Self = Self { selection: C::INITIAL, in_page: core::marker::PhantomData };
    const LEAST_BLOCK: usize = 1;
    const UNUSED: SpanKind = SpanKind::Free;

    fn open<S: Source>(
        &mut self,
        seed: u64,
        pages: &Pages<F>,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.selection.open(pages.classes.count(), seed, source)
    }

    #[inline(always)]
    fn allocate<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<F>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        if let Some(page) = self.selection.current(class, &backing.meter)
            && let Some(block) = pages.take(page, class, &backing.meter)
        {
            return Ok(block);
        }
        self.allocate_from_new_page(class, pages, backing)
    }

    #[inline(always)]
    fn free<M: Meter>(&mut self, address: NonNull<u8>, pages: &mut Pages<F>, meter: &M) {
        let put = pages.put(address, meter);
        if self.selection.freed(put, pages, meter) {
            pages.release(put.page, meter);
        }
    }

    fn audit(&self, pages: &Pages<F>) -> Result<usize, Fault> {
        self.selection.audit(pages)
    }
}
