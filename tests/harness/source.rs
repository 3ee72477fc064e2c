//! Sources that strain a strategy: memory runs out at a chosen call, or was used before.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use pagewise::AllocError;
use pagewise::source::{Region, Source};

/// Memory for a fixed region.
pub(crate) struct Memory(Vec<MaybeUninit<u64>>);

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut words = Vec::with_capacity(bytes / 8);
        // SAFETY: the capacity suffices, and the words may stay uninitialised.
        unsafe { words.set_len(bytes / 8) };
        Self(words)
    }

    /// Returns the memory as a region.
    ///
    /// # Safety
    /// There is only one region; neither it nor anything allocated from it is used after the memory
    /// is dropped.
    pub(crate) unsafe fn region(&mut self) -> Region {
        // SAFETY: the caller guarantees it.
        unsafe { self.part(0..self.0.len() * 8) }
    }

    /// Returns the bytes of the memory as a region.
    ///
    /// # Safety
    /// As for [`region`](Self::region); regions do not overlap.
    pub(crate) unsafe fn part(&mut self, bytes: Range<usize>) -> Region {
        assert!(bytes.end <= self.0.len() * 8);
        let base = self.0.as_mut_ptr().cast::<u8>().wrapping_add(bytes.start);
        // SAFETY: the vector's buffer stays in place, and is exclusive by the caller's promise.
        unsafe { Region::new(base, bytes.len()) }
    }
}

/// A source that refuses some of the calls for memory.
pub(crate) struct Refusing<'c, S> {
    source: S,
    /// Calls for memory so far.
    calls: &'c Cell<usize>,
    refused: Range<usize>,
}

/// Refused calls, in all tests of this program.
pub(crate) static REFUSED: AtomicUsize = AtomicUsize::new(0);

impl<'c, S> Refusing<'c, S> {
    /// Refuses the calls numbered `refused`, counted from 0.
    pub(crate) fn new(source: S, calls: &'c Cell<usize>, refused: Range<usize>) -> Self {
        Self { source, calls, refused }
    }

    fn next_call(&mut self) -> Result<&mut S, AllocError> {
        let call = self.calls.replace(self.calls.get() + 1);
        if self.refused.contains(&call) {
            REFUSED.fetch_add(1, Relaxed);
            return Err(AllocError::Exhausted);
        }
        Ok(&mut self.source)
    }
}

// SAFETY: forwards to a source that keeps these promises.
unsafe impl<S: Source> Source for Refusing<'_, S> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        self.next_call()?.extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { self.source.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.next_call()?.dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        self.source.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.source.dedicated()
    }

    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.next_call()?.map(layout)
    }

    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees it.
        unsafe { self.source.unmap(block) };
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        self.source.mapped(visit);
    }

    fn held(&self) -> usize {
        self.source.held()
    }
}

/// The ways to use a region before a strategy gets it.
pub(crate) const USES: [fn(&mut Region); 6] = [
    |region| assert!(region.extend(1, 1).is_ok()),
    |region| assert!(region.extend(3, 1).is_ok()),
    |region| assert!(region.extend(4096, 4096).is_ok()),
    |region| assert!(region.dedicate(Layout::new::<u8>()).is_ok()),
    |region| assert!(region.dedicate(Layout::new::<[u64; 100]>()).is_ok()),
    // The extent begins at an odd address as soon as it has bytes; the region is aligned to 8.
    |region| {
        let odd = region.extend(3, 1).expect("room enough");
        assert!(odd.addr().get().is_multiple_of(8));
        // SAFETY: the two bytes are not in use.
        unsafe { region.retract(2) };
    },
];
