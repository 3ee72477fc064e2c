//! The settings that the environment can change: one table, [`SETTINGS`].
//!
//! Nothing else reads the environment, so the table is complete: its values are checked, a misspelt
//! name is reported ([`complain`]), and a test compares it with the table of `docs/global.md`.
//! `pagewise tune --preload` prints settings by these names.

use core::ffi::CStr;

use crate::global::tuning::{GRANULE, HugePages, SMALL_MAX, Tuning, TuningError, UNIT};

mod complaints;
mod environment;
mod hardening;
mod profile;
mod sizemap;
#[cfg(test)]
mod tests;
mod values;

pub(in crate::global::native) use complaints::complain;
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) use profile::path as profile_path;
use values::{bytes, number, switch};

/// Prefix of all settings' names.
const PREFIX: &[u8] = b"PAGEWISE_";

/// A variable of the environment.
struct Setting {
    /// Its name.
    name: &'static CStr,
    /// The values that it takes, in words: range and unit.
    takes: &'static str,
    /// Applies a value; `None`, and nothing changes, if the value is invalid.
    set: fn(&mut Settings, &str) -> Option<()>,
    /// Its row in the document.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
    documented: Documented,
}

/// A setting's row in `docs/global.md`.
#[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
struct Documented {
    /// The field of [`Tuning`] that it overrides; empty if there is none.
    field: &'static str,
    /// The placeholder for the value.
    value: &'static str,
    /// What holds if it is not set.
    default: &'static str,
    /// What it does.
    about: &'static str,
}

