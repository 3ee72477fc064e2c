//! The event model of a trace.

/// One event of a trace. Blocks are named by *slots*: small numbers, unique among the blocks live
/// at one time and reused after a free, so that a replay needs a table as long as the most blocks
/// live at one time, never a map of addresses.
///
/// A slot is assigned deterministically: an allocation takes the slot freed most recently, or, if
/// none is free, the least never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block of `size` bytes (0 is possible: C's `malloc(0)`), aligned to `align` bytes (a power
    /// of two), is allocated and named by the free slot `slot`.
    Allocate {
        /// Name of the new block.
        slot: u32,
        /// Requested size, bytes.
        size: u64,
        /// Requested alignment, bytes; a power of two.
        align: u32,
    },
    /// The block `slot` changes its size to `size` bytes; its alignment and its slot stay.
    Reallocate {
        /// Name of the block.
        slot: u32,
        /// New size, bytes.
        size: u64,
    },
    /// The block `slot` is freed.
    Free {
        /// Name of the block.
        slot: u32,
    },
    /// The events that follow, up to the next `Thread`, were made by this thread. A trace begins
    /// in thread 0; threads are numbered in order of their first event.
    Thread {
        /// Number of the thread.
        thread: u32,
    },
    /// The logical clock goes on by `ticks` (microseconds of simulated time). Recorded traces have
    /// none: there the number of the event is the clock (a program recorded twice gives the same
    /// trace); generated ones do.
    Tick {
        /// Microseconds since the event before.
        ticks: u64,
    },
}
