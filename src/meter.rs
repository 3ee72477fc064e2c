//! The hook through which a strategy tells what its bookkeeping does: *items visited* (Brent §7.2)
//! and the addresses it looks at. With `()` for a meter it compiles to nothing.
//!
//! Brent counts "items visited on linked lists or added to linked lists (with items added to doubly
//! linked lists given double weight)". So here:
//!
//! | what | weight |
//! |---|---|
//! | an item reached by following a link, of a list or a tree, or drawn from a pool | 1 |
//! | an item put on a singly linked list or into a pool | 1 |
//! | an item put on a doubly linked list | 2 |
//! | a record reached directly, by its index or a block's address: a list's anchor, the header of a freed block's page | 0 |
//!
//! Every report carries the record's address, so that the bookkeeping's own reference string can
//! be fed to a paging simulator.

use core::cell::Cell;

/// Receives what a strategy's bookkeeping visits.
///
/// # Safety
/// A strategy calls its meter in the middle of its updates. An implementer promises that no method
/// unwinds, and that none uses the strategy it meters or what is behind the addresses it is told.
///
/// ```compile_fail,E0200
/// struct Panicking;
/// impl pagewise::meter::Meter for Panicking {
///     fn item(&self, _: usize, _: u32) {
///         panic!("in the middle of an update");
///     }
///     fn served(&self, _: pagewise::meter::Part) {}
/// }
/// ```
pub unsafe trait Meter {
    /// An item at `address` was looked at or linked; it counts `weight` items.
    fn item(&self, address: usize, weight: u32);

    /// An allocation or a free was served by this part of the strategy; the items since the last
    /// such report belong to it.
    fn served(&self, part: Part);

    /// A record was reached directly, not as an item of a list.
    #[inline(always)]
    fn touch<T>(&self, record: *const T)
    where
        Self: Sized,
    {
        self.item(record.addr(), 0);
    }

    /// An item was reached by following a link.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Pages carved into equal blocks.
    Pages,
    /// A fit strategy over blocks of any size.
    Fit,
    /// The free-space area of a lazy fit, by the increment of a pointer.
    Area,
}

// SAFETY: nothing is done.
unsafe impl Meter for () {
    #[inline(always)]
    fn item(&self, _: usize, _: u32) {}
    #[inline(always)]
    fn served(&self, _: Part) {}
}

// SAFETY: the meter's own promise.
unsafe impl<M: Meter + ?Sized> Meter for &M {
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
#[derive(Clone, Debug, Default)]
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

// SAFETY: counts are added up without a check for overflow, and nothing else is used.
unsafe impl Meter for Counter {
    fn item(&self, _: usize, weight: u32) {
        self.pending.set(self.pending.get().wrapping_add(u64::from(weight)));
    }

    fn served(&self, part: Part) {
        let items = self.pending.replace(0);
        self.items.set(self.items.get().wrapping_add(items));
        self.operations.set(self.operations.get().wrapping_add(1));
        if part == Part::Pages {
            self.paged_items.set(self.paged_items.get().wrapping_add(items));
            self.paged_operations.set(self.paged_operations.get().wrapping_add(1));
        }
    }
}
