//! `pagewise simulate` from its command line, on a small generated trace.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};

use common::{Workbench, pagewise};
use pagewise::trace::{Event, Origin, Writer};
use serde_json::Value;

const FIELDS: [&str; 11] = [
    "trace",
    "strategy",
    "page_size",
    "strategy_page_size",
    "peak_requested_bytes",
    "peak_pages",
    "references",
    "pages_touched",
    "faults",
    "curve",
    "stopped",
];

fn rows(args: &[&str]) -> Vec<Value> {
    let json = pagewise(&[&["simulate", "--json"], args].concat()).succeeds();
    serde_json::from_str(&json).expect("an array of rows")
}

/// Returns the points of a row's curve.
fn curve(row: &Value) -> Vec<(u64, u64)> {
    serde_json::from_value(row["curve"].clone()).expect("pairs of numbers")
}

/// Writes a trace of these events.
fn trace(bench: &Workbench, name: &str, events: &[Event]) -> String {
    let path = bench.path(name);
    let mut writer = Writer::new(File::create(&path).unwrap(), Origin::default()).unwrap();
    events.iter().for_each(|&event| writer.write(event).unwrap());
    writer.finish().unwrap();
    path
}

#[test]
fn every_strategy_and_page_size_has_a_row_with_exactly_the_documented_fields() {
    let bench = Workbench::new();
    let rows = rows(&[&bench.trace(), "--page-size", "512,4K,2M"]);
    let strategies: BTreeSet<_> = rows.iter().map(|row| row["strategy"].as_str()).collect();
    assert!(strategies.contains(&Some("MOST-FREE")) && strategies.contains(&Some("SYSTEM")));
    assert_eq!(rows.len(), 3 * strategies.len());
    for row in &rows {
        let fields: BTreeSet<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, FIELDS.into_iter().collect());
        let is_other = row["strategy"] == "SYSTEM" || row["strategy"] == "LEA";
        assert_eq!(row["strategy_page_size"].is_null(), is_other);
        assert!(row["stopped"].is_null());
    }
}

#[test]
fn a_curve_falls_from_all_references_to_the_pages_touched() {
    let bench = Workbench::new();
    for row in rows(&[&bench.trace()]) {
        let curve = curve(&row);
        let touched = row["pages_touched"].as_u64().unwrap();
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{row}");
        assert_eq!(curve[0].0, 1);
        assert!(curve[0].1 <= row["references"].as_u64().unwrap());
        assert_eq!(curve.last(), Some(&(touched, touched)));
    }
}

#[test]
fn percentages_are_of_the_peak_and_working_sets_are_equal_for_all() {
    let bench = Workbench::new();
    for row in rows(&[&bench.trace(), "--working-set", "25%,7", "--strategy", "MRU,SYSTEM"]) {
        let peak = row["peak_requested_bytes"].as_u64().unwrap().div_ceil(4096);
        assert_eq!(row["peak_pages"], peak);
        assert_eq!(row["faults"][0]["pages"], peak.div_ceil(4));
        assert_eq!(row["faults"][1]["pages"], 7);
        let seven = curve(&row).into_iter().find(|(pages, _)| *pages == 7).unwrap();
        assert_eq!(row["faults"][1]["lru"], seven.1);
        assert!(row["faults"][0]["clock"].is_null());
    }
}

#[test]
fn clock_faults_like_lru_once_everything_fits() {
    let bench = Workbench::new();
    let args = [&bench.trace(), "--clock", "--working-set", "100000", "--working-set", "10%"];
    for row in rows(&args) {
        let [all, some] = [&row["faults"][0], &row["faults"][1]];
        assert_eq!((&all["lru"], &all["clock"]), (&row["pages_touched"], &row["pages_touched"]));
        assert!(some["clock"].as_u64() > all["clock"].as_u64(), "{row}");
    }
}

#[test]
fn each_touch_mode_makes_its_references() {
    let bench = Workbench::new();
    let events = [
        Event::Allocate { slot: 0, size: 3 * 4096, align: 4096 },
        Event::Reallocate { slot: 0, size: 2 * 4096 },
        Event::Free { slot: 0 },
    ];
    let path = trace(&bench, "three.pwt", &events);
    // At the allocation, before and after the reallocation, and at the free.
    for (touch, references) in [("first", 4), ("written", 3 + 1 + 2 + 1), ("whole", 3 + 3 + 2 + 2)]
    {
        for row in rows(&[&path, "--touch", touch, "--strategy", "MRU,FIRST-FIT,SYSTEM"]) {
            assert_eq!(row["references"], references, "{touch}: {row}");
        }
    }
}

#[test]
fn with_bookkeeping_as_many_pages_are_touched_as_compare_reports() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let list = ["--strategy", "PAGEWISE,MRU,FIRST-FIT,BEST-FIT,LFL,HCGEN,HEAD-FIRST,BUDDY"];
    let args = [&["compare", &*trace, "--json", "--repeat", "1"], &list[..]].concat();
    let compared: Vec<Value> = serde_json::from_str(&pagewise(&args).succeeds()).unwrap();
    // SAFETY: a plain query.
    let os_page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.to_string();
    let plain = [&[&*trace, "--page-size", &os_page], &list[..]].concat();
    let simulated = rows(&[&plain[..], &["--bookkeeping"]].concat());
    let plain = rows(&plain);
    assert_eq!([compared.len(), simulated.len()], [plain.len(); 2]);
    for ((row, simulated), plain) in compared.iter().zip(&simulated).zip(&plain) {
        assert_eq!(row["strategy"], simulated["strategy"]);
        assert_eq!(row["pages_touched"], simulated["pages_touched"], "{row}");
        assert!(simulated["references"].as_u64() > plain["references"].as_u64(), "{row}");
    }
}

