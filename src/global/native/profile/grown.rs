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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::os::alone;

    /// An array takes twice the room each time, or what it needs, up to a bound; what does not fit changes nothing.
    #[test]
    fn an_array_grows_up_to_a_bound() {
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
        assert!(Grown::<usize>::zeros(MOST / 4).is_none());
        let copy = Grown::copy_of(&[1_usize, 2]).expect("there is memory");
        assert_eq!(copy.as_slice(), [1, 2]);
    }

    /// Nobody has the pages of an array that is dropped, nor of one that was moved.
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
