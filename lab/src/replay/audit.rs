//! Audits a strategy during a replay, as an observer.
//!
//! Every block is filled with its own pattern, which is verified when the block is resized or
//! freed. That detects overlapping blocks, bookkeeping written into blocks, and moves that lose
//! bytes. Blocks above [`WHOLE`] are filled only at both ends: filling them completely would touch
//! memory that the program may never have touched.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;

use pagewise::{Strategy, walk};
use pagewise_replay::workload::Observer;

/// Blocks up to this size in bytes are filled completely; larger ones by half of it at each end.
const WHOLE: usize = 128 << 10;

/// Fills and verifies blocks, and audits the whole heap at intervals.
#[derive(Debug)]
pub(super) struct Audit {
    every: u64,
    operations: u64,
    audits: u64,
    /// Pattern key of each live block, by address.
    keys: HashMap<usize, u64>,
    last_key: u64,
    /// Key of the block being resized.
    resizing: u64,
    /// A fault found where none could be returned.
    fault: Option<String>,
}

impl Audit {
    /// Audits the heap every `every` operations.
    pub(super) fn new(every: u64) -> Self {
        Self {
            every,
            operations: 0,
            audits: 0,
            keys: HashMap::new(),
            last_key: 0,
            resizing: 0,
            fault: None,
        }
    }

    /// Audits for the last time, when every block was freed. Returns the number of audits.
    pub(super) fn finish<S: Strategy + ?Sized>(mut self, strategy: &S) -> Result<u64, String> {
        self.audit(strategy)?;
        match strategy.usage().blocks {
            0 => Ok(self.audits),
            left => Err(format!("every block was freed, but the strategy reports {left} in use")),
        }
    }

    fn audit<S: Strategy + ?Sized>(&mut self, strategy: &S) -> Result<(), String> {
        strategy.audit().map_err(|fault| format!("audit: {fault}"))?;
        walk::check(strategy).map_err(|fault| format!("walk: {fault}"))?;
        self.audits += 1;
        Ok(())
    }

    /// Records and fills a new block.
    fn enter(&mut self, block: NonNull<u8>, layout: Layout, key: u64) {
        let address = block.addr().get();
        if !address.is_multiple_of(layout.align()) {
            self.fault = Some(format!("the block at {address:#x} is not aligned: {layout:?}"));
        }
        if self.keys.insert(address, key).is_some() {
            self.fault = Some(format!("the block at {address:#x} is handed out a second time"));
        }
        for index in filled(layout.size()) {
            // SAFETY: the block is live and longer than `index`.
            unsafe { block.add(index).write(pattern(key, index)) };
        }
    }
}

impl<T: Strategy + ?Sized> Observer<T> for Audit {
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.last_key += 1;
        self.enter(block, layout, self.last_key);
    }

    unsafe fn leaving(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), String> {
        let address = block.addr().get();
        let key = self.keys.remove(&address).ok_or("a block overlaps another")?;
        self.resizing = key;
        verify(block, filled(layout.size()), key)
    }

    unsafe fn resized(
        &mut self,
        block: NonNull<u8>,
        old: usize,
        layout: Layout,
    ) -> Result<(), String> {
        let key = self.resizing;
        let kept = filled(old).filter(|&index| index < layout.size());
        verify(block, kept, key).map_err(|fault| format!("when resized, {fault}"))?;
        self.enter(block, layout, key);
        Ok(())
    }

    fn done(&mut self, strategy: &T) -> Result<(), String> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.operations += 1;
        if self.operations.is_multiple_of(self.every) { self.audit(strategy) } else { Ok(()) }
    }
}

/// Compares bytes of a live block with the pattern; each index is below its size.
fn verify(
    block: NonNull<u8>,
    indices: impl Iterator<Item = usize>,
    key: u64,
) -> Result<(), String> {
    for index in indices {
        // SAFETY: the block is live and longer than `index`.
        if unsafe { block.add(index).read() } != pattern(key, index) {
            let address = block.addr();
            return Err(format!("byte {index} of the block at {address:#x} has changed"));
        }
    }
    Ok(())
}

/// Returns the indices that are filled in a block of this size.
fn filled(size: usize) -> impl Iterator<Item = usize> {
    let end = if size <= WHOLE { size } else { WHOLE / 2 };
    (0..end).chain(end.max(size.saturating_sub(WHOLE / 2))..size)
}

/// Returns the byte at `index` of the block with this key.
fn pattern(key: u64, index: usize) -> u8 {
    // Multiplicative hashing: the top byte depends on every bit of key and index.
    ((key ^ (index as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use pagewise::{AllocError, Fault, Usage, walk::Span};

    use super::*;

    /// Returns the same memory for every request.
    struct Overlapping {
        memory: Box<[u8; 64]>,
        given: usize,
    }

    // SAFETY: it is unsound on purpose; the tests below only write to its memory.
    unsafe impl Strategy for Overlapping {
        fn allocate(&mut self, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.given += 8;
            Ok(NonNull::from(&mut self.memory[self.given - 8..self.given + 8]))
        }
        unsafe fn deallocate(&mut self, _: NonNull<u8>, _: Layout) {}
        unsafe fn resize_in_place(
            &mut self,
            _: NonNull<u8>,
            _: Layout,
            _: usize,
        ) -> Option<NonNull<[u8]>> {
            None
        }
        fn has_block(&self, _: NonNull<u8>, _: Layout) -> bool {
            false
        }
        fn serves_around(&self, _: NonNull<u8>) -> Option<usize> {
            None
        }
        fn usage(&self) -> Usage {
            Usage::default()
        }
        fn walk(&self, _: &mut dyn FnMut(Span)) {}
        fn audit(&self) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn blocks_that_overlap_are_found() {
        use pagewise::trace::Event;
        let allocate = |slot| Event::Allocate { slot, size: 16, align: 1 };
        let workload =
            pagewise_replay::workload::Workload::of(&[allocate(0), allocate(1)]).unwrap();
        let mut strategy = Overlapping { memory: Box::new([0; 64]), given: 0 };
        let stop = super::super::audit(&workload, &mut strategy, 1).unwrap_err();
        let message = stop.to_string();
        assert!(message.starts_with("operation 3: byte 8 of the block at"), "{message}");
    }

    #[test]
    fn large_blocks_are_filled_at_both_ends() {
        assert_eq!(filled(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(filled(WHOLE).count(), WHOLE);
        assert_eq!(filled(10 * WHOLE).count(), WHOLE);
        assert_eq!(filled(10 * WHOLE).last(), Some(10 * WHOLE - 1));
    }
}
