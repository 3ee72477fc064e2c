//! NOFREE and QUICK: blocks are bumped off a page and never reused one by one.

use core::ptr::NonNull;

use super::in_page::Bitmap;
use super::pages::Pages;
use super::placement::Placement;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::sealed::Sealed;
use crate::source::Source;
use crate::strategy::SpanKind;
use crate::words::Table;

/// NOFREE: a freed block is never used again (Brent §2.4).
pub type NoFree = Bump<false>;

/// QUICK: a page serves again, as a whole, when the count of its blocks in use falls to zero
/// (Brent §2.5).
pub type Quick = Bump<true>;

/// Bumping through pages; `REUSE` says whether wholly free pages go to S2.
///
/// A page's φ counts the blocks that are not in use, those never used among them: the page's
/// count of blocks allocated but not freed is c − φ. Which ones is kept for the walk and checked
/// frees alone. A current page whose count falls to zero starts anew.
#[derive(Debug)]
pub struct Bump<const REUSE: bool> {
    /// For each class, the page blocks are bumped off, plus 1, or 0.
    current: Table<u32>,
}

impl<const REUSE: bool> Sealed for Bump<REUSE> {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl<const REUSE: bool> Placement for Bump<REUSE> {
    type InPage = Bitmap;
    const INITIAL: Self = Self { current: Table::new() };
    const LEAST_BLOCK: usize = 1;
    const UNUSED: SpanKind = SpanKind::Slack;

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        pages: &Pages<Bitmap>,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.current.ensure(pages.classes.count(), source)
    }

    #[inline(always)]
    fn allocate<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let current = self.current.get(class as usize).checked_sub(1);
        let capacity = pages.class(class).capacity;
        let page = match current.filter(|&page| pages.header(page).fresh < capacity) {
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
    fn free<M: Meter>(&mut self, address: NonNull<u8>, pages: &mut Pages<Bitmap>, meter: &M) {
        let put = pages.put(address, meter);
        if REUSE && put.emptied_page() {
            if *self.current.get(put.class as usize) == put.page + 1 {
                pages.header_mut(put.page).fresh = 0;
            } else {
                pages.release(put.page, meter);
            }
        }
    }

    fn audit(&self, pages: &Pages<Bitmap>) -> Result<usize, Fault> {
        let (mut kept, mut wrong) = (0, None);
        pages.for_each_page(|page, header| {
            let class = pages.class(header.class);
            let current = *self.current.get(header.class as usize) == page + 1;
            if current || !REUSE || header.free_count < class.capacity {
                kept += 1;
            }
            if header.free_count < class.capacity - header.fresh {
                wrong = Some(pages.base(page).addr().get());
            }
        });
        match wrong {
            Some(address) => Err(Fault { invariant: "blocks never used are free", address }),
            None => Ok(kept),
        }
    }
}
