//! A growable array in dedicated memory whose records never move.
//!
//! Page headers, left headers and tags must be apart from the pages that they describe (Brent §4).
//! They are found by index in O(1), and their number grows with the heap. Reallocating the array
//! would leave its old copy behind, since dedicated memory is never given back. So the array grows
//! by chunks of about a kilobyte, and only the directory of chunks, a hundredth of its size, is
//! ever copied:
//!
//! ```text
//! directory   0 ─▶ | record 0 | record 1 | … | record 2ᵏ − 1 |
//!             1 ─▶ | record 2ᵏ | …
//! ```
//! (Chunks that double in size would need no directory. But finding a chunk took three times the
//! instructions, and a fifth of the memory was unused.)

use core::alloc::Layout;
use core::marker::PhantomData;

use crate::error::AllocError;
use crate::source::Source;

/// A type for which all bits zero is a value. New records are zeroed.
///
/// # Safety
/// All bits zero is a valid value, and the type needs no drop.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: every bit pattern of an integer is a value.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// Bytes of a chunk, unless a record is larger: the most memory that may be unused.
const CHUNK: usize = 1024;

/// Chunks in the first directory.
const FIRST_DIRECTORY: usize = 4;

/// The table. Invariants: `directory` has room for `directory_len` chunks, and its first `chunks`
/// entries are allocated, each with 2^`shift` records. A record is a `T` followed by `tail` words,
/// all initialised; `stride` is its size in bytes.
#[derive(Debug)]
pub(crate) struct Table<T> {
    directory: *mut *mut u8,
    directory_len: u32,
    chunks: u32,
    stride: u32,
    tail: u32,
    shift: u32,
    records: PhantomData<*mut T>,
}

// SAFETY: the table owns its chunks; plain records are tied to no thread.
unsafe impl<T: Plain> Send for Table<T> {}

impl<T: Plain> Table<T> {
    /// Makes an empty table.
    pub(crate) const fn new() -> Self {
        Self::with_tail(0)
    }

    /// Makes an empty table whose records are followed by `tail` words each.
    pub(crate) const fn with_tail(tail: usize) -> Self {
        assert!(tail == 0 || size_of::<T>().is_multiple_of(align_of::<u64>()));
        let stride = size_of::<T>() + tail * size_of::<u64>();
        Self {
            directory: core::ptr::null_mut(),
            directory_len: 0,
            chunks: 0,
            stride: stride as u32,
            tail: tail as u32,
            shift: if stride < CHUNK { (CHUNK / stride).ilog2() } else { 0 },
            records: PhantomData,
        }
    }

    /// Returns the number of records for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        (self.chunks as usize) << self.shift
    }

    /// Takes memory for at least `len` records; new ones are all zero. Amortised O(1) for each new
    /// record.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`]; memory gained so far is kept for the next attempt.
    pub(crate) fn ensure<S: Source>(
        &mut self,
        len: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        while self.capacity() < len {
            if self.chunks == self.directory_len {
                self.grow_directory(source)?;
            }
            let align = align_of::<T>().max(align_of::<u64>());
            let layout = Layout::from_size_align((self.stride as usize) << self.shift, align)
                .map_err(|_| AllocError::Exhausted)?;
            let chunk = source.dedicate(layout)?.as_ptr();
            // SAFETY: the directory has room for more than `chunks` entries.
            unsafe { self.directory.add(self.chunks as usize).write(chunk) };
            self.chunks += 1;
        }
        Ok(())
    }

    #[cold]
    fn grow_directory<S: Source>(&mut self, source: &mut S) -> Result<(), AllocError> {
        let len = FIRST_DIRECTORY.max(2 * self.directory_len as usize);
        let layout = Layout::array::<*mut u8>(len).map_err(|_| AllocError::Exhausted)?;
        let directory = source.dedicate(layout)?.cast::<*mut u8>().as_ptr();
        if self.chunks > 0 {
            // SAFETY: the old directory has `chunks` entries, the new one room for more, and they
            // are disjoint.
            unsafe { directory.copy_from_nonoverlapping(self.directory, self.chunks as usize) };
        }
        self.directory = directory;
        self.directory_len = len as u32;
        Ok(())
    }

    /// Returns the address of a record; the index is below the capacity.
    #[inline(always)]
    pub(crate) fn record(&self, index: usize) -> *mut T {
        debug_assert!(index < self.capacity(), "table index out of range");
        // SAFETY: the chunk of an index below the capacity is in the directory.
        let chunk = unsafe { *self.directory.add(index >> self.shift) };
        let within = index & ((1 << self.shift) - 1);
        chunk.wrapping_add(within * self.stride as usize).cast()
    }

    /// Returns a record.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> &T {
        // SAFETY: the record was zero-initialised or written since; `&self` excludes writers.
        unsafe { &*self.record(index) }
    }

    /// Returns a record, mutably.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: as `get`; `&mut self` excludes other references.
        unsafe { &mut *self.record(index) }
    }

    /// Returns the words behind a record.
    #[inline(always)]
    pub(crate) fn tail(&self, index: usize) -> &[u64] {
        // SAFETY: by the invariant the record is followed by this many initialised words, and
        // `&self` excludes writers.
        unsafe { core::slice::from_raw_parts(self.record(index).add(1).cast(), self.tail as usize) }
    }

    /// Returns a record and the words behind it, mutably.
    #[inline(always)]
    pub(crate) fn record_and_tail(&mut self, index: usize) -> (&mut T, &mut [u64]) {
        let record = self.record(index);
        // SAFETY: as `get_mut` and `tail`; record and words are disjoint.
        unsafe {
            let tail = core::slice::from_raw_parts_mut(record.add(1).cast(), self.tail as usize);
            (&mut *record, tail)
        }
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::Reserved;

    #[test]
    fn records_are_zeroed_distinct_and_stay() {
        let mut source = Reserved::new(1 << 24);
        let mut table = Table::<u32>::new();
        assert_eq!(table.capacity(), 0);
        for len in [1, 16, 17, 1000, 100_000] {
            table.ensure(len, &mut source).unwrap();
            assert!(table.capacity() >= len && table.capacity() < len + CHUNK / 4);
            assert_eq!(*table.get(len - 1), 0);
            *table.get_mut(len - 1) = len as u32;
        }
        for len in [1, 16, 17, 1000, 100_000] {
            assert_eq!(*table.get(len - 1), len as u32);
        }
    }

    #[test]
    fn records_and_their_tails_do_not_overlap() {
        let mut source = Reserved::new(1 << 24);
        let mut table = Table::<u64>::with_tail(3);
        table.ensure(500, &mut source).unwrap();
        for index in 0..500 {
            let (record, tail) = table.record_and_tail(index);
            *record = index as u64;
            tail.fill(!(index as u64));
        }
        for index in 0..500 {
            assert_eq!(*table.get(index), index as u64);
            assert_eq!(table.tail(index), [!(index as u64); 3]);
        }
    }

    #[test]
    fn exhaustion_keeps_what_there_was() {
        let mut source = Reserved::new(1 << 16);
        let mut table = Table::<u64>::new();
        assert_eq!(table.ensure(1 << 20, &mut source), Err(AllocError::Exhausted));
        let capacity = table.capacity();
        assert!(capacity > 0);
        *table.get_mut(capacity - 1) = 7;
    }
}
