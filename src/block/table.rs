//! A growable array in dedicated memory whose records never move.
//!
//! Page headers, left headers and tags must lie apart from the pages they describe (Brent §4), be
//! found by index in O(1), and grow with the heap. A reallocated array would leave its old copies
//! behind, since dedicated memory is never given back; this table grows by chunks instead, four
//! chunks for every doubling, so that at most a quarter of it lies idle:
//!
//! ```text
//! chunk     0      1      2      3      4      5      …
//! records  0‥15  16‥31  32‥47  48‥63  64‥95  96‥127   …      index + 64 = 1mm…ooo₂
//! ```
//! With `index + FIRST` written in binary, the position of its leading one and the two bits behind
//! it (`mm`) name the chunk, the rest (`ooo`) the record in it.

use core::alloc::Layout;
use core::marker::PhantomData;

use crate::source::Source;
use crate::strategy::AllocError;

/// A type for which all bits zero is a value. Records are born zeroed.
///
/// # Safety
/// All bits zero is a valid value, and the type needs no drop.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: every bit pattern of an integer is a value.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for usize {}

/// log₂ of what is added to an index: the first doubling has this many records.
const FIRST_SHIFT: u32 = 6;
/// Chunks for up to 2³² records.
const CHUNKS: usize = 4 * (32 - FIRST_SHIFT as usize);

/// The table. Invariants: chunk j is allocated iff j < `chunks_used`; a record index is valid iff
/// it is below `capacity()`; a record is a `T` followed by `tail` zero-initialised `u64` words.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: [*mut u8; CHUNKS],
    chunks_used: u32,
    /// Bytes from one record to the next.
    stride: u32,
    records: PhantomData<*mut T>,
}

// SAFETY: the table owns its chunks; plain records are tied to no thread.
unsafe impl<T: Plain> Send for Table<T> {}

impl<T: Plain> Table<T> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self::with_tail(0)
    }

    /// An empty table whose records are followed by `tail` words each.
    pub(crate) const fn with_tail(tail: usize) -> Self {
        assert!(tail == 0 || size_of::<T>().is_multiple_of(align_of::<u64>()));
        Self {
            chunks: [core::ptr::null_mut(); CHUNKS],
            chunks_used: 0,
            stride: (size_of::<T>() + tail * size_of::<u64>()) as u32,
            records: PhantomData,
        }
    }

    /// Number of records there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        // The chunk that would come next starts here.
        let (exponent, quarter) = (self.chunks_used / 4, self.chunks_used % 4);
        ((4 + quarter as usize) << (FIRST_SHIFT - 2 + exponent)) - (1 << FIRST_SHIFT)
    }

    /// Takes memory for at least `len` records; new ones are all zero.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`]; chunks gained so far are kept for the next attempt.
    pub(crate) fn ensure<S: Source>(
        &mut self,
        len: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        while self.capacity() < len {
            let used = self.chunks_used as usize;
            if used == CHUNKS {
                return Err(AllocError::Exhausted);
            }
            let records = 1usize << (FIRST_SHIFT as usize - 2 + used / 4);
            let align = align_of::<T>().max(align_of::<u64>());
            let layout = Layout::from_size_align(records * self.stride as usize, align)
                .map_err(|_| AllocError::Exhausted)?;
            self.chunks[used] = source.dedicate(layout)?.as_ptr();
            self.chunks_used += 1;
        }
        Ok(())
    }

    /// Address of a record.
    #[inline(always)]
    pub(crate) fn record(&self, index: usize) -> *mut T {
        let place = index + (1 << FIRST_SHIFT);
        let exponent = place.ilog2();
        let chunk = (exponent - FIRST_SHIFT) as usize * 4 + ((place >> (exponent - 2)) & 3);
        let offset = place & ((1 << (exponent - 2)) - 1);
        assert!(chunk < self.chunks_used as usize, "table index out of range");
        // SAFETY: the chunk is allocated and has 2^(exponent − 2) records, more than `offset`.
        unsafe { self.chunks[chunk].add(offset * self.stride as usize).cast() }
    }

    /// A record.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> &T {
        // SAFETY: the record was zero-initialised or written since; `&self` excludes writers.
        unsafe { &*self.record(index) }
    }

    /// A record, to change.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: as `get`; `&mut self` excludes other references.
        unsafe { &mut *self.record(index) }
    }

    /// The words behind a record.
    #[inline(always)]
    pub(crate) fn tail(&self, index: usize) -> &[u64] {
        // SAFETY: by the invariant the record is followed by this many initialised words, and
        // `&self` excludes writers.
        unsafe { core::slice::from_raw_parts(self.record(index).add(1).cast(), self.tail_words()) }
    }

    /// The words behind a record, to change, together with the record.
    #[inline(always)]
    pub(crate) fn record_and_tail(&mut self, index: usize) -> (&mut T, &mut [u64]) {
        let record = self.record(index);
        // SAFETY: as `get_mut` and `tail`; record and words are disjoint.
        unsafe {
            let tail = core::slice::from_raw_parts_mut(record.add(1).cast(), self.tail_words());
            (&mut *record, tail)
        }
    }

    fn tail_words(&self) -> usize {
        (self.stride as usize - size_of::<T>()) / size_of::<u64>()
    }
}

#[cfg(all(test, feature = "std", unix))]
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
            assert!(table.capacity() >= len && table.capacity() <= len * 5 / 4 + 16);
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
        let mut source = Reserved::new(4096);
        let mut table = Table::<u64>::new();
        assert_eq!(table.ensure(1 << 20, &mut source), Err(AllocError::Exhausted));
        let capacity = table.capacity();
        assert!(capacity > 0);
        *table.get_mut(capacity - 1) = 7;
    }
}
