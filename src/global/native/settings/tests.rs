use super::complaints::{distance, nearest};
use super::*;
use crate::global::Hardening;

impl Setting {
    /// The row of the document's table.
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
fn the_documented_delay_is_the_default() {
    let delay = &SETTINGS[0].documented;
    assert_eq!((delay.field, delay.default), ("purge_delay", "1000"));
    assert_eq!(Tuning::new().purge_delay, 1000);
}

#[test]
fn values_are_checked() {
    let number = |name, value: &str| {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        setting.expect("there is such a setting").number(value.as_bytes())
    };
    assert_eq!(number(c"PAGEWISE_PURGE_DELAY", " 100 "), Some(100));
    assert_eq!(number(c"PAGEWISE_PURGE_DELAY", "99999999999"), Some(99_999_999_999));
    for invalid in ["", "abc", "-1", "1.5", "10ms", "99999999999999999999"] {
        assert_eq!(number(c"PAGEWISE_PURGE_DELAY", invalid), None, "{invalid}");
    }
    for switch in [c"PAGEWISE_BACKGROUND", c"PAGEWISE_SHOW_STATS", c"PAGEWISE_VERBOSE"] {
        assert_eq!([0, 1, 2].map(|n| number(switch, &n.to_string())), [Some(0), Some(1), None]);
    }
}

#[test]
fn a_setting_sets_what_it_says() {
    let set = |index: usize, number| {
        let mut settings = Settings { tuning: Tuning::new(), show_stats: false, verbose: None };
        (SETTINGS[index].set)(&mut settings, number);
        settings
    };
    assert_eq!(set(0, 5).tuning, Tuning { purge_delay: 5, ..Tuning::new() });
    assert_eq!(set(0, 1 << 40).tuning.purge_delay, u32::MAX);
    assert_eq!(set(1, 0).tuning, Tuning { huge_pages: HugePages::Never, ..Tuning::new() });
    assert_eq!(set(1, 1).tuning.huge_pages, HugePages::Always);
    assert_eq!(set(1, 32).tuning.huge_pages, HugePages::Beyond(32 << 20));
    assert_eq!(set(1, u64::MAX).tuning.huge_pages, HugePages::Beyond(usize::MAX));
    assert_eq!(set(2, 1).tuning, Tuning { background: true, ..Tuning::new() });
    assert_eq!(set(3, 1).tuning.hardening, Hardening::ON);
    assert_eq!(set(4, 7).tuning.guarded, 7);
    assert!(set(5, 1).show_stats && !set(5, 0).show_stats);
    assert_eq!((set(6, 0).verbose, set(6, 1).verbose), (Some(false), Some(true)));
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

/// The distance by its definition, which takes exponential time.
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