/// All variables that the allocator reads.
const SETTINGS: &[Setting] = &[
    Setting {
        name: c"PAGEWISE_PAGE_SIZE",
        takes: "a power of two from 16K to 1M",
        set: |settings, text| {
            settings.tuning.pages.page_size =
                bytes(text, GRANULE..=1 << 20).filter(|bytes| bytes.is_power_of_two())?;
            Some(())
        },
        documented: Documented {
            field: "pages.page_size",
            value: "bytes",
            default: "64K",
            about: "p, the size of a page of small blocks: a power of two from 16K to 1M",
        },
    },
    Setting {
        name: c"PAGEWISE_SIZEMAP",
        takes: "linear, page-fitting, geometric=RATIO, or up to 256 ascending sizes with commas between",
        set: |settings, text| {
            settings.tuning.pages.sizemap = sizemap::parse(text)?;
            Some(())
        },
        documented: Documented {
            field: "pages.sizemap",
            value: "map",
            default: "the multiples of 8 B to 48, and 4 classes for each doubling to 12 KiB; 4608, 8160 and 16352 B",
            about: "SIZEMAP: `linear`, `page-fitting`, `geometric=1.25`, or the classes, as `8,16,24,32,272,1024`",
        },
    },
    Setting {
        name: c"PAGEWISE_FREETOL",
        takes: "a number of bytes, from 1 to 1M",
        set: |settings, text| {
            settings.tuning.pages.freetol = bytes(text, 1..=1 << 20)?;
            Some(())
        },
        documented: Documented {
            field: "pages.freetol",
            value: "bytes",
            default: "1",
            about: "FREETOL: φ0 = ⌈FREETOL/s⌉; a page's size at most",
        },
    },
    Setting {
        name: c"PAGEWISE_FFCROSSOVER",
        takes: "a multiple of 16, from 16 to 32K",
        set: |settings, text| {
            settings.tuning.pages.ffcrossover =
                bytes(text, UNIT..=SMALL_MAX).filter(|bytes| bytes.is_multiple_of(UNIT))?;
            Some(())
        },
        documented: Documented {
            field: "pages.ffcrossover",
            value: "bytes",
            default: "16352",
            about: "FFCROSSOVER: the largest size that pages serve, to 32K, and to a page's size",
        },
    },
    Setting {
        name: c"PAGEWISE_QUICK_BLOCKS",
        takes: "a number from 2 to 1024",
        set: |settings, text| {
            settings.tuning.quick_blocks = number(text, 2..=1024)? as u32;
            Some(())
        },
        documented: Documented {
            field: "quick_blocks",
            value: "n",
            default: "256",
            about: "the most blocks that a quick list keeps, from 2 to 1024; four times as many, or 16 times up to 64, in [waves](design.md#quick-lists)",
        },
    },
    Setting {
        name: c"PAGEWISE_QUICK_BYTES",
        takes: "a number of bytes, up to 1G",
        set: |settings, text| {
            settings.tuning.quick_bytes = bytes(text, 0..=1 << 30)? as u32;
            Some(())
        },
        documented: Documented {
            field: "quick_bytes",
            value: "bytes",
            default: "32K",
            about: "the most bytes that a quick list keeps; twice as many if that is up to 4 blocks, and 2 blocks at least",
        },
    },
    Setting {
        name: c"PAGEWISE_HEAPS_PER_CPU",
        takes: "a number from 1 to 16",
        set: |settings, text| {
            settings.tuning.heaps_per_cpu = number(text, 1..=16)? as u32;
            Some(())
        },
        documented: Documented {
            field: "heaps_per_cpu",
            value: "n",
            default: "2",
            about: "the most heaps for each CPU",
        },
    },
    Setting {
        name: c"PAGEWISE_MAPPING_FROM",
        takes: "a number of bytes, from 64K to 1G",
        set: |settings, text| {
            settings.tuning.mapping_from = bytes(text, 64 << 10..=1 << 30)?;
            Some(())
        },
        documented: Documented {
            field: "mapping_from",
            value: "bytes",
            default: "16M",
            about: "the least block that is a mapping, from 64K to 1G",
        },
    },
    Setting {
        name: c"PAGEWISE_PURGE_DELAY",
        takes: "a number of milliseconds, or never",
        set: |settings, text| {
            let delay = if text == "never" { u64::MAX } else { number(text, 0..=u64::MAX)? };
            settings.tuning.purge_delay = u32::try_from(delay).unwrap_or(u32::MAX);
            Some(())
        },
        documented: Documented {
            field: "purge_delay",
            value: "ms",
            default: "1000",
            about: "milliseconds; 4294967295 or more, or `never`: never",
        },
    },
    Setting {
        name: c"PAGEWISE_HUGE_PAGES",
        takes: "system, 0, 1 or a number of mebibytes",
        set: |settings, text| {
            settings.tuning.huge_pages = match number(text, 0..=u64::MAX) {
                None if text == "system" => HugePages::System,
                None => return None,
                Some(0) => HugePages::Never,
                Some(1) => HugePages::Always,
                Some(mebibytes) => {
                    let bytes = usize::try_from(mebibytes).unwrap_or(usize::MAX);
                    HugePages::Beyond(bytes.saturating_mul(1 << 20))
                }
            };
            Some(())
        },
        documented: Documented {
            field: "huge_pages",
            value: "n",
            default: "beyond 8 MiB (`libpagewise.so`: 16)",
            about: "0: never, 1: wherever the kernel can, n: beyond a heap's first n MiB (n/4, n/2 and 3n/4 in the first three heaps), where memory is known to be written densely; `system`: the system's setting",
        },
    },
    Setting {
        name: c"PAGEWISE_BACKGROUND",
        takes: "0 or 1",
        set: |settings, text| {
            settings.tuning.background = switch(text)?;
            Some(())
        },
        documented: Documented {
            field: "background",
            value: "1",
            default: "no",
            about: "a thread gives memory back while the program stands still",
        },
    },
    Setting {
        name: c"PAGEWISE_HARDENED",
        takes: "0, 1, or parts: checks, canaries, random, quarantine, zero, pinned, guards",
        set: |settings, text| {
            settings.tuning.hardening = hardening::parse(text)?;
            Some(())
        },
        documented: Documented {
            field: "hardening",
            value: "1",
            default: "no",
            about: "hardened mode: 1 is `Hardening::ON`; or parts, such as `canaries,random`, from checks, canaries, random, quarantine, zero, pinned, guards",
        },
    },
    Setting {
        name: c"PAGEWISE_GUARDED",
        takes: if cfg!(feature = "guarded") {
            "a number n: one allocation in n"
        } else {
            "0, since the program is built without the feature `guarded`"
        },
        set: |settings, text| {
            let most = if cfg!(feature = "guarded") { u64::from(u32::MAX) } else { 0 };
            settings.tuning.guarded = number(text, 0..=most)? as u32;
            Some(())
        },
        documented: Documented {
            field: "guarded",
            value: "n",
            default: "0: none",
            about: "one allocation in n, of up to an OS page, is a guarded block; 5000 is a good rate. In Rust programs with the feature `guarded`",
        },
    },
    Setting {
        name: c"PAGEWISE_PROFILE",
        takes: profile::TAKES_FILE,
        set: |settings, text| {
            settings.profile = Some(profile::mean_of(text)?);
            Some(())
        },
        documented: Documented {
            field: "",
            value: "file:n",
            default: "no",
            about: "a [heap profile](profiler.md), written to the file when the process exits: one sample every n bytes, 524288 if only the file is named. In Rust programs with the feature `profiler`",
        },
    },
    Setting {
        name: c"PAGEWISE_PROFILE_SIGNAL",
        takes: profile::TAKES_SIGNAL,
        set: |settings, text| {
            settings.profile_signal = Some(profile::signal_of(text)?);
            Some(())
        },
        documented: Documented {
            field: "",
            value: "name",
            default: "none",
            about: "also writes the profile on this signal: `USR1`, `USR2`, `HUP`, `PROF`, `URG`, or a number",
        },
    },
    Setting {
        name: c"PAGEWISE_SHOW_STATS",
        takes: "0 or 1",
        set: |settings, text| {
            settings.show_stats = switch(text)?;
            Some(())
        },
        documented: Documented {
            field: "",
            value: "1",
            default: "no",
            about: "writes the statistics to standard error when the process exits, if file descriptor 2 still refers to the same file as at the start",
        },
    },
    Setting {
        name: c"PAGEWISE_VERBOSE",
        takes: "0 or 1",
        set: |settings, text| {
            settings.verbose = Some(switch(text)?);
            Some(())
        },
        documented: Documented {
            field: "",
            value: "1",
            default: "if standard error is a terminal",
            about: "at the start, prints one line for each `PAGEWISE_` variable that is unknown or has an invalid value; both are ignored",
        },
    },
];

