//! A strategy's own source, verified to be unused before.
//!
//! A strategy relies on the alignment of its extent's first byte, reads the data that it wrote into
//! the source, and frees the source's mappings. A source that handed out memory before would break
//! all three: its extent could begin at an unaligned address, or below the strategy's data. The
//! constructor cannot check this, because it is `const`, so the first call that takes memory does.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use super::Source;
use crate::error::AllocError;

/// A source that returns [`AllocError::UsedSource`] if it was used before, and then reports an
/// empty extent. Invariant: `is_used` is set only if all memory that the source ever handed out was
/// taken through this value.
#[derive(Debug)]
pub(crate) struct Owned<S> {
    source: S,
    is_used: bool,
    /// Bytes held by the source after the last change.
    held: usize,
    /// The most bytes held when a mapping was unmapped. Nothing else is ever given back, except
    /// memory of a request that failed.
    peak: usize,
}

impl<S> Owned<S> {
    pub(crate) const fn new(source: S) -> Self {
        Self { source, is_used: false, held: 0, peak: 0 }
    }

    /// Returns the source itself.
    pub(crate) const fn get(&self) -> &S {
        &self.source
    }

    /// Returns the source itself, for changes that do not affect the memory it handed out.
    pub(crate) const fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }
}

impl<S: Source> Owned<S> {
    /// Returns the peak of bytes held.
    #[inline]
    pub(crate) fn peak_held(&self) -> usize {
        self.peak.max(self.held)
    }

    /// Runs `change` on the source if it was not used before, and updates the bytes held.
    fn change<R>(
        &mut self,
        change: impl FnOnce(&mut S) -> Result<R, AllocError>,
    ) -> Result<R, AllocError> {
        let changed = change(self.take()?);
        self.held = self.source.held();
        changed
    }

    /// Returns the source if it was not used before.
    fn take(&mut self) -> Result<&mut S, AllocError> {
        if !self.is_used && self.source.held() > 0 {
            return Err(AllocError::UsedSource);
        }
        self.is_used = true;
        Ok(&mut self.source)
    }
}

// SAFETY: every call is forwarded to a `Source`.
unsafe impl<S: Source> Source for Owned<S> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        self.change(|source| {
            let first = source.extent().is_empty();
            let memory = source.extend(bytes, align)?;
            // Extending an unused source by 0 bytes fixes the start of an extent that is still
            // empty.
            if first && !memory.addr().get().is_multiple_of(align) {
                // SAFETY: these bytes were taken just now, and nothing uses them.
                unsafe { source.retract(bytes) };
                return Err(AllocError::UsedSource);
            }
            Ok(memory)
        })
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.source.retract(bytes) };
        self.held = self.source.held();
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.change(|source| source.dedicate(layout))
    }

    fn extent(&self) -> Range<usize> {
        let Range { start, end } = self.source.extent();
        if self.is_used { start..end } else { start..start }
    }

    fn dedicated(&self) -> Range<usize> {
        let Range { start, end } = self.source.dedicated();
        if self.is_used { start..end } else { end..end }
    }

    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.change(|source| source.map(layout))
    }

    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        self.peak = self.peak_held();
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.source.unmap(block) };
        self.held = self.source.held();
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        if self.is_used {
            self.source.mapped(visit);
        }
    }

    #[inline]
    fn held(&self) -> usize {
        self.held
    }
}
