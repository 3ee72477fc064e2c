use super::complaints::{distance, nearest};
use super::*;
use crate::global::Hardening;

impl Setting {
    /// Returns the setting's row of the document's table.
    fn row(&self) -> String {
        let Documented { field, value, default, about } = self.documented;
        let field = if field.is_empty() { String::new() } else { format!(" `{field}`") };
        let name = self.name.to_str().expect("letters");
        format!("|{field} | `{name}={value}` | {default} | {about} |")
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads a file")]
fn the_document_has_the_table() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/global.md");
    let document = std::fs::read_to_string(document).expect("it is there");
    let section = document.split("\n## ").find(|section| section.starts_with("What can be set"));
    let rows = section.expect("there is such a section").lines();
    let rows: Vec<_> = rows.filter(|row| row.contains("| `PAGEWISE_")).collect();
    assert_eq!(rows, SETTINGS.iter().map(Setting::row).collect::<Vec<_>>());
}

#[test]
fn a_complaint_ends_where_its_sentence_does() {
    for Setting { name, takes, .. } in SETTINGS {
        let ends = takes.ends_with(|end: char| end.is_alphanumeric() || "`)".contains(end));
        assert!(ends, "{name:?}: {takes}");
    }
}

/// Applies a value to the setting of this name; `None` if the setting rejects it.
fn set(name: &CStr, value: &str) -> Option<Settings> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    let mut settings = Settings::of(Tuning::new());
    setting.expect("there is such a setting").take(&mut settings, value.as_bytes())?;
    Some(settings)
}

/// As [`set`], but returns the tuning.
fn tuned(name: &CStr, value: &str) -> Option<Tuning> {
    set(name, value).map(|settings| settings.tuning)
}

#[test]
fn the_documented_defaults_are_those_of_the_tuning() {
    let default = Tuning::new();
    for setting in SETTINGS {
        let field = setting.documented.field;
        let unchanged = |value: &str| tuned(setting.name, value) == Some(default);
        match setting.documented.default {
            "no" if field.is_empty() => {}
            "no" => assert!(unchanged("0"), "{field}"),
            "0: none" => assert!(unchanged("0"), "{field}"),
            "beyond 8 MiB (`libpagewise.so`: 16)" => assert!(unchanged("8"), "{field}"),
            // The document describes these in words.
            _ if field == "pages.sizemap" || field.is_empty() => {}
            default => assert!(unchanged(default), "{field}"),
        }
    }
}

#[test]
fn values_are_checked() {
    let delay = |value| tuned(c"PAGEWISE_PURGE_DELAY", value).map(|tuning| tuning.purge_delay);
    assert_eq!(delay(" 100 "), Some(100));
    assert_eq!(["99999999999", "never"].map(delay), [Some(u32::MAX); 2]);
    for invalid in ["", "abc", "-1", "1.5", "10ms", "99999999999999999999"] {
        assert_eq!(delay(invalid), None, "{invalid}");
    }
    for switch in [c"PAGEWISE_BACKGROUND", c"PAGEWISE_SHOW_STATS", c"PAGEWISE_VERBOSE"] {
        let takes = ["0", "1", "2"].map(|value| set(switch, value).is_some());
        assert_eq!(takes, [true, true, false]);
    }
    // The least and the greatest valid value, and invalid ones.
    let ranges = [
        (c"PAGEWISE_PAGE_SIZE", ["16K", "1M"], ["8192", "2M", "24K", "0", "K", "é"]),
        (c"PAGEWISE_FFCROSSOVER", ["16", "32K"], ["0", "33K", "100", "32784", "", "-16"]),
        (c"PAGEWISE_FREETOL", ["1", "1M"], ["0", "2M", "x", "1,5", "1KK", "99999999999999999999"]),
        (c"PAGEWISE_QUICK_BLOCKS", ["2", "1024"], ["1", "1025", "2K", "", "-2", "x"]),
        (c"PAGEWISE_QUICK_BYTES", ["0", "1G"], ["2G", "-1", "", "x", "1.5K", "99999999999G"]),
        (c"PAGEWISE_HEAPS_PER_CPU", ["1", "16"], ["0", "17", "", "-1", "x", "1K"]),
        (c"PAGEWISE_MAPPING_FROM", ["64k", "1g"], ["63K", "2G", "0", "", "x", "64KB"]),
    ];
    for (name, valid, invalid) in ranges {
        for value in valid {
            let settings = set(name, value).unwrap_or_else(|| panic!("{name:?}={value}"));
            // Some page settings contradict the defaults of the others.
            assert_eq!(settings.settle(&Tuning::new()).tuning.check(), Ok(()), "{name:?}={value}");
        }
        for value in invalid {
            assert!(set(name, value).is_none(), "{name:?}={value}");
        }
    }
}

