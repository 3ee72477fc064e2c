//! A growable array in dedicated memory for each size class; any item can be removed.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::table::{Plain, Table};
use crate::error::AllocError;
use crate::source::Source;

/// One class's array. The table itself is in dedicated memory as well: most classes never need one.
#[derive(Debug)]
struct Pool<T> {
    table: Option<NonNull<Table<T>>>,
    len: u32,
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pool<T> {}

// SAFETY: all bits zero is an empty pool without a table.
unsafe impl<T> Plain for Pool<T> {}

/// The arrays. Invariant: a class's table, once there, has a capacity of at least its `len`.
#[derive(Debug)]
pub(crate) struct Pools<T>(Table<Pool<T>>);

impl<T: Plain> Pools<T> {
    pub(crate) const fn new() -> Self {
        Self(Table::new())
    }

    /// Takes memory for this many empty pools.
    pub(crate) fn open<S: Source>(
        &mut self,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.0.ensure(classes, source)
    }

    /// Takes memory for a class's pool to hold `capacity` items, so that pushing cannot fail.
    pub(crate) fn reserve<S: Source>(
        &mut self,
        class: u32,
        capacity: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        let pool = self.0.get_mut(class as usize);
        let mut table = match pool.table {
            Some(table) => table,
            None => {
                let table = source.dedicate(Layout::new::<Table<T>>())?.cast::<Table<T>>();
                // SAFETY: the memory was dedicated just now for such a table.
                unsafe { table.write(Table::new()) };
                *pool.table.insert(table)
            }
        };
        // SAFETY: the table was initialised above or earlier, and `&mut self` is exclusive.
        unsafe { table.as_mut() }.ensure(capacity, source)
    }

    pub(crate) fn len(&self, class: u32) -> u32 {
        self.0.get(class as usize).len
    }

    pub(crate) fn get(&self, class: u32, index: u32) -> T {
        *self.table(class).get(index as usize)
    }

    pub(crate) fn set(&mut self, class: u32, index: u32, item: T) {
        let record = self.table(class).record(index as usize);
        // SAFETY: the record lies in the table's memory, and `&mut self` is exclusive.
        unsafe { record.write(item) };
    }

    /// Returns the address of an item.
    pub(crate) fn address(&self, class: u32, index: u32) -> *const T {
        self.table(class).record(index as usize)
    }

    /// Appends an item; there must be [capacity](Self::reserve) for it. Returns its index.
    pub(crate) fn push(&mut self, class: u32, item: T) -> u32 {
        let index = self.len(class);
        self.set(class, index, item);
        self.0.get_mut(class as usize).len += 1;
        index
    }

    /// Takes the item at `index` out; the last one moves into its place.
    pub(crate) fn swap_remove(&mut self, class: u32, index: u32) -> T {
        let item = self.get(class, index);
        let last = self.len(class) - 1;
        self.set(class, index, self.get(class, last));
        self.0.get_mut(class as usize).len = last;
        item
    }

    fn table(&self, class: u32) -> &Table<T> {
        let table = self.0.get(class as usize).table;
        let table = table.expect("a pool is reserved before it is used");
        // SAFETY: `reserve` initialised it, in memory that is never given back.
        unsafe { table.as_ref() }
    }
}
