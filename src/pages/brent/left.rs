//! MOST-FREE, LEAST-FREE and MRU: lists of pages by their number of free blocks, and the left
//! headers that order them (Brent §4).
//!
//! ```text
//!  class ──▶ LH0 ── H(C) ── H ── H      L0: the current page C, and pages with φ < φ0
//!         down │ ▲ up
//!              ▼ │
//!            LH2 ── H ── H              L2: pages with φ = 2
//!         down │ ▲ up
//!              ▼ │
//!            LH5 ── H ── H ── H         L5: pages with φ = 5
//!         down │ ▲ up
//!              ▼ │
//!             LH0 again: the left headers are a ring
//! ```
//! `down` leads from LH0 to the left header with the least φ ≥ φ0 and on to larger ones, `up` from
//! LH0 to the largest. Only LH0 may have an empty list. Pages with φ < φ0, which cannot become the
//! current page, are all on L0; MRU merges those with φ ≥ φ0 too and keeps them in the order of
//! their last free. Everything takes O(1).
//!
//! The paper's lists are circular; ours end in `NIL`. Left headers are named by number, not by
//! pointer. LH0 of class j is left header j.

use core::fmt::Debug;
use core::marker::PhantomData;

use super::blocks::Put;
use super::current::Selection;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::InPage;
use crate::pages::headers::numbered::{NIL, Numbered};
use crate::pages::store::Pages;
use crate::source::Source;
use crate::words::{Plain, Table};

/// LHφ.
#[derive(Clone, Copy, Debug)]
struct LeftHeader {
    /// First page of the list Lφ.
    first: u32,
    /// The left header with the next smaller φ; from LH0, the largest.
    up: u32,
    /// The left header with the next larger φ; from LH0, the smallest.
    down: u32,
    /// φ of the pages on the list; 0 for LH0.
    phi: u32,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for LeftHeader {}

/// Which left header a new current page comes from, and which lists there are.
pub trait Order: Debug {
    /// Whether the page with the most free blocks is chosen, rather than the one with the fewest.
    const MOST: bool;
    /// Whether all pages with φ ≥ φ0 share one list in the order of their last free.
    const MERGED: bool;
}

/// The page with the most free blocks (Brent §2.9).
#[derive(Debug)]
pub struct Most;

/// The page with the fewest free blocks, but at least φ0 (Brent §2.10).
#[derive(Debug)]
pub struct Least;

/// The page in which a block was freed most recently (Brent §2.11).
#[derive(Debug)]
pub struct MostRecent;

impl Order for Most {
    const MOST: bool = true;
    const MERGED: bool = false;
}

impl Order for Least {
    const MOST: bool = false;
    const MERGED: bool = false;
}

impl Order for MostRecent {
    const MOST: bool = false;
    const MERGED: bool = true;
}

/// The lists of all classes. Invariants, for each class:
/// - the current page, once there is one, is the first on L0;
/// - every other page with φ0 ≤ φ < c is on Lφ (MRU: on Lφ0), and all other pages in use are on L0;
/// - the ring of left headers is ordered by φ, and no list but L0 is empty.
#[derive(Debug)]
pub struct LeftHeaders<O> {
    /// The left headers by number, first the LH0 of each class.
    headers: Table<LeftHeader>,
    /// Left headers ever made; the spare ones among them are linked through `up`.
    count: u32,
    /// The first spare left header; `NIL` if there is none.
    spare: u32,
    order: PhantomData<O>,
}

impl<O: Order> LeftHeaders<O> {
    /// Returns the left header of this number.
    fn get(&self, left: u32) -> &LeftHeader {
        self.headers.get(left as usize)
    }

    /// Returns the left header of this number, mutably.
    fn get_mut(&mut self, left: u32) -> &mut LeftHeader {
        self.headers.get_mut(left as usize)
    }

    /// Tells the meter that a left header was reached by a link.
    fn visit<M: Meter>(&self, left: u32, meter: &M) {
        meter.visit(self.headers.record(left as usize));
    }

