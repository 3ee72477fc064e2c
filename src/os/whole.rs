//! Backing of lazy mappings on systems where all of a mapping is accessible from the start: there
//! is nothing to do.

/// How much of a [lazy](crate::os::map_lazily) mapping is backed: here all of it, once touched.
#[derive(Debug)]
pub(crate) struct Backed;

impl Backed {
    pub(crate) const NONE: Self = Self;

    /// Makes the bytes below offset `lower`, and from `upper` to `high`, accessible. Returns
    /// whether they are.
    ///
    /// # Safety
    /// A lazy mapping starts at `base` and is at least `high` bytes long.
    #[inline(always)]
    pub(crate) unsafe fn reach(&mut self, _: *mut u8, _: usize, _: usize, _: usize) -> bool {
        true
    }
}
