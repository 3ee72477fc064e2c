//! What every paging strategy does: [`Paging`].

/// A simulated memory that takes a reference string.
pub trait Paging {
    /// Refers to a page.
    fn reference(&mut self, page: u64);

    /// Forgets what was counted, not what memory holds: faults count from here on.
    fn start_counting(&mut self);
}
