//! The interface of a paging strategy: [`Paging`].

/// A simulated memory that takes a reference string.
pub trait Paging {
    /// Refers to a page.
    fn reference(&mut self, page: u64);

    /// Forgets the counts, but not the pages in memory: faults count from here on.
    fn start_counting(&mut self);
}
