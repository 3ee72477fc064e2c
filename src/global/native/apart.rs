//! Statics in cache lines of their own. What every slow path reads must not lie in a line that is written while the
//! program runs: on a machine of many cores each write takes the line away from all others.
//!
//! `statics` holds that every static of the allocator that may be written lies apart, or says why it need not.

use core::ops::Deref;

/// A value that shares no cache line with another: two lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Apart<T>(T);

impl<T> Apart<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
