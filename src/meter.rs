//! The hook through which a strategy reports what its bookkeeping does: the *items visited* (Brent
//! §7.2) and their addresses. With `()` as the meter it compiles to nothing.
//!
//! Brent counts "items visited on linked lists or added to linked lists (with items added to doubly
//! linked lists given double weight)". Here an item has the following weight:
//!
//! | item | weight |
//! |---|---|
//! | reached by following a link of a list or a tree, or drawn from a pool | 1 |
//! | put on a singly linked list or into a pool | 1 |
//! | put on a doubly linked list | 2 |
//! | a record reached directly, by its index or a block's address: a list's anchor, the header of a freed block's page | 0 |
//!
//! Every report contains the record's address, so the reference string of the bookkeeping itself
//! can be fed to a paging simulator.

use core::cell::Cell;

/// Receives the items that a strategy's bookkeeping visits.
///
/// # Safety
/// A strategy calls its meter in the middle of its updates. Implementers guarantee that no method
/// unwinds, and that none uses the strategy that it meters or the memory at the addresses that it
/// is passed.
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
    /// Reports that an item at `address` was visited or linked. It counts as `weight` items.
    fn item(&self, address: usize, weight: u32);

    /// Reports that this part of the strategy served an allocation or a free. The items since the
    /// last such report belong to it.
    fn served(&self, part: Part);

    /// Reports a record that was reached directly, not as an item of a list.
    #[inline(always)]
    fn touch<T>(&self, record: *const T)
    where
        Self: Sized,
    {
        self.item(record.addr(), 0);
    }

    /// Reports an item that was reached by following a link.
    #[inline(always)]
    fn visit<T>(&self, item: *const T)
    where
        Self: Sized,
    {
        self.item(item.addr(), 1);
    }

    /// Reports an item that was put on a singly linked list.
    #[inline(always)]
    fn link<T>(&self, item: *const T)
    where
        Self: Sized,
    {
        self.item(item.addr(), 1);
    }

    /// Reports an item that was put on a doubly linked list.
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
    /// The free-space area of a lazy fit, where an allocation only increments a pointer.
    Area,
}

// SAFETY: the methods do nothing.
unsafe impl Meter for () {
    #[inline(always)]
    fn item(&self, _: usize, _: u32) {}
    #[inline(always)]
    fn served(&self, _: Part) {}
}

// SAFETY: every call is forwarded to a `Meter`.
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

/// A meter that counts the items visited, in total and for the operations that pages served.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    pending: Cell<u64>,
    items: Cell<u64>,
    paged_items: Cell<u64>,
    operations: Cell<u64>,
    paged_operations: Cell<u64>,
}

impl Counter {
    /// Returns a counter at zero.
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

    /// Returns the items visited by all operations.
    pub fn items(&self) -> u64 {
        self.items.get()
    }

    /// Returns the items visited by the operations that pages served.
    pub fn paged_items(&self) -> u64 {
        self.paged_items.get()
    }

    /// Returns the number of allocations and frees served.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Returns the number of allocations and frees that pages served.
    pub fn paged_operations(&self) -> u64 {
        self.paged_operations.get()
    }
}

// SAFETY: the methods only change the counters, which wrap around instead of overflowing.
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
