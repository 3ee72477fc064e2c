//! A region in borrowed memory: [`Borrowed`].

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::{Region, Source};
use crate::error::AllocError;

/// A region in memory that is borrowed for `'m`. A strategy over it needs no `unsafe`, and cannot
/// outlive the borrow.
#[derive(Debug)]
pub struct Borrowed<'m> {
    region: Region,
    memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

impl<'m> Borrowed<'m> {
    /// Returns a region that consists of `memory`.
    #[must_use]
    pub const fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let len = memory.len();
        // SAFETY: the exclusive borrow lasts as long as the region is used.
        let region = unsafe { Region::new(memory.as_mut_ptr().cast(), len) };
        Self { region, memory: PhantomData }
    }

    /// Returns the region's length in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.region.len()
    }
}

// SAFETY: `Region` is a `Source`, and the memory stays in place while it is borrowed.
unsafe impl Source for Borrowed<'_> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        self.region.extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.region.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.region.dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        self.region.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.region.dedicated()
    }
}
