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
    /// For each class, the pages of S3.
    candidates: Pools<u32>,
    /// For each class, its current page plus 1, or 0.
    current: Table<u32>,
    random: Random,
}

impl AnyPage {
    /// Takes the page at this place out of the candidates of its class. The last candidate gets the
    /// place.
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

    fn retire<F: InPage, B: Below>(
        &mut self,
        class: u32,
        _page: u32,
        _pages: &mut Pages<Numbered<F>, B>,
    ) {
        *self.current.get_mut(class as usize) = 0;
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

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::pages::Config;
    use crate::pages::brent::{CurrentPage, Paged};
    use crate::pages::class::Class;
    use crate::pages::headers::header::PageHeader;
    use crate::source::Reserved;

    type Heap = Paged<CurrentPage<AnyPage>, Reserved>;

    const CLASS: u32 = 3;

    /// Four pages of a class with φ0 = 2, and a selection that has them all.
    struct Listed {
        heap: Heap,
        selection: AnyPage,
        current: u32,
        /// On S3.
        eligible: [u32; 2],
        /// φ is 1.
        other: u32,
    }

    fn listed() -> Listed {
        let config = Config::with_page_size(4096);
        let mut heap = Heap::new(config, Reserved::new(1 << 24), ());
        heap.open().expect("there is memory");
        let size = heap.engine.pages.class(CLASS).size as usize;
        let mut heap = Heap::new(config.freetol(2 * size), Reserved::new(1 << 24), ());
        heap.open().expect("there is memory");
        let mut selection = AnyPage::INITIAL;
        let classes = heap.engine.pages.classes.count();
        selection.open(classes, 0, &mut heap.backing.source).expect("there is memory");
        selection.reserve(CLASS, 4, classes, &mut heap.backing.source).expect("there is memory");
        let [current, first, second, other] = [(); 4].map(|()| {
            let Heap { engine, backing } = &mut heap;
            let page = engine.pages.acquire(CLASS, backing).expect("there is memory");
            // Full, and on S4.
            let header = engine.pages.headers.header_mut(page);
            (header.free_count, header.left) = (0, NIL);
            page
        });
        let mut listed = Listed { heap, selection, current, eligible: [first, second], other };
        listed.selection.make_current(CLASS, current, &mut listed.heap.engine.pages, &());
        for (page, phi) in [(first, 2), (second, listed.capacity() - 1), (other, 1)] {
            assert!(!listed.free(page, phi));
        }
        assert_eq!(listed.selection.audit(&listed.heap.engine.pages), Ok(4));
        listed
    }

    impl Listed {
        fn capacity(&self) -> u32 {
            self.heap.engine.pages.class(CLASS).capacity
        }

        /// Frees blocks of a page until it has `phi` free ones. Returns whether the page goes to
        /// S2.
        fn free(&mut self, page: u32, phi: u32) -> bool {
            let pages = &mut self.heap.engine.pages;
            let Class { capacity, size, .. } = *pages.class(CLASS);
            let mut goes = false;
            while pages.headers.header(page).free_count < phi {
                assert!(!goes, "it has gone");
                let header = pages.headers.header_mut(page);
                header.free_count += 1;
                let (free, left) = (header.free_count, header.left);
                let put = Put { page, class: CLASS, capacity, size, left, free };
                goes = self.selection.freed(put, pages, &());
            }
            goes
        }

        fn header(&mut self, page: u32) -> &mut PageHeader {
            self.heap.engine.pages.headers.header_mut(page)
        }
    }

    /// Returns the audit's answer after damage.
    fn told(damage: impl FnOnce(&mut Listed)) -> Result<usize, &'static str> {
        let mut listed = listed();
        damage(&mut listed);
        listed.selection.audit(&listed.heap.engine.pages).map_err(|fault| fault.invariant)
    }

    #[test]
    fn damage_to_s3_is_told() {
        let said = told(|listed| listed.header(listed.eligible[0]).left += 1);
        assert_eq!(said, Err("a page knows its place in S3"));
        let said = told(|listed| listed.header(listed.eligible[1]).class += 1);
        assert_eq!(said, Err("S3 has pages of its class"));
        for phi in [0, 1, listed().capacity(), listed().capacity() + 1] {
            let said = told(|listed| listed.header(listed.eligible[0]).free_count = phi);
            assert_eq!(said, Err("S3 has pages with φ0 ≤ φ < c"), "{phi}");
        }
        for phi in [2, 3, listed().capacity() - 1] {
            let said = told(|listed| listed.header(listed.other).free_count = phi);
            assert_eq!(said, Err("a page with φ0 ≤ φ < c is in S3"), "{phi}");
        }
    }

    /// The selection keeps all pages of its class but those on S2.
    #[test]
    fn pages_without_blocks_in_use_leave_s3() {
        let mut listed = listed();
        let capacity = listed.capacity();
        let [first, second] = listed.eligible;
        assert!(listed.free(first, capacity));
        let count = |listed: &Listed| listed.selection.audit(&listed.heap.engine.pages);
        assert_eq!(count(&listed), Ok(3));
        let current = listed.current;
        assert!(!listed.free(current, capacity), "the current page stays");
        assert_eq!(count(&listed), Ok(3));
        let pages = &mut listed.heap.engine.pages;
        assert_eq!(listed.selection.choose(CLASS, pages, &()), Some(second), "only that is left");
        assert_eq!(listed.selection.choose(CLASS, pages, &()), None);
    }
}
