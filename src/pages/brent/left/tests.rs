//! Tests of single left headers, and of audits that find damage to their lists.

use std::cell::Cell;

use super::*;
use crate::meter::Part;
use crate::pages::brent::{CurrentPage, Paged};
use crate::pages::headers::header::PageHeader;
use crate::pages::{Config, brent};
use crate::source::Reserved;

type Heap = Paged<CurrentPage<brent::LeftHeaders<brent::Least>>, Reserved>;

const CLASS: u32 = 3;

/// Makes a heap with four pages, and left headers whose current page is the first of them.
fn listed<O: Order>() -> (Heap, LeftHeaders<O>, [u32; 4]) {
    let mut heap = Heap::new(Config::with_page_size(4096), Reserved::new(1 << 24), ());
    heap.open().expect("there is memory");
    let mut lists = LeftHeaders::<O>::INITIAL;
    let classes = heap.engine.pages.classes.count();
    lists.open(classes, 0, &mut heap.backing.source).expect("there is memory");
    lists.reserve(CLASS, 4, classes, &mut heap.backing.source).expect("there is memory");
    let pages = [(); 4].map(|()| {
        let Heap { engine, backing } = &mut heap;
        engine.pages.acquire(CLASS, backing).expect("there is memory")
    });
    lists.make_current(CLASS, pages[0], &mut heap.engine.pages, &());
    (heap, lists, pages)
}

/// Puts pages with these numbers of free blocks on lists of their own, in this order. Returns the
/// audit's answer.
fn told<O: Order>(free: &[(u32, u32)]) -> &'static str {
    let (mut heap, mut lists, pages) = listed::<O>();
    let mut up = CLASS;
    for (&page, &(phi, free)) in pages[1..].iter().zip(free) {
        up = lists.make_left(up, phi, &());
        lists.insert(up, page, &mut heap.engine.pages, &());
        heap.engine.pages.headers.header_mut(page).free_count = free;
    }
    match lists.audit_class(CLASS, &heap.engine.pages) {
        Ok(members) => {
            assert_eq!(members, 1 + free.len());
            "nothing"
        }
        Err(fault) => fault.invariant,
    }
}

#[test]
fn lists_are_ordered_by_their_free_blocks() {
    assert_eq!(told::<Least>(&[]), "nothing");
    assert_eq!(told::<Least>(&[(1, 1), (2, 2), (5, 5)]), "nothing");
    assert_eq!(told::<Least>(&[(2, 2), (1, 1)]), "left headers are ordered by φ");
    assert_eq!(told::<Least>(&[(2, 2), (2, 2)]), "left headers are ordered by φ");
}

#[test]
fn a_page_is_on_the_list_of_its_free_blocks() {
    let capacity = listed::<Least>().0.engine.pages.class(CLASS).capacity;
    let wrong = "a page is on the list of its φ";
    assert_eq!(told::<Least>(&[(2, 3)]), wrong);
    assert_eq!(told::<Least>(&[(capacity - 1, capacity - 1)]), "nothing");
    assert_eq!(told::<Least>(&[(capacity, capacity)]), wrong, "all are free");
    // `MostRecent` has one list for every φ ≥ φ0.
    assert_eq!(told::<MostRecent>(&[(1, capacity - 1)]), "nothing");
    assert_eq!(told::<MostRecent>(&[(1, 1)]), "nothing");
    assert_eq!(told::<MostRecent>(&[(1, capacity)]), wrong);
    assert_eq!(told::<MostRecent>(&[(1, 0)]), wrong);
}

#[test]
fn damaged_lists_are_told() {
    fn told(damage: impl FnOnce(&mut Heap, &mut LeftHeaders<Least>, [u32; 4])) -> &'static str {
        let (mut heap, mut lists, pages) = listed::<Least>();
        let left = lists.make_left(CLASS, 2, &());
        for &page in &pages[1..3] {
            lists.insert(left, page, &mut heap.engine.pages, &());
            heap.engine.pages.headers.header_mut(page).free_count = 2;
        }
        assert_eq!(lists.audit_class(CLASS, &heap.engine.pages), Ok(3));
        damage(&mut heap, &mut lists, pages);
        lists
            .audit_class(CLASS, &heap.engine.pages)
            .map_or_else(|fault| fault.invariant, |_| "nothing")
    }
    fn header(heap: &mut Heap, page: u32) -> &mut PageHeader {
        heap.engine.pages.headers.header_mut(page)
    }
    let said = told(|heap, _, pages| header(heap, pages[1]).prev = pages[3]);
    assert_eq!(said, "prev undoes next");
    let said = told(|heap, _, pages| header(heap, pages[2]).left = CLASS);
    assert_eq!(said, "a page knows its left header");
    let said = told(|heap, _, pages| header(heap, pages[2]).class = CLASS + 1);
    assert_eq!(said, "a page is on a list of its class");
    let said = told(|_, lists, _| lists.get_mut(CLASS).up = CLASS);
    assert_eq!(said, "up undoes down");
    let said = told(|_, lists, _| {
        let left = lists.get(CLASS).down;
        lists.get_mut(left).first = NIL;
    });
    assert_eq!(said, "only L0 may be empty");
}

/// Dropped left headers serve again before new ones are made, and new ones are counted.
#[test]
fn left_headers_serve_again() {
    let (_heap, mut lists, _) = listed::<Least>();
    let made = lists.count;
    let first = [1, 2, 3].map(|phi| lists.make_left(CLASS, phi, &()));
    assert_eq!((first, lists.count), ([made, made + 1, made + 2], made + 3));
    lists.drop_left(first[1]);
    lists.drop_left(first[0]);
    assert_eq!([4, 5, 6].map(|phi| lists.make_left(CLASS, phi, &())), [made, made + 1, made + 3]);
    // The latest is right below the anchor.
    let mut ring = vec![lists.get(CLASS).down];
    while let Some(&left) = ring.last().filter(|&&left| left != CLASS) {
        assert_eq!(lists.get(lists.get(left).up).down, left);
        ring.push(lists.get(left).down);
    }
    assert_eq!(ring, [made + 3, made + 1, made, made + 2, CLASS]);
}

/// Counts the items visited (Brent §7.2).
#[derive(Default)]
struct Items(Cell<u32>);

// SAFETY: it counts, and the test has few items.
unsafe impl Meter for Items {
    fn item(&self, _: usize, weight: u32) {
        self.0.set(self.0.get() + weight);
    }
    fn served(&self, _: Part) {}
}

/// LH0 is the ring's anchor, not an item on it: to reach it counts nothing.
#[test]
fn an_anchor_is_no_item() {
    let (_heap, mut lists, _) = listed::<Least>();
    let left = lists.make_left(CLASS, 2, &());
    let look = |from| {
        let items = Items::default();
        (lists.look_down(from, &items), items.0.get())
    };
    assert_eq!(look(CLASS), (left, 1));
    assert_eq!(look(left), (CLASS, 0));
}
