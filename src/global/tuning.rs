//! The parameters of the global allocator: [`Tuning`]. They are set at compile time; environment
//! variables override them when the program starts.

use core::fmt;

use super::hardening::Hardening;
use crate::pages::{Config, ConfigError};
use crate::sizemap::SizeMap;

/// The allocator's table has one entry for each granule of this many bytes. Page sizes are
/// multiples of it.
pub(super) const GRANULE: usize = 16 << 10;

/// The largest slot of addresses for one heap, in bytes: a heap with boundary tags cannot use more.
/// It is smaller on Windows, because a slot is reserved as a whole there, and Wine keeps a byte of
/// bookkeeping for each reserved OS page.
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

/// Unless less alignment is asked for, blocks are aligned to this number of bytes, and their sizes
/// are multiples of it.
pub(super) const UNIT: usize = 16;

/// Requests for no more alignment than this number of bytes are also served by classes that are odd
/// multiples of it, up to [`MOST_HALF`].
pub(super) const HALF_UNIT: usize = UNIT / 2;

/// The largest class that is an odd multiple of [`HALF_UNIT`], in bytes. Not 56: the standard
/// library allocates what a panic throws as 56 bytes aligned to 8, but unwinders take it to be
/// aligned to 16, and LLVM's faults where it is not.
pub(super) const MOST_HALF: usize = 40;

/// The largest FFCROSSOVER, in bytes.
pub(super) const SMALL_MAX: usize = 32 << 10;

/// Parameters of [`Pagewise`](super::Pagewise). All sizes are in bytes.
///
/// All `Pagewise` values of a process share one set of heaps. The value that is used first
/// determines the tuning.
///
/// ```
/// use pagewise::global::{HugePages, Pagewise, Tuning};
///
/// // For a small program: small pages, short lists, a purge delay of 100 ms.
/// #[global_allocator]
/// static ALLOCATOR: Pagewise = Pagewise::with(
///     Tuning::new()
///         .pages(Tuning::new().pages.page_size(16 << 10).ffcrossover(2 << 10))
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
    /// The pages that serve small blocks: page size p (at least 16 KiB), SIZEMAP, FREETOL, and
    /// FFCROSSOVER (a multiple of 16, at most 32 KiB). The unit must be 16. By default p is 64 KiB,
    /// FFCROSSOVER 16,352 bytes, FREETOL 1, and there are four size classes for each doubling, and
    /// all multiples of 8 up to 48.
    ///
    /// Classes of a SIZEMAP are rounded up to units of 16 bytes, with one exception: 8, 24 and 40
    /// serve requests for no more alignment than 8 ([`SizeMap::Classes`]). All classes are rounded
    /// up, these three too, if one of the three lacks the class 8 bytes below it, if there is any
    /// other class that is no multiple of 16 (such as 56), in hardened mode, and in pages above 512
    /// KiB.
    pub pages: Config,
    /// The most blocks that one quick list keeps, from 2 to 1024; 256 by default. A list starts
    /// with room for as many blocks as fit in 1 KiB, at least one and at most 4 (in hardened mode
    /// 64), and gets more as it is used. Where a thread allocates many blocks and frees them all,
    /// again and again, its list keeps up to four times this, and four times
    /// [`quick_bytes`](Self::quick_bytes); all lists of the process together 8 MiB more than usual.
    pub quick_blocks: u32,
    /// The most bytes that one quick list keeps, any number; 32 KiB by default. A list of large
    /// blocks may keep up to 4 blocks if they take no more than twice this, and every list keeps at
    /// least 2 blocks.
    pub quick_bytes: u32,
    /// The most heaps for each CPU, from 1 to 16; 2 by default. If there are more threads than
    /// heaps, threads share them.
    pub heaps_per_cpu: u32,
    /// The smallest block that gets a mapping of its own, from 64 KiB to 1 GiB; 16 MiB by default.
    pub mapping_from: usize,
    /// Purge delay in milliseconds: how long memory stays free before it goes back to the system;
    /// 1,000 by default. [`Pagewise::purge`](super::Pagewise::purge) says when the allocator checks
    /// this. `u32::MAX` disables purging.
    pub purge_delay: u32,
    /// Where memory may be huge pages; by default beyond the first 8 MiB of each heap, and in the
    /// first heaps beyond less ([`HugePages::Beyond`]).
    pub huge_pages: HugePages,
    /// Whether a background thread gives memory back while the program is idle; off by default. The
    /// allocator starts the thread, with every signal blocked, when there is first something to
    /// give back. In the child of a fork it starts the thread again in the same way.
    pub background: bool,
    /// Which kinds of misuse are detected, and how the program is protected against them:
    /// [`Hardening::OFF`] by default.
    pub hardening: Hardening,
    /// One in `guarded` allocations of up to an OS page becomes a [guarded
    /// block](crate::global#guarded-blocks); 0, the default, disables them, and a number above 2³⁰
    /// counts as 2³⁰. Needs the feature `guarded`.
    pub guarded: u32,
}

