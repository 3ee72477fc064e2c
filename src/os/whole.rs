//! Lazy mappings all of which can be touched from the start: the system, or nobody, counts what is not.

/// How much of a [lazy](crate::os::map_lazily) mapping has memory: all of it, once it is touched.
#[derive(Debug)]
pub(crate) struct Backed;

impl Backed {
    pub(crate) const NONE: Self = Self;

    /// Sees to it that there is memory below the offset `lower`, and from `upper` to `high`. Whether there is.
    ///
    /// # Safety
    /// A lazy mapping starts at `base`, and reaches to `high`.
    #[inline(always)]
    pub(crate) unsafe fn reach(&mut self, _: *mut u8, _: usize, _: usize, _: usize) -> bool {
        true
    }
}
