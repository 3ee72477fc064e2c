//! What the allocator has in use and holds.

use core::fmt;

/// What the process has allocated. Bytes, unless said otherwise. Threads go on while it is
/// gathered, so the figures agree with each other only where none does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks in use (number).
    pub blocks: usize,
    /// Bytes of the blocks in use, as the program got them.
    pub live: usize,
    /// Bytes of free blocks that quick lists keep at hand.
    pub quick: usize,
    /// Address space in use by heaps and mappings: blocks, free memory and bookkeeping.
    pub held: usize,
    /// The most that heaps and mappings ever held, each counted at its own most.
    pub peak_held: usize,
    /// Free memory given back to the system since the beginning.
    pub purged: u64,
    /// Bytes of mappings of their own, in use.
    pub mapped: usize,
    /// Heaps opened (number).
    pub heaps: usize,
    /// Quick lists of threads, running or ended (number).
    pub threads: usize,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pagewise: {} blocks in use, {} KiB", self.blocks, self.live >> 10)?;
        writeln!(f, "pagewise: {} KiB on the quick lists of {} threads", self.quick >> 10, {
            self.threads
        })?;
        writeln!(
            f,
            "pagewise: {} KiB held by {} heaps and mappings of {} KiB; at most {} KiB",
            self.held >> 10,
            self.heaps,
            self.mapped >> 10,
            self.peak_held >> 10
        )?;
        write!(f, "pagewise: {} KiB given back to the system", self.purged >> 10)
    }
}
