//! Sources that cannot grow: [`FixedSource`].

use super::{Borrowed, Region, Source};

/// A source that cannot grow: [`Region`] or [`Borrowed`].
pub trait FixedSource: Source {
    /// Returns the length of the whole memory in bytes.
    fn len(&self) -> usize;
}

impl FixedSource for Region {
    fn len(&self) -> usize {
        Region::len(self)
    }
}

impl FixedSource for Borrowed<'_> {
    fn len(&self) -> usize {
        Borrowed::len(self)
    }
}
