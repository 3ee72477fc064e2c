//! NOFREE and QUICK: blocks are bumped off a page and never reused one by one.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::{Backing, Heap, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::pages::below::Below;
use crate::pages::class::Classes;
use crate::pages::engine::{Paging, Placement};
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::Bitmap;
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;
use crate::source::Source;
use crate::strategy::SpanKind;
use crate::words::Table;

/// Bumping through pages. NOFREE: a freed block is never used again (Brent §2.4). QUICK, with `REUSE`:
/// a page serves again, as a whole, when the count of its blocks in use falls to zero (§2.5).
///
/// A page's φ counts the blocks that are not in use, those never used among them: the page's
/// count of blocks allocated but not freed is c − φ. Which ones is kept for the walk and checked
/// frees alone. A current page whose count falls to zero starts anew.
#[derive(Debug)]
pub struct Bump<const REUSE: bool> {
    /// For each class, the page blocks are bumped off, plus 1, or 0.
    current: Table<u32>,
}

impl<const REUSE: bool> Placement for Bump<REUSE> {
    type Headers = Numbered<Bitmap>;
    const INITIAL: Self = Self { current: Table::new() };
    const LEAST_BLOCK: usize = 1;
    const UNUSED: SpanKind = SpanKind::Slack;

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        classes: &Classes,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.current.ensure(classes.count(), source)
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        _: Layout,
        pages: &mut Pages<Numbered<Bitmap>, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
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
        let size = pages.class(class).size as usize;
        Ok(Served::whole(pages.take_fresh(page), size, Part::Pages))
    }

    #[inline(always)]
    fn free<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<Paging<Self, B>, S, M>,
        page: u32,
        block: NonNull<u8>,
        requested: usize,
    ) {
        let Heap { engine: Paging { placement, pages, .. }, backing } = heap;
        let put = pages.put(page, block, &backing.meter);
        if REUSE && put.emptied_page() {
            if *placement.current.get(put.class as usize) == page + 1 {
                pages.headers.header_mut(page).fresh = 0;
            } else {
                pages.release(page, &backing.meter);
            }
        }
        backing.freed(requested, put.size as usize, Part::Pages);
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
