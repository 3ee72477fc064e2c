//! Growable arrays in mappings of their own. A profile keeps its data in them, because it must not
//! allocate from the allocator that it samples.

use core::ptr;

use crate::global::native::memory::refused;
use crate::os;

/// The most bytes of an array.
const MOST: usize = 64 << 20;

/// A type whose values may be stored in a [`Grown`].
///
/// # Safety
/// All-zero bits are a valid value of the type.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: 0 is a valid value.
unsafe impl Plain for usize {}
// SAFETY: 0 is a valid value.
unsafe impl Plain for u32 {}
// SAFETY: 0 is a valid value.
unsafe impl Plain for u8 {}

/// An array that grows up to [`MOST`] bytes.
#[derive(Debug)]
pub(super) struct Grown<T> {
    /// The mapping; null if there is none yet.
    start: *mut T,
    /// Number of elements.
    len: usize,
    /// Length of the mapping in bytes.
    bytes: usize,
}

// SAFETY: it owns its mapping exclusively.
unsafe impl<T: Send> Send for Grown<T> {}
// SAFETY: a shared reference only allows reads.
unsafe impl<T: Sync> Sync for Grown<T> {}

impl<T: Plain> Grown<T> {
    /// Makes an empty array, without a mapping.
    pub(super) const fn new() -> Self {
        Self { start: ptr::null_mut(), len: 0, bytes: 0 }
    }

    /// Returns an array of `len` zeros; `None` if there is no memory.
    pub(super) fn zeros(len: usize) -> Option<Self> {
        let mut grown = Self::new();
        grown.reserve(len)?;
        // A new mapping is all zeros.
        grown.len = len;
        Some(grown)
    }

    /// Returns a copy of `other`; `None` if there is no memory.
    pub(super) fn copy_of(other: &[T]) -> Option<Self> {
        let mut grown = Self::new();
        grown.extend(other)?;
        Some(grown)
    }

    pub(super) fn as_slice(&self) -> &[T] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: the first `len` values were written, or are the mapping's zeros.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.start.is_null() {
            return &mut [];
        }
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Appends all of `values`, or none of them if there is no memory.
    pub(super) fn extend(&mut self, values: &[T]) -> Option<()> {
        self.reserve(values.len())?;
        if !values.is_empty() {
            // SAFETY: `reserve` made room, and the mapping belongs to this array alone.
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

    /// Shortens the array to its first `len` values.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes room for `more` further values; `None` if there is no memory.
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
            // SAFETY: the mapping belongs to this array alone.
            let longer = unsafe { os::remap(self.start.cast(), self.bytes, bytes, true) };
            longer.or_else(|| self.copied(bytes))?
        };
        self.start = start.cast();
        self.bytes = bytes;
        Some(())
    }

    /// Copies the values to a new mapping of `bytes` bytes and releases the old one. Needed where
    /// the system cannot extend a mapping.
    fn copied(&self, bytes: usize) -> Option<*mut u8> {
        let start = os::allocate(bytes)?;
        // SAFETY: both mappings have room for the values, and the old one is not used afterwards.
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
            // SAFETY: the mapping belongs to this array, which does not use it afterwards.
            unsafe { refused::release(self.start.cast(), self.bytes) };
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// The capacity doubles, or grows to what is needed, up to the limit; values that do not fit
    /// change nothing.
    #[test]
    fn an_array_grows_up_to_a_bound() {
        alone::passes("global::native::profile::grown::tests::grows");
    }

    #[test]
    #[ignore = "in a process of its own: with 32 bits other tests leave too few addresses"]
    fn grows() {
        let page = os::page_size();
        let mut grown = Grown::<u8>::new();
        assert!(grown.as_slice().is_empty() && grown.as_mut_slice().is_empty());
        let mut add = |values: &[u8], bytes: usize| {
            let len = grown.len;
            grown.extend(values).expect("there is memory");
            assert_eq!((grown.len, grown.bytes), (len + values.len(), bytes));
        };
        add(&[1], page);
        add(&vec![2; page - 1], page);
        add(&[3], 2 * page);
        add(&vec![4; page], 4 * page);
        add(&vec![5; 7 * page], 10 * page);
        add(&vec![6; MOST - 9 * page - 1], MOST);
        assert!(grown.push(7).is_none() && grown.reserve(usize::MAX).is_none());
        assert_eq!((grown.len, grown.bytes), (MOST, MOST));
        let all = grown.as_mut_slice();
        assert_eq!(
            [0, page - 1, page, page + 1, 2 * page + 1, MOST - 1].map(|at| all[at]),
            [1, 2, 3, 4, 5, 6]
        );
        grown.truncate(2);
        assert_eq!(grown.as_slice(), [1, 2]);
        grown.truncate(3);
        assert_eq!(grown.as_slice(), [1, 2]);
        assert!(Grown::<usize>::zeros(MOST / size_of::<usize>() + 1).is_none());
        let copy = Grown::copy_of(&[1_usize, 2]).expect("there is memory");
        assert_eq!(copy.as_slice(), [1, 2]);
    }

    /// An array that is dropped or moved releases its old pages.
    #[test]
    fn an_array_gives_its_pages_back() {
        alone::passes("global::native::profile::grown::tests::given_back");
    }

    #[test]
    #[ignore = "in a process of its own: no other test may map what goes back"]
    fn given_back() {
        let mut grown = Grown::<usize>::zeros(100_000).expect("there is memory");
        assert!(grown.as_slice().iter().all(|&value| value == 0));
        grown.as_mut_slice().fill(7);
        let (start, bytes) = (grown.start, 2 * grown.bytes);
        assert!(os::is_readable(start.cast()));
        let moved: *mut u8 = grown.copied(bytes).expect("there is memory");
        assert!(!os::is_readable(start.cast()));
        (grown.start, grown.bytes) = (moved.cast(), bytes);
        assert_eq!(grown.as_slice(), [7; 100_000]);
        drop(grown);
        assert!(!os::is_readable(moved));
    }
}
