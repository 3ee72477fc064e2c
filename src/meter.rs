//! The hook through which a strategy tells what its bookkeeping does: *items visited* (Brent §7.2)
//! and the addresses it looks at. With `()` for a meter it compiles to nothing.
//!
//! An *item* is a record on a list or a node of a tree. Looking at one counts 1; putting one on a
//! singly linked list counts 1, on a doubly linked list 2 ("items added to doubly linked lists
//! given double weight"). Every report carries the item's address, so that the bookkeeping's own
//! reference string can be fed to a paging simulator.

use core::cell::Cell;

/// Receives what a strategy's bookkeeping visits.
pub trait Meter {
    /// An item at `address` was looked at or linked; it counts `weight` items.
    fn item(&self, address: usize, weight: u32);

    /// An allocation or a free was served by this part of the strategy; the items since the last
    /// such report belong to it.
    fn served(&self, part: Part);

    /// An item was looked at.
    #[inline(always)]
    fn visit<T>(&self, item: *const T)
    where
        Self: Sized,
    {
        self.item(item.addr(), 1);
    }

    /// An item was put on a singly linked list.
    #[inline(always)]
    fn link<T>(&self, item: *const T)
    where
        Self: Sized,
    {
        self.item(item.addr(), 1);
    }

    /// An item was put on a doubly linked list.
    #[inline(always)]
    fn link_double<T>(&self, item: *const T)
    where
        Self: Sized,
    {
        self.item(item.addr(), 2);
    }
}

/// The parts of a strategy that serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Pages carved into equal blocks.
    Pages,
    /// A fit strategy over blocks of any size.
    Fit,
}

impl Meter for () {
    #[inline(always)]
    fn item(&self, _: usize, _: u32) {}
    #[inline(always)]
    fn served(&self, _: Part) {}
}

impl<M: Meter + ?Sized> Meter for &M {
    #[inline(always)]
    fn item(&self, address: usize, weight: u32) {
        (**self).item(address, weight);
    }
    #[inline(always)]
    fn served(&self, part: Part) {
        (**self).served(part);
    }
}

/// A meter that counts items visited, in all and for what pages served.
#[derive(Debug, Default)]
pub struct Counter {
    pending: Cell<u64>,
    items: Cell<u64>,
    paged_items: Cell<u64>,
    operations: Cell<u64>,
    paged_operations: Cell<u64>,
}

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pending: Cell::new(0),
            items: Cell::new(0),
            paged_items: Cell::new(0),
            operations: Cell::new(0),
            paged_operations: Cell::new(0),
        }
    }

    /// Items visited by all operations.
    pub fn items(&self) -> u64 {
        self.items.get()
    }

    /// Items visited by the operations that pages served.
    pub fn paged_items(&self) -> u64 {
        self.paged_items.get()
    }

    /// Allocations and frees served.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Allocations and frees served by pages.
    pub fn paged_operations(&self) -> u64 {
        self.paged_operations.get()
    }
}

impl Meter for Counter {
    fn item(&self, _: usize, weight: u32) {
        self.pending.set(self.pending.get() + u64::from(weight));
    }

    fn served(&self, part: Part) {
        let items = self.pending.replace(0);
        self.items.set(self.items.get() + items);
        self.operations.set(self.operations.get() + 1);
        if part == Part::Pages {
            self.paged_items.set(self.paged_items.get() + items);
            self.paged_operations.set(self.paged_operations.get() + 1);
        }
    }
}
