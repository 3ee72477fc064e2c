//! What the allocator has in use and holds.

use core::fmt;

/// What the process has allocated. Bytes, unless said otherwise. Threads go on while it is
/// collected, so the figures agree with each other only where none does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stats {
    /// Blocks in use (number).
    pub blocks: usize,
    /// Bytes of the blocks in use, as the program got them.
    pub live: usize,
    /// Bytes of free blocks that quick lists keep at hand, and in hardened mode those in quarantine.
    pub quick: usize,
    /// Address space in use by heaps and mappings: blocks, free memory and bookkeeping.
    pub held: usize,
    /// The sum of the most that each heap held and the most that mappings held, not all at one time.
    pub peak_held: usize,
    /// Bytes of the heaps' OS pages that are resident, that is, take memory. Mappings of their own are not
    /// looked at.
    pub resident: usize,
    /// Free memory given back to the system since the beginning. Where the system does not tell what is
    /// resident, all that was free is counted.
    pub purged: u64,
    /// Bytes of mappings of their own, in use.
    pub mapped: usize,
    /// Mappings of their own, in use (number).
    pub mappings: usize,
    /// Heaps opened (number).
    pub heaps: usize,
    /// Sets of quick lists (number): one for each thread that runs, and those that ended threads left for
    /// the next thread.
    pub threads: usize,
}

/// What there is of one size class, in all heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ClassStats {
    /// Size of its blocks, bytes.
    pub size: usize,
    /// Blocks in use (number).
    pub blocks: usize,
    /// Free blocks that quick lists keep at hand (number).
    pub quick: usize,
    /// Pages that serve it (number).
    pub pages: usize,
    /// Bytes of those pages.
    pub held: usize,
}

/// One figure a line.
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

/// A row of a table: block size, blocks in use and on lists, pages, KiB of those.
impl fmt::Display for ClassStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, blocks, quick, pages, held } = self;
        write!(f, "pagewise: {size:>12} {blocks:>12} {quick:>12} {pages:>12} {:>12}", held >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure stands in its line, bytes as KiB.
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