#[test]
fn a_setting_sets_what_it_says() {
    let (default, pages) = (Tuning::new(), Tuning::new().pages);
    let is = |name, value, tuning| assert_eq!(tuned(name, value), Some(tuning), "{name:?}={value}");
    is(c"PAGEWISE_PAGE_SIZE", "16K", default.pages(pages.page_size(16 << 10)));
    is(c"PAGEWISE_FREETOL", "4096", default.pages(pages.freetol(4096)));
    is(c"PAGEWISE_FFCROSSOVER", "1K", default.pages(pages.ffcrossover(1024)));
    let fitting = pages.sizemap(crate::sizemap::SizeMap::PageFitting);
    is(c"PAGEWISE_SIZEMAP", "page-fitting", default.pages(fitting));
    is(c"PAGEWISE_QUICK_BLOCKS", "8", default.quick_blocks(8));
    is(c"PAGEWISE_QUICK_BYTES", "8K", default.quick_bytes(8192));
    is(c"PAGEWISE_HEAPS_PER_CPU", "1", default.heaps_per_cpu(1));
    is(c"PAGEWISE_MAPPING_FROM", "1M", default.mapping_from(1 << 20));
    is(c"PAGEWISE_PURGE_DELAY", "5", default.purge_delay(5));
    is(c"PAGEWISE_HUGE_PAGES", "0", default.huge_pages(HugePages::Never));
    is(c"PAGEWISE_HUGE_PAGES", "1", default.huge_pages(HugePages::Always));
    is(c"PAGEWISE_HUGE_PAGES", "32", default.huge_pages(HugePages::Beyond(32 << 20)));
    is(c"PAGEWISE_HUGE_PAGES", "system", default.huge_pages(HugePages::System));
    let most = u64::MAX.to_string();
    is(c"PAGEWISE_HUGE_PAGES", &most, default.huge_pages(HugePages::Beyond(usize::MAX)));
    is(c"PAGEWISE_BACKGROUND", "1", default.background(true));
    is(c"PAGEWISE_HARDENED", "1", default.hardening(Hardening::ON));
    if cfg!(feature = "guarded") {
        is(c"PAGEWISE_GUARDED", "7", default.guarded(7));
    } else {
        assert!(set(c"PAGEWISE_GUARDED", "7").is_none());
    }
    if cfg!(all(feature = "profiler", target_os = "linux")) {
        let profile = set(c"PAGEWISE_PROFILE", "file:1000").map(|settings| settings.profile);
        assert_eq!(profile, Some(Some(1000)));
        let signal = set(c"PAGEWISE_PROFILE_SIGNAL", "40").map(|settings| settings.profile_signal);
        assert_eq!(signal, Some(Some(40)));
    }
    let show = |value| set(c"PAGEWISE_SHOW_STATS", value).map(|settings| settings.show_stats);
    assert_eq!((show("0"), show("1")), (Some(false), Some(true)));
    let verbose = |value| set(c"PAGEWISE_VERBOSE", value).and_then(|settings| settings.verbose);
    assert_eq!((verbose("0"), verbose("1")), (Some(false), Some(true)));
}

#[test]
fn pages_that_make_no_sense_together_stay_as_they_are() {
    let default = Tuning::new();
    let mut settings = Settings::of(default.quick_blocks(8));
    for (name, value) in [(c"PAGEWISE_PAGE_SIZE", "16K"), (c"PAGEWISE_FFCROSSOVER", "32K")] {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("it is there");
        setting.take(&mut settings, value.as_bytes()).expect("a value that can be");
    }
    let settled = settings.settle(&default);
    assert_eq!(settled.tuning, default.quick_blocks(8));
    assert!(settled.clash.is_some());
    assert!(Settings::of(default).settle(&default).clash.is_none());
}

#[test]
fn a_misspelt_name_has_a_nearest() {
    for (misspelt, meant) in [
        ("PAGEWISE_PURGE_DELY", c"PAGEWISE_PURGE_DELAY"),
        ("PAGEWISE_PURGEDELAY", c"PAGEWISE_PURGE_DELAY"),
        ("PAGEWISE_HUGEPAGE", c"PAGEWISE_HUGE_PAGES"),
        ("PAGEWISE_SHOW_STAT", c"PAGEWISE_SHOW_STATS"),
        ("PAGEWISE_VERBSOE", c"PAGEWISE_VERBOSE"),
    ] {
        assert_eq!(nearest(misspelt.as_bytes()), Some(meant), "{misspelt}");
    }
    assert_eq!(nearest(b"PAGEWISE_ARENAS"), None);
    assert_eq!(nearest(&[b'P'; 100_000]), None);
}

/// Returns the edit distance by its definition, in exponential time.
fn by_definition(name: &[u8], known: &[u8]) -> usize {
    match (name, known) {
        ([], rest) | (rest, []) => rest.len(),
        ([first, name @ ..], [other, known @ ..]) if first == other => by_definition(name, known),
        ([_, less @ ..], [_, fewer @ ..]) => {
            let changes = [(less, fewer), (less, known), (name, fewer)];
            1 + changes
                .map(|(name, known)| by_definition(name, known))
                .into_iter()
                .min()
                .unwrap_or(0)
        }
    }
}

#[test]
fn the_distance_of_two_names_is_the_fewest_changes() {
    let words =
        ["", "A", "AB", "BA", "HUGE", "HUEG", "PAGES", "STAGE", "DELAY", "DELYA", "XDELA", "YALED"];
    for name in words {
        for known in words {
            let (name, known) = (name.as_bytes(), known.as_bytes());
            assert_eq!(distance(name, known), by_definition(name, known), "{name:?}, {known:?}");
        }
    }
}
