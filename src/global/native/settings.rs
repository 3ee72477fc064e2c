//! What the environment sets: one table, [`SETTINGS`].
//!
//! Nothing else reads the environment, so whatever it sets is in the table: its values are checked, a
//! misspelt name is noticed ([`complain`]), and a test compares the table with that of `docs/global.md`.

use core::ffi::CStr;
use core::ops::RangeInclusive;

use super::tuning::{HugePages, Tuning};

mod complaints;
mod environment;
mod hardening;
#[cfg(test)]
mod tests;

pub(super) use complaints::complain;

/// A variable of the environment, which holds a number.
struct Setting {
    name: &'static CStr,
    range: RangeInclusive<u64>,
    /// The number that words stand for, where it takes words.
    words: Option<fn(&str) -> Option<u64>>,
    /// What it takes, in words: range and unit.
    takes: &'static str,
    set: fn(&mut Settings, u64),
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
    documented: Documented,
}

/// A setting's row in `docs/global.md`.
#[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
struct Documented {
    /// The field of [`Tuning`] that it overrides; empty if there is none.
    field: &'static str,
    /// What stands for the value.
    value: &'static str,
    default: &'static str,
    about: &'static str,
}

/// All variables that the allocator reads.
const SETTINGS: &[Setting] = &[
    Setting {
        name: c"PAGEWISE_PURGE_DELAY",
        range: 0..=u64::MAX,
        words: None,
        takes: "a number of milliseconds",
        set: |settings, delay| {
            settings.tuning.purge_delay = u32::try_from(delay).unwrap_or(u32::MAX);
        },
        documented: Documented {
            field: "purge_delay",
            value: "ms",
            default: "1000",
            about: "milliseconds; 4294967295 or more: never",
        },
    },
    Setting {
        name: c"PAGEWISE_HUGE_PAGES",
        range: 0..=u64::MAX,
        words: None,
        takes: "0, 1 or a number of mebibytes",
        set: |settings, wanted| {
            settings.tuning.huge_pages = match wanted {
                0 => HugePages::Never,
                1 => HugePages::Always,
                mebibytes => {
                    let bytes = usize::try_from(mebibytes).unwrap_or(usize::MAX);
                    HugePages::Beyond(bytes.saturating_mul(1 << 20))
                }
            };
        },
        documented: Documented {
            field: "huge_pages",
            value: "n",
            default: "beyond 8 MiB (`libpagewise.so`: 32)",
            about: "0: never, 1: wherever the kernel can, n: beyond a heap's first n MiB, where memory \
                    is known to be written densely",
        },
    },
    Setting {
        name: c"PAGEWISE_BACKGROUND",
        range: 0..=1,
        words: None,
        takes: "0 or 1",
        set: |settings, wanted| settings.tuning.background = wanted == 1,
        documented: Documented {
            field: "background",
            value: "1",
            default: "no",
            about: "a thread gives memory back while the program stands still",
        },
    },
    Setting {
        name: c"PAGEWISE_HARDENED",
        range: 0..=1,
        words: Some(hardening::parts),
        takes: "0, 1, or parts: checks, canaries, random, quarantine, zero, pinned, guards",
        set: |settings, parts| settings.tuning.hardening = hardening::of_parts(parts),
        documented: Documented {
            field: "hardening",
            value: "1",
            default: "no",
            about: "hardened mode: 1 is `Hardening::ON`; or parts, as `canaries,random`, of checks, \
                    canaries, random, quarantine, zero, pinned, guards",
        },
    },
    Setting {
        name: c"PAGEWISE_GUARDED",
        range: 0..=if cfg!(feature = "guarded") { u32::MAX as u64 } else { 0 },
        words: None,
        takes: if cfg!(feature = "guarded") {
            "a number: one allocation in so many"
        } else {
            "0, in a program built without the feature `guarded`,"
        },
        set: |settings, one_in| settings.tuning.guarded = one_in as u32,
        documented: Documented {
            field: "guarded",
            value: "n",
            default: "0: none",
            about: "one allocation in n, of up to an OS page, is a guarded block; 5000 is a good rate. In \
                    Rust programs with the feature `guarded`",
        },
    },
    Setting {
        name: c"PAGEWISE_SHOW_STATS",
        range: 0..=1,
        words: None,
        takes: "0 or 1",
        set: |settings, wanted| settings.show_stats = wanted == 1,
        documented: Documented {
            field: "",
            value: "1",
            default: "no",
            about: "writes the statistics to standard error when the process exits, if file 2 is still \
                    the one it was at the start",
        },
    },
    Setting {
        name: c"PAGEWISE_VERBOSE",
        range: 0..=1,
        words: None,
        takes: "0 or 1",
        set: |settings, wanted| settings.verbose = Some(wanted == 1),
        documented: Documented {
            field: "",
            value: "1",
            default: "if standard error is a terminal",
            about: "says at the start, a line each, which `PAGEWISE_` variables are unknown or have no \
                    valid value; both are ignored",
        },
    },
];

/// The settings.
pub(super) struct Settings {
    pub(super) tuning: Tuning,
    /// Whether the statistics are written at exit.
    pub(super) show_stats: bool,
    /// Whether faults of the environment are named; `None`: if somebody sits there to read it.
    verbose: Option<bool>,
}

impl Settings {
    /// A tuning as the environment overrides it, and what else the environment sets.
    pub(super) fn read(tuning: Tuning) -> Self {
        let mut settings = Self { tuning, show_stats: false, verbose: None };
        for setting in SETTINGS {
            let value = environment::variable(setting.name, |value| setting.number(value));
            if let Some(Some(number)) = value {
                (setting.set)(&mut settings, number);
            }
        }
        settings
    }
}

impl Setting {
    /// The number that a value stands for, if it is one that the setting takes.
    fn number(&self, value: &[u8]) -> Option<u64> {
        let text = core::str::from_utf8(value).ok()?.trim();
        let number = text.parse().ok().filter(|number| self.range.contains(number));
        number.or_else(|| self.words?(text))
    }
}
