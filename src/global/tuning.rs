//! What can be tuned: [`Tuning`], at compile time. On Linux the environment overrides some of it.

use core::fmt;

use super::hardening::Hardening;
use crate::pages::{Config, ConfigError};
use crate::sizemap::SizeMap;

/// Bytes of what the allocator keeps one table entry for; pages are multiples of it.
pub(super) const GRANULE: usize = 16 << 10;

/// The most bytes of a heap's slot of addresses: what a heap with boundary tags can use. On Windows less, since a slot is
/// reserved in whole: other systems that run its programs keep a byte for each page of it.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(super) const LARGEST_SLOT: usize = 1
    << match usize::BITS {
        64 if cfg!(windows) => 30,
        64 => 34,
        _ => 28,
    };

/// What small sizes are multiples of, and every block is aligned to.
pub(super) const UNIT: usize = 16;

/// The largest FFCROSSOVER, bytes.
pub(super) const SMALL_MAX: usize = 32 << 10;

/// Parameters of [`Pagewise`](super::Pagewise). All sizes in bytes.
///
/// There is one heap in a process, whatever the number of `Pagewise` values in it: the first that
/// is used decides.
///
/// ```
/// use pagewise::global::{HugePages, Pagewise, Tuning};
///
/// // For a small program: small pages, short lists, freed memory back to the system within 100 ms.
/// #[global_allocator]
/// static ALLOCATOR: Pagewise = Pagewise::with(
///     Tuning::new()
///         .pages(Tuning::new().pages.page_size(16 << 10).ffcrossover(8 << 10))
///         .quick_blocks(64)
///         .quick_bytes(8 << 10)
///         .huge_pages(HugePages::Never)
///         .purge_delay(100),
/// );
/// # fn main() { drop(vec![1, 2, 3]); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct Tuning {
    /// The pages that serve small blocks: p (from 16 KiB), SIZEMAP, FREETOL, FFCROSSOVER (a
    /// multiple of 16, to 32 KiB). The unit is 16. By default p is 64 KiB, FFCROSSOVER 16 KiB, FREETOL 1,
    /// and there are four classes for each doubling.
    pub pages: Config,
    /// The most blocks that one quick list keeps, from 2 to 1024; 256 by default. A list begins with 64
    /// at most, and takes more once it is much used.
    pub quick_blocks: u32,
    /// The most bytes that one quick list keeps, 32 KiB by default; twice as many if that is up to 4 blocks, and 2 blocks
    /// at least.
    pub quick_bytes: u32,
    /// Heaps for each CPU, from 1 to 16; 2 by default. Threads beyond that share heaps.
    pub heaps_per_cpu: u32,
    /// The least size that is a mapping of its own, from 64 KiB to 1 GiB; 32 MiB by default.
    pub mapping_from: usize,
    /// Milliseconds that free memory stays before it goes back to the system, 1,000 by default; see
    /// [`Pagewise::purge`](super::Pagewise::purge) for when that is looked at. `u32::MAX`: it
    /// stays.
    pub purge_delay: u32,
    /// Where memory may be huge pages; by default beyond the first 8 MiB of each heap.
    pub huge_pages: HugePages,
    /// Whether a thread of the allocator's own gives memory back while the program stands still. It is
    /// started when there is first something to give back, with every signal blocked; in the child of a
    /// fork, when there is something again. Off by default.
    pub background: bool,
    /// How much misuse is noticed, and what is done to withstand it: [`Hardening::OFF`] by default.
    pub hardening: Hardening,
    /// One allocation in so many, of up to an OS page, is a [guarded block](crate::global#guarded-blocks);
    /// 0, the default: none is. Needs the feature `guarded`.
    pub guarded: u32,
}

/// Whether the heap's memory may be huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HugePages {
    /// As the system is set: the kernel is told nothing.
    System,
    /// Never: least memory.
    Never,
    /// Where the kernel can: fewest page faults, most memory.
    Always,
    /// Where the kernel can, beyond this many bytes of each heap, and only in memory that is known to be
    /// written densely: new pages of small blocks, while a heap's huge pages take less than its pages of
    /// small blocks; and the new part of a large block that grows, if the old part was touched. So a small
    /// program takes no more memory than it uses, a large one at most one huge page more for each heap, and
    /// a table that is mostly untouched takes no more than its touched part.
    Beyond(usize),
}

/// Four classes for each doubling, 16 bytes apart at least; one more for a page of 4 KiB with a header, which
/// databases and their like allocate by the thousand; and the largest size that fits eight times into a page beside
/// its tag, as 8 KiB do not. The last fits four times. 16 KiB would fit three times, so the heap has them.
const CLASSES: &[u32] = &[
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 6144, 7168, 8176, 8192, 10240,
    12288, 16368,
];

