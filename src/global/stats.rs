//! Statistics of the global allocator: [`Stats`] for the process, [`ClassStats`] for each size
//! class.

use core::fmt;

/// Statistics of the process. All figures are in bytes unless they say otherwise. Other threads
/// keep running while the figures are collected, so they are consistent with each other only if no
/// other thread allocates or frees meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stats {
    /// Number of blocks in use.
    pub blocks: usize,
    /// Bytes of the blocks in use; a block may be longer than the program asked for.
    pub live: usize,
    /// Bytes of the free blocks on quick lists and, in hardened mode, in quarantine.
    pub quick: usize,
    /// Bytes of address space that heaps and mappings use: blocks, free memory and bookkeeping.
    pub held: usize,
    /// The sum of the peaks of bytes held: of each heap, and of the mappings. The peaks need not
    /// have been reached at the same time.
    pub peak_held: usize,
    /// Bytes of the heaps' OS pages that are resident, that is, backed by physical memory. Mappings
    /// of single blocks are not included.
    pub resident: usize,
    /// Bytes of free memory given back to the system since the start. On systems that do not tell
    /// which pages are resident, all memory that was free counts as given back.
    pub purged: u64,
    /// Bytes of blocks in use that are mappings of their own.
    pub mapped: usize,
    /// Number of blocks in use that are mappings of their own.
    pub mappings: usize,
    /// Number of heaps opened.
    pub heaps: usize,
    /// Number of sets of quick lists: one for each running thread, and those of ended threads that
    /// wait for a new thread.
    pub threads: usize,
}

/// Statistics of one size class, over all heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ClassStats {
    /// Size of the class's blocks in bytes.
    pub size: usize,
    /// Number of blocks in use.
    pub blocks: usize,
    /// Number of free blocks on quick lists.
    pub quick: usize,
    /// Number of pages that serve the class.
    pub pages: usize,
    /// Bytes of those pages.
    pub held: usize,
}

/// Writes a summary, one figure or pair of figures to a line.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |bytes: usize| bytes >> 10;
        let Self { blocks, threads, mappings, heaps, .. } = self;
        writeln!(f, "pagewise: {blocks:>12} blocks in use")?;
        writeln!(f, "pagewise: {:>12} KiB in use", kib(self.live))?;
        writeln!(
            f,
            "pagewise: {:>12} KiB of that in {mappings} mappings of their own",
            kib(self.mapped)
        )?;
        writeln!(f, "pagewise: {:>12} KiB on quick lists of {threads} threads", kib(self.quick))?;
        writeln!(f, "pagewise: {:>12} KiB held, by {heaps} heaps and by mappings", kib(self.held))?;
        writeln!(f, "pagewise: {:>12} KiB held at most", kib(self.peak_held))?;
        writeln!(f, "pagewise: {:>12} KiB resident in heaps", kib(self.resident))?;
        write!(f, "pagewise: {:>12} KiB given back to the system", self.purged >> 10)
    }
}

/// Writes one row of a table: block size, blocks in use, blocks on quick lists, pages, KiB of those
/// pages.
impl fmt::Display for ClassStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, blocks, quick, pages, held } = self;
        write!(f, "pagewise: {size:>12} {blocks:>12} {quick:>12} {pages:>12} {:>12}", held >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure appears in its line, bytes as whole KiB.
    #[test]
    fn figures_are_shown_as_they_are() {
        let kib = |kib: usize| kib << 10 | 1023;
        let stats = Stats {
            blocks: 3,
            live: kib(5),
            mapped: kib(7),
            mappings: 11,
            quick: kib(13),
            held: kib(17),
            peak_held: kib(19),
            resident: kib(23),
            purged: 29 << 10,
            heaps: 31,
            threads: 37,
        };
        let lines = [
            "pagewise:            3 blocks in use",
            "pagewise:            5 KiB in use",
            "pagewise:            7 KiB of that in 11 mappings of their own",
            "pagewise:           13 KiB on quick lists of 37 threads",
            "pagewise:           17 KiB held, by 31 heaps and by mappings",
            "pagewise:           19 KiB held at most",
            "pagewise:           23 KiB resident in heaps",
            "pagewise:           29 KiB given back to the system",
        ];
        assert_eq!(stats.to_string(), lines.join("\n"));
        let class = ClassStats { size: 48, blocks: 5, quick: 7, pages: 2, held: kib(128) };
        assert_eq!(
            class.to_string(),
            "pagewise:           48            5            7            2          128"
        );
    }
}
