//! NOFREE and QUICK: blocks are bumped off a page and never reused one by one.

use core::ptr::NonNull;

use super::blocks::Put;
use super::paper::PaperPlacement;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::Bitmap;
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;
use crate::source::Source;
use crate::strategy::SpanKind;
use crate::words::Table;

/// Bumping through pages. NOFREE: a freed block is never used again (Brent §2.4). QUICK, with
/// `REUSE`: a page serves again, as a whole, when the count of its blocks in use falls to zero
/// (§2.5).
///
/// A page's φ counts the blocks that are not in use, including those never used: the page's count
/// of blocks allocated but not freed is c − φ. Bits tell which blocks these are, only for walks and
/// checked frees. A current page whose count falls to zero is free like any other, and its class
/// then has no current page.
#[derive(Debug)]
pub struct Bump<const REUSE: bool> {
    /// For each class, the page from which blocks are bumped, plus 1, or 0.
    current: Table<u32>,
}

impl<const REUSE: bool> PaperPlacement for Bump<REUSE> {
    type InPage = Bitmap;
    const INITIAL: Self = Self { current: Table::new() };
    const UNUSED: SpanKind = SpanKind::Slack;

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.current.ensure(classes, source)
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<Bitmap>, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let current = self.current.get(class as usize).checked_sub(1);
        let capacity = pages.class(class).capacity;
        let page = match current.filter(|&page| pages.headers.header(page).fresh < capacity) {
            Some(page) => page,
            None => {
                let page = pages.acquire(class, backing)?;
                *self.current.get_mut(class as usize) = page + 1;
                page
            }
        };
        pages.visit(page, &backing.meter);
        Ok(pages.take_fresh(page))
    }

    #[inline(always)]
    fn freed<B: Below, M: Meter>(
        &mut self,
        _: NonNull<u8>,
        put: Put,
        _: &mut Pages<Numbered<Bitmap>, B>,
        _: &M,
    ) -> bool {
        if !REUSE || !put.emptied_page() {
            return false;
        }
        let current = self.current.get_mut(put.class as usize);
        if *current == put.page + 1 {
            *current = 0;
        }
        true
    }

    fn audit<B: Below>(&self, pages: &Pages<Numbered<Bitmap>, B>) -> Result<usize, Fault> {
        let (mut kept, mut wrong) = (0, None);
        pages.headers.for_each(&mut |page| {
            let header = pages.headers.header(page);
            let class = pages.class(header.class);
            let current = *self.current.get(header.class as usize) == page + 1;
            if current || !REUSE || header.free_count < class.capacity {
                kept += 1;
            }
            if header.free_count < class.capacity - header.fresh {
                wrong = Some(pages.headers.base(page).addr());
            }
        });
        match wrong {
            Some(address) => Err(Fault { invariant: "blocks never used are free", address }),
            None => Ok(kept),
        }
    }
}
