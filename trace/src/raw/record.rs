//! The records of a recorder: [`Record`].

/// One record of a raw log. Addresses are those of the recorded program; 0 is C's null pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block was allocated.
    Allocated {
        /// Its address.
        address: u64,
        /// Bytes requested.
        size: u64,
        /// Alignment requested, as the exponent of a power of two. A trace has 31 at most; larger
        /// ones count as 31.
        align_log2: u8,
    },
    /// A block is about to be freed.
    Freeing {
        /// Its address.
        address: u64,
    },
    /// A block is about to be reallocated.
    Reallocating {
        /// Its address; 0 if there is no block yet.
        address: u64,
        /// Bytes requested; any number, since the request may fail.
        size: u64,
        /// Its alignment, as the exponent of a power of two; needed if the block is new or was
        /// allocated before the log began.
        align_log2: u8,
    },
    /// The latest reallocation that this thread has begun is finished.
    Reallocated {
        /// The block's address now; 0 if the reallocation failed and the block is unchanged, or if
        /// the new size was 0 and the block was freed.
        address: u64,
    },
}