#[test]
fn pages_of_strategies_have_the_requested_size() {
    let bench = Workbench::new();
    let sizes = |option: &[&str]| {
        let args = [&[&*bench.trace(), "--strategy", "MRU", "--page-size", "4K,8K"], option];
        let rows = rows(&args.concat());
        rows.iter().map(|row| row["strategy_page_size"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[]), [65_536, 65_536]);
    assert_eq!(sizes(&["--strategy-page", "16K"]), [16_384, 16_384]);
    assert_eq!(sizes(&["--same-page"]), [4096, 8192]);
}

#[test]
fn a_simulation_can_be_repeated() {
    let bench = Workbench::new();
    let again = || rows(&[&bench.trace(), "--strategy", "RANDOM,MRU", "--page-size", "4K"]);
    assert_eq!(again(), again());
}

#[test]
fn the_report_has_every_table_and_markdown_the_overview() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let report = pagewise(&["simulate", &trace, &trace, "--clock"]).succeeds();
    for part in [
        "seed ",
        "small: pages of 4.0 KiB",
        "The same under CLOCK",
        "*",
        "Page-fault curve",
        "Fewest",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!pagewise(&["simulate", &trace]).succeeds().contains("Fewest"));
    let markdown = pagewise(&["simulate", &trace, "--markdown"]).succeeds();
    assert!(markdown.contains("\n| trace | peak | 10 %: fewest | LEA | SYSTEM |"), "{markdown}");
    assert!(markdown.contains("\n| SYSTEM | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |"), "{markdown}");
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
}

#[test]
fn a_plot_is_a_complete_svg_or_absent() {
    let bench = Workbench::new();
    let plot = bench.path("curves.svg");
    pagewise(&["simulate", &bench.trace(), "--plot", &plot, "--page-size", "4K,64K"]).succeeds();
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("MOST-FREE") && svg.contains("page faults"));
    let before = bench.files();
    let missing = bench.path("none/curves.svg");
    let run =
        pagewise(&["simulate", &bench.trace(), "--strategy", "MRU", "--json", "--plot", &missing]);
    run.fails(1, "curves.svg cannot be written");
    assert_eq!(bench.files(), before);
}

#[test]
fn invalid_simulations_are_refused() {
    let bench = Workbench::new();
    let wrong = |option: &[&str], part: &str| {
        pagewise(&[&["simulate", &bench.trace()], option].concat()).fails(2, part);
    };
    wrong(&["--page-size", "4M"], "from 512 bytes to 2 MiB");
    wrong(&["--page-size", "5000"], "power of two");
    wrong(&["--same-page", "--page-size", "2M"], "page size");
    wrong(&["--same-page", "--strategy-page", "4K"], "cannot be used with");
    wrong(&["--working-set", "0"], "a percentage such as 25%");
    wrong(&["--strategy", "LEST-FREE"], "did you mean LEAST-FREE?");
    wrong(&["--touch", "never"], "written");
    wrong(&["--preload", "/none/libmimalloc.so.2"], "Debian's package libmimalloc2.0");
    assert!(pagewise(&["simulate", "--help"]).succeeds().contains("Examples:"));
}

#[test]
fn an_exhausted_replay_gives_rows_with_the_reason() {
    let bench = Workbench::new();
    let event = Event::Allocate { slot: 0, size: 1 << 60, align: 16 };
    let path = trace(&bench, "greedy.pwt", &[event]);
    let memory = "--memory=2305843009213693952";
    for row in rows(&[&path, memory]) {
        let stopped = row["stopped"].as_str().unwrap();
        assert!(stopped.starts_with("out of memory at operation 1"), "{row}");
        assert!(row["references"].is_null() && curve(&row).is_empty(), "{row}");
    }
    let report = pagewise(&["simulate", &path, memory]).succeeds();
    assert!(report.contains("MRU: out of memory at operation 1"), "{report}");
}

#[test]
fn an_empty_trace_faults_nowhere() {
    let bench = Workbench::new();
    let path = trace(&bench, "empty.pwt", &[]);
    for row in rows(&[&path]) {
        assert_eq!((&row["references"], &row["faults"][0]["lru"]), (&0.into(), &0.into()));
    }
    pagewise(&["simulate", &path, "--plot", &bench.path("empty.svg")]).succeeds();
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_library_without_an_allocator_is_detected() {
    let bench = Workbench::new();
    let run = pagewise(&["simulate", &bench.trace(), "--json", "--preload", "libm.so.6"]);
    run.fails(1, "libm.so.6 did not replace malloc");
    // (Regression: the C library was said to have taken its place.)
    let run = pagewise(&["simulate", &bench.trace(), "--preload", "nosuch.so", "--json"]);
    run.fails(1, "the loader found no nosuch.so (give a path, or install it)");
}

/// Runs where mimalloc is installed.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn mimalloc_is_simulated_beside_the_system() {
    let bench = Workbench::new();
    let args = ["--strategy", "SYSTEM", "--preload", "libmimalloc.so.2", "--json"];
    let run = pagewise(&[&["simulate", &*bench.trace()], &args[..]].concat());
    if run.status != 0 {
        return run.fails(1, "the loader found no libmimalloc.so.2 (give a path, or install it; ");
    }
    let rows: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(rows[1]["strategy"], "MIMALLOC (libmimalloc.so.2)");
    assert_ne!(rows[0]["curve"], rows[1]["curve"]);
}
