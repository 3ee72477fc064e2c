//! The interface of a paging strategy: [`Paging`].

/// A simulated memory that receives a reference string.
pub trait Paging {
    /// References a page.
    fn reference(&mut self, page: u64);

    /// Resets the counts, but keeps the pages in memory: faults count from here on.
    fn start_counting(&mut self);
}
