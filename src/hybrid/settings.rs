//! The parameters of §3 of the paper, and the settings it gives for them.
//!
//! A heap reads its [`Settings`] at run time, and they can be changed at any moment. Or they are
//! built in as a constant ([`Parameters`]), and the compiler leaves out the code of options that
//! are off.
//!
//! The paper's machine has words of 4 bytes. Block sizes here are twice as large, as are the
//! program's own objects: multiples of 8 become multiples of 16, QL_HIGH 72 becomes 144, and the
//! 127 lists for blocks up to 1 KiB end at 2,032 bytes. Amounts of memory taken from the system are
//! the paper's.

use core::fmt;

use super::lists::LISTS;
use crate::tags::{CELL, MAX_CELLS};

/// Parameters of the hybrid allocator. All sizes are in bytes; sizes of blocks include the header
/// of 4 bytes.
///
/// ```
/// use pagewise::hybrid::Settings;
///
/// // As Table 7 has espresso, tuned for speed.
/// let espresso = Settings::generic().coalesce(false).coalesce_ql(false);
/// assert!(espresso.check().is_ok());
/// assert!(espresso.ql_high(100).check().is_err(), "not a multiple of 16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// QL_HIGH: the largest block kept on quick lists, a multiple of 16 up to 2,032 (§3.4, §3.10).
    pub ql_high: usize,
    /// COALESCE: join medium blocks when no free block is large enough, until one is (§3.7). Large
    /// blocks are joined in any case.
    pub coalesce: bool,
    /// COALESCE_QL: join all free blocks, including those on the quick lists, when that fails and
    /// more is held than [`threshold`](Self::threshold) allows (§3.8).
    pub coalesce_ql: bool,
    /// The bytes that may be held, in percent of the most bytes that were in use, before
    /// COALESCE_QL joins all blocks, or large blocks are joined without COALESCE; at least 100
    /// (§3.3, §3.8).
    pub threshold: u32,
    /// Joins large blocks only when more is held than [`threshold`](Self::threshold) allows, even
    /// with COALESCE on, as §3.3 says. Otherwise COALESCE joins them whenever none is large enough.
    pub strict_threshold: bool,
    /// COALESCE_IN_FREE: join all free blocks when a free leaves fewer than
    /// [`few_blocks`](Self::few_blocks) in use and more than [`much_held`](Self::much_held) bytes
    /// are held (§3.11).
    pub coalesce_in_free: bool,
    /// The number of blocks for COALESCE_IN_FREE.
    pub few_blocks: usize,
    /// The bytes held for COALESCE_IN_FREE.
    pub much_held: usize,
    /// SPLIT: search for a larger free block, and split it, when there is none of the requested
    /// size or the next (§3.6). Large requests split in any case.
    pub split: bool,
    /// MONITOR: keep the [`Monitor`](super::Monitor)'s figures (§3.11).
    pub monitor: bool,
    /// The most blocks that are made from the rest of a block that was split for a small request,
    /// and put on its quick list (§3.10).
    pub preallocate: u32,
    /// Requests of more than this many bytes get a mapping of their own, not a block of the heap,
    /// if the source has mappings ([`Source::map`](crate::source::Source::map), §3.2). `usize::MAX`
    /// means never.
    pub mmap_threshold: usize,
    /// The heap grows by multiples of this many bytes, a multiple of 16 (§3.9).
    pub growth: usize,
}

impl Settings {
    /// Returns HCgen, the generic setting (Table 6), with the values that §3 names.
    #[must_use]
    pub const fn generic() -> Self {
        Self {
            ql_high: 2 * 72,
            coalesce: true,
            coalesce_ql: true,
            threshold: 106,
            strict_threshold: false,
            coalesce_in_free: false,
            few_blocks: 10,
            much_held: 100 << 10,
            split: true,
            monitor: true,
            preallocate: 100,
            mmap_threshold: 100 << 10,
            growth: 8 << 10,
        }
    }

    /// Returns HCmem, for the least memory: everything that joins free blocks is on (§5.2;
    /// ghostscript and espresso in Table 7).
    #[must_use]
    pub const fn memory() -> Self {
        Self { coalesce_in_free: true, monitor: false, ..Self::generic() }
    }

    /// Returns HCperf, for the highest speed. These are the settings of most programs of Table 7
    /// (espresso, cfrac, electric and groff): only large blocks are joined, SPLIT is on, and
    /// QL_HIGH is low. §5.2 advises more for speed alone: SPLIT off and QL_HIGH "512 or higher",
    /// which holds more memory. Unlike the paper's it maps nothing: requests of 100 KiB are common
    /// today, and each mapping costs system calls and page faults.
    #[must_use]
    pub const fn performance() -> Self {
        Self {
            coalesce: false,
            coalesce_ql: false,
            monitor: false,
            mmap_threshold: usize::MAX,
            ..Self::generic()
        }
    }