/// The tuning in force, and the settings that are not part of it.
#[derive(Clone, Copy)]
pub(in crate::global::native) struct Settings {
    /// The program's tuning, with what the environment overrides.
    pub(in crate::global::native) tuning: Tuning,
    /// Whether the statistics are written at exit.
    pub(in crate::global::native) show_stats: bool,
    /// Mean bytes between two samples of a profile, if one is wanted.
    pub(in crate::global::native) profile: Option<usize>,
    /// The signal on which the profile is written.
    pub(in crate::global::native) profile_signal: Option<i32>,
    /// Whether ignored variables are reported; `None`: if standard error is a terminal.
    verbose: Option<bool>,
    /// Whether the environment has a name with the [`PREFIX`].
    are_named: bool,
    /// Why the page settings, each of them valid, were ignored: they contradict each other.
    clash: Option<TuningError>,
}

impl Settings {
    /// Reads the environment: `tuning` with its overrides, and the other settings.
    pub(in crate::global::native) fn read(tuning: Tuning) -> Self {
        let mut settings = Self::of(tuning);
        settings.are_named = environment::has_name_with(PREFIX);
        if settings.are_named {
            for setting in SETTINGS {
                environment::variable(setting.name, |value| setting.take(&mut settings, value));
            }
        }
        settings.settle(&tuning)
    }

    /// Returns `tuning` without overrides.
    const fn of(tuning: Tuning) -> Self {
        Self {
            tuning,
            show_stats: false,
            profile: None,
            profile_signal: None,
            verbose: None,
            are_named: false,
            clash: None,
        }
    }

    /// Falls back to the pages of `tuning`, which are valid, if the pages that are set contradict
    /// each other.
    fn settle(mut self, tuning: &Tuning) -> Self {
        if let Err(error) = self.tuning.check() {
            self.clash = Some(error);
            self.tuning.pages = tuning.pages;
        }
        self
    }
}

impl Setting {
    /// Applies a value; `None`, and nothing changes, if the value is invalid.
    fn take(&self, settings: &mut Settings, value: &[u8]) -> Option<()> {
        (self.set)(settings, core::str::from_utf8(value).ok()?.trim())
    }
}