    /// Tells the meter that a left header was reached directly.
    fn touch<M: Meter>(&self, left: u32, meter: &M) {
        meter.touch(self.headers.record(left as usize));
    }

    /// Inserts a page at the head of a left header's list.
    fn insert<F: InPage, B: Below, M: Meter>(
        &mut self,
        left: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) {
        let first = core::mem::replace(&mut self.get_mut(left).first, page);
        let header = pages.headers.header_mut(page);
        (header.next, header.prev, header.left) = (first, NIL, left);
        let header: *const _ = header;
        meter.link_double(header);
        if first != NIL {
            pages.headers.header_mut(first).prev = page;
        }
    }

    /// Takes a page off its list. The left header of an emptied list is removed, except LH0.
    fn remove<F: InPage, B: Below>(&mut self, page: u32, pages: &mut Pages<Numbered<F>, B>) {
        let header = *pages.headers.header(page);
        if header.next != NIL {
            pages.headers.header_mut(header.next).prev = header.prev;
        }
        if header.prev != NIL {
            pages.headers.header_mut(header.prev).next = header.next;
        } else {
            self.get_mut(header.left).first = header.next;
            if header.next == NIL && self.get(header.left).phi > 0 {
                self.drop_left(header.left);
            }
        }
    }

    /// Takes a left header off the ring, and makes it a spare one.
    fn drop_left(&mut self, left: u32) {
        let LeftHeader { up, down, .. } = *self.get(left);
        self.get_mut(up).down = down;
        self.get_mut(down).up = up;
        self.get_mut(left).up = self.spare;
        self.spare = left;
    }

    /// Makes a new left header for φ, below `up` on the ring.
    fn make_left<M: Meter>(&mut self, up: u32, phi: u32, meter: &M) -> u32 {
        let left = if self.spare == NIL {
            self.count += 1;
            self.count - 1
        } else {
            let next = self.get(self.spare).up;
            core::mem::replace(&mut self.spare, next)
        };
        let down = self.get(up).down;
        *self.get_mut(left) = LeftHeader { first: NIL, up, down, phi };
        self.get_mut(up).down = left;
        self.get_mut(down).up = left;
        meter.link_double(self.headers.record(left as usize));
        left
    }

    /// Returns the left header below another on the ring. LH0 is the ring's anchor, not an item on
    /// it.
    fn look_down<M: Meter>(&self, left: u32, meter: &M) -> u32 {
        let down = self.get(left).down;
        if self.get(down).phi > 0 {
            self.visit(down, meter);
        } else {
            self.touch(down, meter);
        }
        down
    }

    /// Returns the left header for φ, whose predecessor on the ring is `up`. Makes it if it is
    /// missing.
    fn left_for<M: Meter>(&mut self, up: u32, phi: u32, meter: &M) -> u32 {
        let down = self.look_down(up, meter);
        if self.get(down).phi == phi { down } else { self.make_left(up, phi, meter) }
    }

