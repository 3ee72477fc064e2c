//! Puts statics in cache lines of their own. Data that every slow path reads must not share a line
//! with data that is written while the program runs: on a machine of many cores, each write takes
//! the line away from all others.
//!
//! The test in `statics` checks that every static of the allocator is apart, or is listed there
//! with the reason why it need not be.

use core::ops::Deref;

/// A value that shares no cache line with another. Aligned to two lines, because processors fetch
/// them in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(in crate::global::native) struct Apart<T>(T);

impl<T> Apart<T> {
    /// Puts a value in cache lines of its own.
    pub(in crate::global::native) const fn new(value: T) -> Self {
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
