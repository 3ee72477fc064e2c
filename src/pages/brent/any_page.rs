//! RANDOM(B): the current page is chosen at random from S3 (Brent §2.8).

use super::blocks::Put;
use super::current::Selection;
use super::random::Random;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::InPage;
use crate::pages::headers::numbered::{NIL, Numbered};
use crate::pages::store::Pages;
use crate::source::Source;
use crate::words::{Pools, Table};

/// Any page of S3, each with probability 1/|S3|. The benchmark for the strategies that choose.
///
/// Invariants: `candidates` holds, for each class, the pages with φ0 ≤ φ < c but the current page;
/// such a page's `left` is its place there; the `left` of every other page is `NIL`.
#[derive(Debug)]
pub struct AnyPage {
    candidates: Pools<u32>,
    /// For each class, its current page plus 1, or 0.
    current: Table<u32>,
    random: Random,
}

impl AnyPage {
    fn take_out<F: InPage, B: Below>(
        &mut self,
        class: u32,
        place: u32,
        pages: &mut Pages<Numbered<F>, B>,
    ) -> u32 {
        let page = self.candidates.swap_remove(class, place);
        if place < self.candidates.len(class) {
            pages.headers.header_mut(self.candidates.get(class, place)).left = place;
        }
        pages.headers.header_mut(page).left = NIL;
        page
    }
}

impl Selection for AnyPage {
    const INITIAL: Self =
        Self { candidates: Pools::new(), current: Table::new(), random: Random::new() };

    fn open<S: Source>(
        &mut self,
        classes: usize,
        seed: u64,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.random.seed(seed);
        self.current.ensure(classes, source)?;
        self.candidates.open(classes, source)
    }

    fn reserve<S: Source>(
        &mut self,
        class: u32,
        pages: usize,
        _classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.candidates.reserve(class, pages, source)
    }

    #[inline(always)]
    fn current<M: Meter>(&self, class: u32, meter: &M) -> Option<u32> {
        meter.touch(self.current.record(class as usize));
        self.current.get(class as usize).checked_sub(1)
    }

    fn choose<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> Option<u32> {
        let count = self.candidates.len(class);
        if count == 0 {
            return None;
        }
        let place = self.random.below(u64::from(count)) as u32;
        meter.visit(self.candidates.address(class, place));
        Some(self.take_out(class, place, pages))
    }

    fn make_current<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
        _: &M,
    ) {
        pages.headers.header_mut(page).left = NIL;
        *self.current.get_mut(class as usize) = page + 1;
    }

    #[inline(always)]
    fn freed<F: InPage, B: Below, M: Meter>(
        &mut self,
        put: Put,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> bool {
        let Put { page, class, left: place, .. } = put;
        if self.current(class, meter) == Some(page) {
            return false;
        }
        if put.emptied_page() {
            if place != NIL {
                self.take_out(class, place, pages);
            }
            return true;
        }
        if place == NIL && put.free >= pages.class(class).tolerance {
            let place = self.candidates.push(class, page);
            meter.link(self.candidates.address(class, place));
            pages.headers.header_mut(page).left = place;
        }
        false
    }

    fn audit<F: InPage, B: Below>(&self, pages: &Pages<Numbered<F>, B>) -> Result<usize, Fault> {
        let mut members = 0;
        for class in 0..pages.classes.count() as u32 {
            let facts = pages.class(class);
            for place in 0..self.candidates.len(class) {
                let page = self.candidates.get(class, place);
                let header = pages.headers.header(page);
                let at = pages.headers.base(page).addr();
                let phi = header.free_count;
                Fault::unless(header.left == place, "a page knows its place in S3", at)?;
                Fault::unless(header.class == class, "S3 has pages of its class", at)?;
                Fault::unless(
                    phi >= facts.tolerance && phi < facts.capacity,
                    "S3 has pages with φ0 ≤ φ < c",
                    at,
                )?;
            }
            members += self.candidates.len(class) as usize;
        }
        let (mut others, mut wrong) = (0, None);
        pages.headers.for_each(&mut |page| {
            let header = pages.headers.header(page);
            let class = pages.class(header.class);
            let current = *self.current.get(header.class as usize) == page + 1;
            if header.left == NIL && (current || header.free_count < class.tolerance) {
                others += 1;
            } else if header.left == NIL && header.free_count < class.capacity {
                wrong = Some(pages.headers.base(page).addr());
            }
        });
        match wrong {
            Some(address) => {
                Err(Fault { invariant: "a page with φ0 ≤ φ < c is in S3", address })
            }
            None => Ok(members + others),
        }
    }
}