/// Where the heaps' memory may be huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HugePages {
    /// Follows the system's setting; the allocator gives the kernel no advice.
    System,
    /// Never: uses least memory.
    Never,
    /// Wherever the kernel can: fewest page faults, most memory.
    Always,
    /// Wherever the kernel can, but only beyond this number of bytes of each heap (a quarter of it
    /// in the first heap, a half in the second, three quarters in the third), and only in memory
    /// that will probably be written densely. That is above all: new pages of small blocks,
    /// as long as a heap's huge pages take no more memory than its pages of small blocks; the new
    /// part of a growing large block whose old part was touched all over; and new memory of a kind
    /// whose last sample was. So a small program takes no more memory than it uses, and so does a
    /// table that stays mostly untouched, except that the first blocks with mappings of their own
    /// may together take up to 64 MiB more. `docs/design.md` has all rules.
    Beyond(usize),
}

/// The default size classes: four for each doubling, at least 16 bytes apart, and all multiples of
/// [`HALF_UNIT`] up to 48, since many blocks of Rust programs have 24 or 40 bytes, and need no more
/// alignment. In addition, 4608 serves a page of 4 KiB with a header, which databases allocate by
/// the thousand. 8160 and 16352 are the largest multiples of 32 that fit eight and four times into
/// a 64 KiB page beside its tag. (With multiples of 16, neighbours would be slow to copy on some
/// processors: see `PAIR` of the page heap.) 16 KiB would fit only three times, so the boundary-tag
/// part of the heap serves it.
pub(super) const CLASSES: &[u32] = &[
    8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
    896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 6144, 7168, 8160, 8192,
    10240, 12288, 16352,
];

impl Tuning {
    /// Returns the defaults, which are the best on our benchmarks (`docs/peers.md` has the
    /// figures). Smaller pages and shorter lists hold less memory in a small program: see the
    /// example above.
    pub const fn new() -> Self {
        Self {
            pages: Config {
                page_size: 64 << 10,
                unit: UNIT,
                sizemap: SizeMap::Classes(CLASSES),
                freetol: 1,
                ffcrossover: 16_352,
                seed: 0,
            },
            quick_blocks: 256,
            quick_bytes: 32 << 10,
            heaps_per_cpu: 2,
            mapping_from: 16 << 20,
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

    /// Checks that each parameter is in its range and that the parameters are consistent with each
    /// other.
    ///
    /// # Errors
    /// Names the first parameter that is out of range.
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
        if let SizeMap::Classes(classes) = self.pages.sizemap {
            /// The largest class whose size, rounded up to units, 16 bits hold.
            const MOST: usize = 1 + u16::MAX as usize - UNIT;
            let mut class = 0;
            while class < classes.len() && (classes[class] as usize) < self.pages.ffcrossover {
                class += 1;
            }
            if class < classes.len() && classes[class] > MOST as u32 {
                return Err(TuningError::Class);
            }
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

/// Returns the number of bytes of which all classes of a SIZEMAP are multiples: [`HALF_UNIT`] if
/// every class that is no multiple of [`UNIT`] is at most [`MOST_HALF`] and comes directly after
/// the class half a unit below, so that the least class for whole units is one of whole units; else
/// [`UNIT`]. Also [`UNIT`] if there are more classes than a thread's lists have room for.
pub(super) const fn unit_of(sizemap: &SizeMap) -> usize {
    match sizemap {
        SizeMap::Classes(classes) => unit_of_classes(classes),
        _ => UNIT,
    }
}

/// As [`unit_of`], of a SIZEMAP with these classes.
pub(super) const fn unit_of_classes(classes: &[u32]) -> usize {
    if classes.len() > SMALL_MAX / UNIT {
        return UNIT;
    }
    let (mut index, mut before) = (0, 0);
    while index < classes.len() {
        let class = classes[index] as usize;
        let is_half = !class.is_multiple_of(UNIT);
        if is_half && (class != before + HALF_UNIT || class > MOST_HALF) {
            return UNIT;
        }
        before = class;
        index += 1;
    }
    HALF_UNIT
}

impl Default for Tuning {
    fn default() -> Self {
        Self::new()
    }
}

/// A parameter of [`Tuning`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TuningError {
    /// A parameter of the pages is invalid.
    Pages(ConfigError),
    /// The unit is not 16.
    Unit,
    /// The page size is below 16 KiB.
    PageSize,
    /// FFCROSSOVER is above 32 KiB or not a multiple of the unit.
    Crossover,
    /// The class of the SIZEMAP that serves FFCROSSOVER is 64 KiB or more.
    Class,
    /// The number of blocks of a quick list is not from 2 to 1024.
    QuickBlocks,
    /// The number of heaps for each CPU is not from 1 to 16.
    HeapsPerCpu,
    /// The smallest mapping is not from 64 KiB to 1 GiB.
    MappingFrom,
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(error) => error.fmt(f),
            Self::Unit => f.write_str("the unit must be 16"),
            Self::PageSize => f.write_str("the page size must be at least 16 KiB"),
            Self::Crossover => f.write_str("FFCROSSOVER must be a multiple of 16, at most 32 KiB"),
            Self::Class => {
                f.write_str("the class of the SIZEMAP for FFCROSSOVER must be below 64 KiB")
            }
            Self::QuickBlocks => f.write_str("a quick list must hold from 2 to 1024 blocks"),
            Self::HeapsPerCpu => {
                f.write_str("the number of heaps for each CPU must be from 1 to 16")
            }
            Self::MappingFrom => f.write_str("the least mapping must be from 64 KiB to 1 GiB"),
        }
    }
}

impl core::error::Error for TuningError {}
