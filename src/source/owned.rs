//! A strategy's own source: nobody used it before.
//!
//! A strategy computes with the alignment of the first byte of its extent, reads what it wrote there,
//! and frees the mappings of its source. A source that handed out memory before would break all
//! three: the extent could begin at an odd address, or below what the strategy writes. A constructor
//! cannot ask, since it is `const`; so the first call that takes memory does.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use super::Source;
use crate::error::AllocError;

/// A source that answers [`AllocError::UsedSource`] if it was used before, and then tells of nothing
/// that was handed out. Invariant: `taken` only if all that the source ever handed out went through
/// here.
#[derive(Debug)]
pub(crate) struct Owned<S> {
    source: S,
    taken: bool,
    /// Bytes held, as the source told after the last change.
    held: usize,
    /// The most bytes that were held when a mapping was given back: nothing else ever is, but what
    /// was taken in vain.
    peak: usize,
}

impl<S> Owned<S> {
    pub(crate) const fn new(source: S) -> Self {
        Self { source, taken: false, held: 0, peak: 0 }
    }

    /// The source itself.
    pub(crate) const fn get(&self) -> &S {
        &self.source
    }

    /// The source itself, to tell it something that changes nothing of what it handed out.
    pub(crate) const fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }
}

impl<S: Source> Owned<S> {
    /// The most bytes that were ever held.
    #[inline]
    pub(crate) fn peak_held(&self) -> usize {
        self.peak.max(self.held)
    }

    /// Does something with the source, if it was not used before, and notes what is held then.
    fn change<R>(
        &mut self,
        change: impl FnOnce(&mut S) -> Result<R, AllocError>,
    ) -> Result<R, AllocError> {
        let changed = change(self.take()?);
        self.held = self.source.held();
        changed
    }

    /// The source, if it was not used before.
    fn take(&mut self) -> Result<&mut S, AllocError> {
        if !self.taken && self.source.held() > 0 {
            return Err(AllocError::UsedSource);
        }
        self.taken = true;
        Ok(&mut self.source)
    }
}

// SAFETY: the source's own promises.
unsafe impl<S: Source> Source for Owned<S> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        self.change(|source| {
            let first = source.extent().is_empty();
            let memory = source.extend(bytes, align)?;
            // An extension by nothing has fixed the start of an extent that is still empty.
            if first && !memory.addr().get().is_multiple_of(align) {
                // SAFETY: these bytes were taken just now and nothing uses them.
                unsafe { source.retract(bytes) };
                return Err(AllocError::UsedSource);
            }
            Ok(memory)
        })
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: passed on.
        unsafe { self.source.retract(bytes) };
        self.held = self.source.held();
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.change(|source| source.dedicate(layout))
    }

    fn extent(&self) -> Range<usize> {
        let Range { start, end } = self.source.extent();
        if self.taken { start..end } else { start..start }
    }

    fn dedicated(&self) -> Range<usize> {
        let Range { start, end } = self.source.dedicated();
        if self.taken { start..end } else { end..end }
    }

    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.change(|source| source.map(layout))
    }

    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        self.peak = self.peak_held();
        // SAFETY: passed on.
        unsafe { self.source.unmap(block) };
        self.held = self.source.held();
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        if self.taken {
            self.source.mapped(visit);
        }
    }

    #[inline]
    fn held(&self) -> usize {
        self.held
    }
}
