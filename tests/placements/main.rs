//! Compares where every strategy of the catalogue places its blocks with a recorded file for each
//! family.
//!
//! A replay must be reproducible, settings are tuned by replays, and a program's figures depend on
//! which memory serves a request. So a change of placement must be intended: it shows in that file.
//! To rewrite it:
//! ```sh
//! WRITE=1 cargo test -p pagewise --test placements
//! ```
//! A line is one sequence of requests under one strategy and its parameters: a hash of all results
//! (each block's offset from the start of the memory and its length, or that there is none), a hash
//! of the walks at several points, and figures at the last point before all blocks are freed:
//! ```text
//! sequence placements walks | bytes of blocks, bytes held, free stretches, largest of them | items visited in all
//! ```
//! Parameters that change nothing are left out.

// Addresses and items are those of 64-bit targets: on 32-bit ones, tags and headers are shorter.
#![cfg(target_pointer_width = "64")]

#[path = "../properties/compositions.rs"]
mod compositions;
#[path = "../properties/configs.rs"]
mod configs;
mod harness;
mod sequences;
mod subject;
mod trace_of;

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use pagewise::catalogue;
use pagewise::pages::Config;
use subject::Subject;

/// Configurations, each with a name.
const CONFIGS: [(&str, Config); 7] = [
    ("p4096", Config::with_page_size(4096)),
    ("p512", configs::PAPERS),
    ("linear", configs::LINEAR),
    ("geometric", configs::GEOMETRIC),
    ("classes", configs::CLASSES),
    ("arena", Config::arena()),
    ("p65536", Config::new()),
];

/// Returns all lines of a strategy.
fn lines(subject: &Subject) -> String {
    let configs = match subject.family {
        "brent" | "default" => CONFIGS.len(),
        // They have no page size, and are slow.
        "nielsen" => 1,
        _ => 2,
    };
    let mut seen = HashSet::new();
    let mut text = String::new();
    for (name, config) in &CONFIGS[..configs] {
        let mut lines = String::new();
        for sequence in sequences::ALL {
            let traced = trace_of::trace(subject, *config, sequence);
            writeln!(lines, "  {} {traced}", sequence.name).expect("a string grows");
        }
        if seen.insert(lines.clone()) {
            write!(text, "{} {name}\n{lines}", subject.name).expect("a string grows");
        }
    }
    text
}

/// Compares the lines of some strategies with their file.
fn compare(name: &str, subjects: impl Iterator<Item = Subject>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/placements/{name}.txt"));
    let now: String = subjects.map(|subject| lines(&subject)).collect();
    if env::var_os("WRITE").is_some() {
        fs::write(&path, &now).expect("the file is written");
    }
    let then = fs::read_to_string(&path).expect("text").replace("\r\n", "\n");
    let mut strategy = "";
    for (was, is) in then.lines().zip(now.lines()) {
        if !is.starts_with(' ') {
            strategy = is;
        }
        assert_eq!(was, is, "{strategy}: if this is meant, WRITE=1 rewrites {}", path.display());
    }
    assert_eq!(then.lines().count(), now.lines().count(), "as many lines");
}

/// A test for each family.
macro_rules! families {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            #[cfg_attr(miri, ignore = "takes too long")]
            fn $test() {
                let family = catalogue::families().iter().find(|family| family.name == $name);
                let entries = family.expect("a family").entries.iter();
                compare($name, entries.map(|entry| Subject::named($name, entry)));
            }
        )*

        #[test]
        fn every_family_has_a_test() {
            let tested = [$($name),*];
            assert!(catalogue::families().iter().all(|family| tested.contains(&family.name)));
        }
    };
}

families! {
    brent "brent"
    fits "fits"
    nielsen "nielsen"
    head_firsts "head-firsts"
    hasan "hasan"
    lazy "lazy"
    default "default"
}

/// Compositions that are not in the catalogue.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn compositions() {
    compare("compositions", compositions::all().chain([subject::claims()]));
}