impl Tuning {
    /// The defaults, best on our benchmarks (`docs/peers.md` has the figures). For a small program, smaller
    /// pages and shorter lists hold less: see the example above.
    pub const fn new() -> Self {
        Self {
            pages: Config {
                page_size: 64 << 10,
                unit: UNIT,
                sizemap: SizeMap::Classes(CLASSES),
                freetol: 1,
                ffcrossover: 16_368,
                seed: 0,
            },
            quick_blocks: 256,
            quick_bytes: 32 << 10,
            heaps_per_cpu: 2,
            mapping_from: 32 << 20,
            purge_delay: 1000,
            huge_pages: HugePages::Beyond(8 << 20),
            background: false,
            hardening: Hardening::OFF,
            guarded: 0,
        }
    }

    /// Sets the [pages](field@Self::pages).
    pub const fn pages(mut self, pages: Config) -> Self {
        self.pages = pages;
        self
    }

    /// Sets the [most blocks of a quick list](field@Self::quick_blocks).
    pub const fn quick_blocks(mut self, blocks: u32) -> Self {
        self.quick_blocks = blocks;
        self
    }

    /// Sets the [most bytes of a quick list](field@Self::quick_bytes).
    pub const fn quick_bytes(mut self, bytes: u32) -> Self {
        self.quick_bytes = bytes;
        self
    }

    /// Sets the [heaps for each CPU](field@Self::heaps_per_cpu).
    pub const fn heaps_per_cpu(mut self, heaps: u32) -> Self {
        self.heaps_per_cpu = heaps;
        self
    }

    /// Sets the [least size that is a mapping](field@Self::mapping_from).
    pub const fn mapping_from(mut self, bytes: usize) -> Self {
        self.mapping_from = bytes;
        self
    }

    /// Sets the [purge delay](field@Self::purge_delay).
    pub const fn purge_delay(mut self, milliseconds: u32) -> Self {
        self.purge_delay = milliseconds;
        self
    }

    /// Sets the [use of huge pages](field@Self::huge_pages).
    pub const fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Sets whether there is a [background thread](field@Self::background).
    pub const fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets the [hardening](field@Self::hardening).
    pub const fn hardening(mut self, hardening: Hardening) -> Self {
        self.hardening = hardening;
        self
    }

    /// Sets the rate of [guarded blocks](field@Self::guarded).
    pub const fn guarded(mut self, one_in: u32) -> Self {
        self.guarded = one_in;
        self
    }

    /// Checks that the parameters are in their ranges and make sense together.
    ///
    /// # Errors
    /// The first parameter that is not.
    pub const fn check(&self) -> Result<(), TuningError> {
        if let Err(error) = self.pages.check() {
            return Err(TuningError::Pages(error));
        }
        if self.pages.unit != UNIT {
            return Err(TuningError::Unit);
        }
        if self.pages.page_size < GRANULE {
            return Err(TuningError::PageSize);
        }
        if self.pages.ffcrossover > SMALL_MAX || !self.pages.ffcrossover.is_multiple_of(UNIT) {
            return Err(TuningError::Crossover);
        }
        if self.quick_blocks < 2 || self.quick_blocks > 1024 {
            return Err(TuningError::QuickBlocks);
        }
        if self.heaps_per_cpu < 1 || self.heaps_per_cpu > 16 {
            return Err(TuningError::HeapsPerCpu);
        }
        if self.mapping_from < 64 << 10 || self.mapping_from > 1 << 30 {
            return Err(TuningError::MappingFrom);
        }
        Ok(())
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self::new()
    }
}

/// A parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TuningError {
    /// The pages' own parameters.
    Pages(ConfigError),
    /// The unit is not 16.
    Unit,
    /// The page size is below 16 KiB.
    PageSize,
    /// FFCROSSOVER is above 32 KiB or no multiple of the unit.
    Crossover,
    /// The blocks of a quick list are not from 2 to 1024.
    QuickBlocks,
    /// The heaps for each CPU are not from 1 to 16.
    HeapsPerCpu,
    /// The least mapping is not from 64 KiB to 1 GiB.
    MappingFrom,
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(error) => error.fmt(f),
            Self::Unit => f.write_str("the unit must be 16"),
            Self::PageSize => f.write_str("the page size must be 16 KiB at least"),
            Self::Crossover => f.write_str("FFCROSSOVER must be a multiple of 16, 32 KiB at most"),
            Self::QuickBlocks => f.write_str("a quick list must have from 2 to 1024 blocks"),
            Self::HeapsPerCpu => f.write_str("the heaps for each CPU must be from 1 to 16"),
            Self::MappingFrom => f.write_str("the least mapping must be from 64 KiB to 1 GiB"),
        }
    }
}

impl core::error::Error for TuningError {}
