//! The event model of a trace.

/// One event of a trace. Blocks are named by *slots*: small numbers, unique among the live blocks
/// and reused after a free, so that a replay needs a table for the peak number of live blocks,
/// never a map of addresses.
///
/// Slots are assigned deterministically: an allocation takes the slot freed most recently or, if
/// none is free, the lowest one never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block of `size` bytes (possibly 0: C's `malloc(0)`), aligned to `align` bytes (a power of
    /// two), is allocated and gets the free slot `slot`.
    Allocate {
        /// The new block's slot.
        slot: u32,
        /// Requested size, bytes.
        size: u64,
        /// Requested alignment, bytes; a power of two.
        align: u32,
    },
    /// The block in `slot` is resized to `size` bytes; it keeps its alignment and slot.
    Reallocate {
        /// The block's slot.
        slot: u32,
        /// New size, bytes.
        size: u64,
    },
    /// The block in `slot` is freed.
    Free {
        /// The block's slot.
        slot: u32,
    },
    /// The following events, up to the next `Thread`, were made by this thread. A trace begins with
    /// thread 0; threads are numbered in order of their first event.
    Thread {
        /// Number of the thread.
        thread: u32,
    },
    /// The logical clock advances by `ticks` (microseconds of simulated time). Recorded traces have
    /// no ticks: there the event's number is the clock, so that a program recorded twice gives the
    /// same trace. Generated traces have them.
    Tick {
        /// Microseconds since the previous event.
        ticks: u64,
    },
}
