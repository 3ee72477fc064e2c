//! Arrays in mappings of their own: what a profile keeps must not be allocated where it samples.

use core::ptr;

use super::super::refused;
use crate::os;

/// Bytes that an array may take.
const MOST: usize = 64 << 20;

/// What may lie in an array.
///
/// # Safety
/// All bits zero is a value.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for usize {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}

/// An array that grows, up to [`MOST`].
#[derive(Debug)]
pub(super) struct Grown<T> {
    /// The mapping; null as long as there is none.
    start: *mut T,
    len: usize,
    /// Bytes of the mapping.
    bytes: usize,
}

// SAFETY: it owns its mapping, which nobody else reaches.
unsafe impl<T: Send> Send for Grown<T> {}
// SAFETY: through a shared reference it is only read.
unsafe impl<T: Sync> Sync for Grown<T> {}

impl<T: Plain> Grown<T> {
    pub(super) const fn new() -> Self {
        Self { start: ptr::null_mut(), len: 0, bytes: 0 }
    }

    /// `len` zeros; `None` if there is no memory.
    pub(super) fn zeros(len: usize) -> Option<Self> {
        let mut grown = Self::new();
        grown.reserve(len)?;
        // A fresh mapping is zeros.
        grown.len = len;
        Some(grown)
    }

    /// As another; `None` if there is no memory.
    pub(super) fn copy_of(other: &[T]) -> Option<Self> {
        let mut grown = Self::new();
        grown.extend(other)?;
        Some(grown)
    }

    pub(super) fn as_slice(&self) -> &[T] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: the first `len` values were written, or are zeros.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.start.is_null() {
            return &mut [];
        }
        // SAFETY: as above; nobody else reaches them.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Adds all of these, or none if there is no memory.
    pub(super) fn extend(&mut self, values: &[T]) -> Option<()> {
        self.reserve(values.len())?;
        if !values.is_empty() {
            // SAFETY: there is room, in a mapping of our own.
            unsafe {
                self.start.add(self.len).copy_from_nonoverlapping(values.as_ptr(), values.len());
            }
        }
        self.len += values.len();
        Some(())
    }

    pub(super) fn push(&mut self, value: T) -> Option<()> {
        self.extend(&[value])
    }

    /// Has only the first `len` values left.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes room for `more` values beyond those there are; `None` if there is no memory.
    pub(super) fn reserve(&mut self, more: usize) -> Option<()> {
        let needed = self.len.checked_add(more)?.checked_mul(size_of::<T>())?;
        if needed <= self.bytes {
            return Some(());
        }
        if needed > MOST {
            return None;
        }
        let bytes = needed.max(2 * self.bytes).min(MOST).next_multiple_of(os::page_size());
        let start = if self.start.is_null() {
            os::allocate(bytes)?
        } else {
            // SAFETY: the mapping is ours alone.
            let longer = unsafe { os::remap(self.start.cast(), self.bytes, bytes, true) };
            longer.or_else(|| self.copied(bytes))?
        };
        self.start = start.cast();
        self.bytes = bytes;
        Some(())
    }

    /// Copies the values to a new mapping of `bytes` bytes, and releases the old one: not every system can make a
    /// mapping longer.
    fn copied(&self, bytes: usize) -> Option<*mut u8> {
        let start = os::allocate(bytes)?;
        // SAFETY: both mappings have room for the values, and the old one is not used any more.
        unsafe {
            start.copy_from_nonoverlapping(self.start.cast(), self.len * size_of::<T>());
            refused::release(self.start.cast(), self.bytes);
        }
        Some(start)
    }
}

impl<T> Drop for Grown<T> {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: the mapping is ours, and not used any more.
            unsafe { refused::release(self.start.cast(), self.bytes) };
        }
    }
}