    /// Moves a page that is not current to the list of its new φ; returns the same as
    /// [`Selection::freed`].
    fn moved<F: InPage, B: Below, M: Meter>(
        &mut self,
        put: Put,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> bool {
        let Put { page, class, left, free, .. } = put;
        if put.emptied_page() {
            self.remove(page, pages);
            return true;
        }
        let on_l0 = left == class;
        let first = self.get(left).first == page;
        if on_l0 && free < pages.class(class).tolerance || O::MERGED && first {
            return false;
        }
        if O::MERGED && !on_l0 {
            self.remove(page, pages);
            self.insert(left, page, pages, meter);
            return false;
        }
        let alone = !on_l0 && first && pages.headers.header(page).next == NIL;
        if alone && self.get(self.get(left).down).phi != free {
            // The list moves as a whole instead of a new one being made and the old one dropped.
            self.look_down(left, meter);
            self.get_mut(left).phi = free;
            return false;
        }
        let list = self.left_for(left, free, meter);
        self.remove(page, pages);
        self.insert(list, page, pages, meter);
        false
    }

    /// Checks the lists of a class; returns the number of pages on them. O(pages).
    fn audit_class<F: InPage, B: Below>(
        &self,
        class: u32,
        pages: &Pages<Numbered<F>, B>,
    ) -> Result<usize, Fault> {
        let facts = *pages.class(class);
        let mut members = 0;
        let mut left = class;
        loop {
            let LeftHeader { first, down, phi, .. } = *self.get(left);
            let at = self.headers.record(left as usize).addr();
            Fault::unless(self.get(down).up == left, "up undoes down", at)?;
            Fault::unless(first != NIL || phi == 0, "only L0 may be empty", at)?;
            let (mut page, mut prev) = (first, NIL);
            while page != NIL {
                let header = pages.headers.header(page);
                let free = header.free_count;
                let at = pages.headers.base(page).addr();
                Fault::unless(header.prev == prev, "prev undoes next", at)?;
                Fault::unless(header.left == left, "a page knows its left header", at)?;
                Fault::unless(header.class == class, "a page is on a list of its class", at)?;
                let belongs = if phi == 0 {
                    free < facts.tolerance || prev == NIL
                } else if O::MERGED {
                    free >= facts.tolerance && free < facts.capacity
                } else {
                    free == phi && free < facts.capacity
                };
                Fault::unless(belongs, "a page is on the list of its φ", at)?;
                members += 1;
                Fault::unless(members <= pages.count(), "lists end", at)?;
                (prev, page) = (page, header.next);
            }
            if down == class {
                return Ok(members);
            }
            Fault::unless(self.get(down).phi > phi, "left headers are ordered by φ", at)?;
            Fault::unless(self.get(down).phi >= facts.tolerance, "φ ≥ φ0 but on L0", at)?;
            left = down;
        }
    }
}

impl<O: Order> Selection for LeftHeaders<O> {
    const INITIAL: Self = Self { headers: Table::new(), count: 0, spare: NIL, order: PhantomData };

    fn open<S: Source>(
        &mut self,
        classes: usize,
        _seed: u64,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.headers.ensure(classes, source)?;
        self.count = classes as u32;
        for class in 0..self.count {
            *self.get_mut(class) = LeftHeader { first: NIL, up: class, down: class, phi: 0 };
        }
        Ok(())
    }

    fn reserve<S: Source>(
        &mut self,
        _class: u32,
        pages: usize,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        // Besides the LH0s there are at most as many left headers as pages.
        self.headers.ensure(classes + pages, source)
    }

    #[inline(always)]
    fn current<M: Meter>(&self, class: u32, meter: &M) -> Option<u32> {
        self.touch(class, meter);
        let first = self.get(class).first;
        (first != NIL).then_some(first)
    }

    fn choose<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> Option<u32> {
        let anchor = self.get(class);
        let left = if O::MOST { anchor.up } else { anchor.down };
        if left == class {
            return None;
        }
        self.visit(left, meter);
        let page = self.get(left).first;
        self.remove(page, pages);
        Some(page)
    }

    fn make_current<F: InPage, B: Below, M: Meter>(
        &mut self,
        class: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) {
        self.insert(class, page, pages, meter);
    }

    /// The next page on L0, if there is one, takes its place; it has fewer than φ0 free blocks.
    fn retire<F: InPage, B: Below>(
        &mut self,
        _class: u32,
        page: u32,
        pages: &mut Pages<Numbered<F>, B>,
    ) {
        self.remove(page, pages);
    }

    #[inline(always)]
    fn freed<F: InPage, B: Below, M: Meter>(
        &mut self,
        put: Put,
        pages: &mut Pages<Numbered<F>, B>,
        meter: &M,
    ) -> bool {
        self.touch(put.left, meter);
        let current = put.left == put.class && self.get(put.left).first == put.page;
        !current && self.moved(put, pages, meter)
    }

    fn audit<F: InPage, B: Below>(&self, pages: &Pages<Numbered<F>, B>) -> Result<usize, Fault> {
        (0..pages.classes.count() as u32)
            .try_fold(0, |members, class| Ok(members + self.audit_class(class, pages)?))
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests;