    /// Checks that the parameters make sense.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub const fn check(&self) -> Result<(), SettingsError> {
        if !self.ql_high.is_multiple_of(CELL) || self.ql_high > (LISTS - 1) * CELL {
            return Err(SettingsError::QlHigh);
        }
        if self.threshold < 100 {
            return Err(SettingsError::Threshold);
        }
        if self.growth == 0
            || !self.growth.is_multiple_of(CELL)
            || self.growth / CELL >= MAX_CELLS as usize
        {
            return Err(SettingsError::Growth);
        }
        Ok(())
    }

    /// Returns QL_HIGH in cells.
    #[inline(always)]
    pub(super) const fn ql_cells(&self) -> u32 {
        (self.ql_high / CELL) as u32
    }

    /// Returns the growth unit in cells.
    pub(super) const fn growth_cells(&self) -> u32 {
        (self.growth / CELL) as u32
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::generic()
    }
}

/// Generates, for each parameter, the method that sets it.
macro_rules! set {
    ($($field:ident: $value:ty, $name:literal;)*) => {
        impl Settings {$(
            #[doc = concat!("With ", $name, ": [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
            #[must_use]
            pub const fn $field(mut self, $field: $value) -> Self {
                self.$field = $field;
                self
            }
        )*}
    };
}

set! {
    ql_high: usize, "this QL_HIGH";
    coalesce: bool, "COALESCE on or off";
    coalesce_ql: bool, "COALESCE_QL on or off";
    threshold: u32, "this threshold in percent";
    strict_threshold: bool, "large blocks joined beyond the threshold alone";
    coalesce_in_free: bool, "COALESCE_IN_FREE on or off";
    few_blocks: usize, "this number of blocks for COALESCE_IN_FREE";
    much_held: usize, "this many bytes held for COALESCE_IN_FREE";
    split: bool, "SPLIT on or off";
    monitor: bool, "MONITOR on or off";
    preallocate: u32, "at most this many blocks made from a rest";
    mmap_threshold: usize, "mappings for requests of more than this many bytes";
    growth: usize, "this growth unit in bytes";
}

/// A parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettingsError {
    /// QL_HIGH is not a multiple of 16 up to 2,032.
    QlHigh,
    /// The threshold is below 100 %.
    Threshold,
    /// The growth unit is not a multiple of 16, or is 0 or 16 GiB and more.
    Growth,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QlHigh => "QL_HIGH must be a multiple of 16 up to 2032",
            Self::Threshold => "the threshold must be at least 100 %",
            Self::Growth => "the growth unit must be a multiple of 16 below 16 GiB, and not 0",
        })
    }
}

impl core::error::Error for SettingsError {}

/// The origin of a heap's parameters: [`Settings`] of its own, or a [`Constant`].
pub trait HasSettings {
    /// Returns the parameters.
    fn settings(&self) -> &Settings;
}

impl HasSettings for Settings {
    #[inline(always)]
    fn settings(&self) -> &Settings {
        self
    }
}

/// Settings as a constant.
///
/// ```
/// use pagewise::hybrid::{Constant, Hybrid, Parameters, Settings};
/// use pagewise::source::Region;
///
/// struct Gawk;
/// impl Parameters for Gawk {
///     // As Table 7 has it, tuned for speed.
///     const SETTINGS: Settings = Settings::performance().coalesce(true).ql_high(2 * 264);
/// }
/// type Heap = Hybrid<Constant<Gawk>, Region>;
/// # let _: Option<Heap> = None;
/// ```
pub trait Parameters {
    /// The parameters; a heap with invalid ones does not compile.
    const SETTINGS: Settings;
}

/// The parameters of `P`, built in.
#[derive(Debug)]
pub struct Constant<P>(pub(super) core::marker::PhantomData<fn() -> P>);

impl<P: Parameters> HasSettings for Constant<P> {
    #[inline(always)]
    fn settings(&self) -> &Settings {
        const { &P::SETTINGS }
    }
}

/// HCgen: [`Settings::generic`].
#[derive(Debug)]
pub struct Generic;

/// HCmem: [`Settings::memory`].
#[derive(Debug)]
pub struct Memory;

/// HCperf: [`Settings::performance`].
#[derive(Debug)]
pub struct Performance;

impl Parameters for Generic {
    const SETTINGS: Settings = Settings::generic();
}

impl Parameters for Memory {
    const SETTINGS: Settings = Settings::memory();
}

impl Parameters for Performance {
    const SETTINGS: Settings = Settings::performance();
}
