//! From a distribution to a verdict, on a small generated trace.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use common::{Workbench, pagewise};
use pagewise::catalogue;
use pagewise::trace::{Event, Origin, Writer};
use serde_json::Value;

const FIELDS: [&str; 12] = [
    "trace",
    "strategy",
    "ns_per_pair",
    "ns_per_pair_spread",
    "items_per_pair",
    "items_per_paged_pair",
    "peak_requested_bytes",
    "peak_resident_bytes",
    "peak_held_bytes",
    "fragmentation",
    "pages_touched",
    "stopped",
];

fn rows(args: &[&str]) -> Vec<Value> {
    let json = pagewise(args).succeeds();
    serde_json::from_str(&json).expect("an array of rows")
}

#[test]
fn compare_prints_one_row_per_trace_and_strategy_with_exactly_the_documented_fields() {
    let bench = Workbench::new();
    let copy = bench.path("copy.pwt");
    fs::copy(bench.trace(), &copy).unwrap();
    let rows = rows(&["compare", &bench.trace(), "--trace", &copy, "--json", "--repeat", "1"]);
    let strategies: BTreeSet<_> = rows.iter().map(|row| row["strategy"].as_str()).collect();
    for strategy in ["GLOBAL", "PAGEWISE", "LEA", "SYSTEM"] {
        assert!(strategies.contains(&Some(strategy)), "{strategy}");
    }
    assert_eq!(rows.len(), 2 * strategies.len());
    for row in &rows {
        let fields: BTreeSet<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, FIELDS.into_iter().collect());
        assert!(row["stopped"].is_null(), "{row}");
    }
}

#[test]
fn without_a_command_the_options_are_those_of_compare() {
    let bench = Workbench::new();
    let rows = rows(&["--trace", &bench.trace(), "--strategy", "mru", "--json", "--repeat", "1"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["strategy"], "MRU");
}

#[test]
fn the_figures_agree_with_each_other() {
    let bench = Workbench::new();
    let mut told = 0;
    for row in rows(&["compare", &bench.trace(), "--json", "--repeat", "1"]) {
        let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
        assert!(number("ns_per_pair") > 0.0);
        let requested = number("peak_requested_bytes");
        // All requested memory was written; the allocator may have had some of it before.
        assert!(number("peak_resident_bytes") >= 0.9 * requested, "{row}");
        assert!(number("pages_touched") > 0.0);
        if !row["peak_held_bytes"].is_null() {
            let held = number("peak_held_bytes");
            assert!(held >= requested, "{row}");
            assert!((number("fragmentation") - (1.0 - requested / held)).abs() < 1e-9, "{row}");
        }
        // Only strategies report their bookkeeping.
        let strategy = row["strategy"].as_str().expect("a name");
        if catalogue::find(strategy).is_some() {
            assert!(number("items_per_pair") > 0.0 && number("peak_held_bytes") > 0.0);
            told += 1;
        } else {
            assert!(row["items_per_pair"].is_null(), "{row}");
        }
    }
    assert!(told >= 4, "{told}");
}

/// (Regression: rows had no reason, and the status was 0.)
#[test]
fn an_exhausted_replay_gives_rows_with_the_reason() {
    let bench = Workbench::new();
    let path = bench.path("greedy.pwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), Origin::default()).unwrap();
    writer.write(Event::Allocate { slot: 0, size: 1 << 60, align: 16 }).unwrap();
    writer.finish().unwrap();
    let memory = "--memory=2305843009213693952";
    let none = pagewise(&["compare", &path, "--json", memory]);
    assert_eq!(none.status, 1, "{}", none.stderr);
    for row in serde_json::from_str::<Vec<Value>>(&none.stdout).expect("an array of rows") {
        assert!(row["ns_per_pair"].is_null() && row["peak_held_bytes"].is_null(), "{row}");
        assert_eq!(row["peak_requested_bytes"].as_u64(), Some(1 << 60));
        let stopped = row["stopped"].as_str().expect("a reason");
        assert!(stopped.starts_with("out of memory at operation 1 (a block of"), "{row}");
    }
    let report = pagewise(&["compare", &path, memory]);
    assert_eq!(report.status, 1, "{}", report.stderr);
    assert!(report.stdout.contains("out of memory at operation 1"), "{}", report.stdout);
    // One of two traces has results.
    pagewise(&["compare", &path, &bench.trace(), "--strategy=MRU", memory]).succeeds();
    let replay = pagewise(&["replay", &path, "--strategy", "MRU", memory]);
    replay.fails(1, "greedy: MRU: out of memory at operation 1 (a block of 1152921504606846976");
}

#[test]
fn an_empty_trace_gives_rows_without_figures_per_pair() {
    let bench = Workbench::new();
    let path = bench.path("empty.pwt");
    let writer = Writer::new(File::create(&path).unwrap(), Origin::default()).unwrap();
    writer.finish().unwrap();
    for row in rows(&["compare", &path, "--json", "--repeat", "1"]) {
        assert!(row["ns_per_pair"].is_null() && row["items_per_pair"].is_null(), "{row}");
    }
    let said = pagewise(&["compare", &path, "--repeat", "1"]).succeeds();
    // (Regression: a noise was given, and `tune` suggested, which refuses such a trace.)
    assert!(said.contains("The trace has no allocations: there is nothing to time."), "{said}");
    assert!(!said.contains("Noise: ") && !said.contains("pagewise tune"), "{said}");
    pagewise(&["replay", &path, "--strategy", "MRU", "--audit"]).succeeds();
    pagewise(&["info", &path]).succeeds();
}

#[test]
fn metered_figures_do_not_depend_on_the_run() {
    let bench = Workbench::new();
    let args = ["compare", &bench.trace(), "--json", "--repeat", "1", "--strategy", "MRU,RANDOM"];
    let metered = || {
        let mut rows = rows(&args);
        for row in &mut rows {
            row["ns_per_pair"].take();
        }
        rows
    };
    assert_eq!(metered(), metered());
}

#[test]
fn the_global_allocator_is_named_wherever_a_strategy_is() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let parsed = |args: &[&str]| -> Value {
        serde_json::from_str(&pagewise(args).succeeds()).expect("JSON")
    };
    let replayed = parsed(&["replay", &trace, "--strategy", "global", "--json"]);
    assert!(replayed["peak_resident_bytes"].as_u64() > Some(100_000), "{replayed}");
    assert!(replayed["peak_held_bytes"].is_null() && replayed["timeline"].is_null());
    pagewise(&["replay", &trace, "--strategy", "GLOBAL", "--audit"])
        .fails(2, "--audit checks only pagewise's own strategies, not GLOBAL");
    let simulated = parsed(&["simulate", &trace, "--strategy", "GLOBAL,MRU", "--json"]);
    assert_eq!(simulated[0]["strategy"], "GLOBAL");
    // Both reference every page of every block; only the blocks' positions differ.
    let touched = |row: usize| simulated[row]["pages_touched"].as_u64().expect("a number");
    assert!(touched(0) > 100 && touched(0) < 3 * touched(1), "{simulated}");
    let drawn = parsed(&["report", &trace, "--strategy", "GLOBAL,SYSTEM", "--json"]);
    let names = drawn.to_string();
    assert!(names.contains("GLOBAL") && names.contains("SYSTEM"), "{names}");
}

/// Without `libpagewise.so`, which the loader cannot be told of there. (Regression: it was taken
/// for an allocator that did not load, and the command failed.)
#[test]
fn allocators_are_compared_in_a_folder_whose_name_has_a_space() {
    let bench = Workbench::new();
    let built = Path::new(env!("CARGO_BIN_EXE_pagewise"));
    let folder = tempfile::Builder::new().prefix("two words").tempdir_in(built.parent().unwrap());
    let folder = folder.expect("a folder");
    let program = folder.path().join("pagewise");
    fs::hard_link(built, &program).expect("a link");
    fs::write(folder.path().join("libpagewise.so"), "").expect("it is written");
    let compared = Command::new(program).args(["compare", &bench.trace(), "--json"]).output();
    let compared = compared.expect("it runs");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
}

#[test]
fn a_plot_has_a_chart_for_each_trace_and_one_of_the_means() {
    let bench = Workbench::new();
    let (copy, plot) = (bench.path("copy.pwt"), bench.path("plot.svg"));
    fs::copy(bench.trace(), &copy).unwrap();
    let args = ["compare", &bench.trace(), &copy, "--strategy", "MRU,SYSTEM", "--repeat", "1"];
    pagewise(&[&args[..], &["--plot", &plot]].concat()).succeeds();
    let svg = fs::read_to_string(&plot).unwrap();
    for part in ["geometric means over 2 traces", "small", "copy", "MRU", "peak resident bytes"] {
        assert!(svg.contains(part), "{part}");
    }
    // Two points, and two in the legend of colours.
    assert_eq!(svg.matches("<circle").count(), 3 * 4);
    let nowhere = bench.path("none/plot.svg");
    let run = pagewise(&[&args[..], &["--plot", &nowhere]].concat());
    assert!(run.status == 1 && run.stderr.contains("none/plot.svg"), "{}", run.stderr);
}

/// (Regression: the folder was lost, names were not quoted, and the ending was always `.pwt`.)
#[test]
fn the_commands_suggested_for_a_trace_can_be_pasted() {
    let bench = Workbench::new();
    let path = bench.path("it's mine.trace");
    fs::rename(bench.trace(), &path).unwrap();
    let said = pagewise(&["compare", &path, "--strategy=MRU", "--repeat=1"]).succeeds();
    let line = said.lines().find(|line| line.starts_with("  pagewise report ")).expect(&said);
    let pasted = Command::new("sh")
        .arg("-c")
        .arg(line.replacen("pagewise", "\"$0\"", 1) + " --strategy=MRU")
        .arg(env!("CARGO_BIN_EXE_pagewise"))
        .current_dir(bench.directory())
        .output()
        .unwrap();
    // Without -o, the page has the trace's name.
    let told = String::from_utf8_lossy(&pasted.stderr);
    assert_eq!(told, "pagewise: wrote it's mine.html\n");
    assert!(pasted.status.success() && Path::new(&bench.path("it's mine.html")).is_file());
    let piped = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["compare", "-", "--strategy=MRU", "--repeat=1"])
        .stdin(File::open(&path).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&piped.stdout);
    assert!(said.contains("\n  pagewise tune TRACE --for memory\n"), "{said}");
}

/// (Regression: all that were given were named.)
#[test]
fn a_replay_is_headed_by_the_parameters_of_its_strategy() {
    let bench = Workbench::new();
    let given = ["--hc", "QL_HIGH=144", "--freetol", "512"];
    let said = |strategy| {
        let args = ["replay", &bench.trace(), "--strategy", strategy];
        pagewise(&[&args[..], &given].concat()).succeeds()
    };
    let (paged, hybrid, system) = (said("MRU"), said("HC"), said("SYSTEM"));
    assert!(paged.contains("FREETOL 512") && !paged.contains("HC "), "{paged}");
    assert!(hybrid.contains("QL_HIGH=144") && !hybrid.contains("FREETOL"), "{hybrid}");
    assert!(system.contains("small under SYSTEM (default parameters, seed"), "{system}");
}

/// What was asked for is not suggested. (Regression: it was, and what is refused as well.)
#[test]
fn suggestions_are_of_what_was_not_asked_for() {
    let bench = Workbench::new();
    let (trace, plot) = (bench.trace(), bench.path("plot.svg"));
    let next = |args: &[&str]| {
        let said = pagewise(args).succeeds();
        said[said.find("Next: ").unwrap_or_else(|| panic!("{said}"))..].to_owned()
    };
    let replay = next(&["replay", &trace, "--strategy", "MRU"]);
    assert!(replay.contains("--audit") && replay.contains("--plot"), "{replay}");
    let replay = next(&["replay", &trace, "--strategy", "MRU", "--audit"]);
    assert!(!replay.contains("--audit") && replay.contains("--plot"), "{replay}");
    let replay = next(&["replay", &trace, "--strategy", "SYSTEM"]);
    assert_eq!(replay, "Next: `pagewise compare` compares it with others.\n");
    let simulate = next(&["simulate", &trace, "--strategy", "MRU", "--plot", &plot]);
    assert!(!simulate.contains("--plot") && simulate.contains("--working-set"), "{simulate}");
}

/// A library whose `malloc` aborts. (Regression: the run ended without a word on which allocator
/// and which trace it was.)
#[cfg(target_os = "linux")]
#[test]
fn an_allocator_that_crashes_loses_only_its_own_results() {
    let bench = Workbench::new();
    let source = r#"
        #[unsafe(no_mangle)]
        pub extern "C" fn malloc(_: usize) -> *mut u8 { std::process::abort() }
    "#;
    let (source, library) = (bench.write("crash.rs", source), bench.path("libcrash.so"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", &source, "-o", &library])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let reason = "the replay was ended by signal 6";
    let args = ["simulate", &bench.trace(), "--strategy=MRU", "--preload", &library, "--json"];
    let rows = rows(&args);
    assert!(rows[0]["stopped"].is_null(), "{}", rows[0]);
    assert_eq!(rows[1]["stopped"], reason);
    let tune = ["tune", &bench.trace(), "--for=memory", "--arena", "--candidates=8", "--against"];
    let said = pagewise(&[&tune[..], &[&library]].concat()).succeeds();
    assert!(
        said.contains(&format!("No result: CRASH (libcrash.so) on small: {reason}.")),
        "{said}"
    );
}

#[test]
fn a_replay_is_plotted() {
    let bench = Workbench::new();
    let plot = bench.path("replay.svg");
    let args = ["replay", &bench.trace(), "--strategy", "MRU", "--plot", &plot];
    pagewise(&args).succeeds();
    let svg = fs::read_to_string(&plot).unwrap();
    for part in ["small under MRU", "requested", "held", "operations"] {
        assert!(svg.contains(part), "{part}");
    }
    let system = ["replay", &bench.trace(), "--strategy", "SYSTEM", "--plot", "-"];
    pagewise(&system).fails(2, "--plot draws only pagewise's own strategies, not SYSTEM");
}

#[test]
fn info_follows_the_program_over_time() {
    let bench = Workbench::new();
    let text = pagewise(&["info", &bench.trace()]).succeeds();
    for name in ["live bytes", "live blocks", "requests", "mean size", "freed"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert_eq!(line.chars().filter(|c| ('▁'..='█').contains(c)).count(), 48, "{line}");
    }
}

#[test]
fn the_verdict_comes_first_and_all_fits_80_columns() {
    let bench = Workbench::new();
    let copy = bench.path("copy.pwt");
    fs::copy(bench.trace(), &copy).unwrap();
    let one = pagewise(&["compare", &bench.trace(), "--repeat", "2"]).succeeds();
    let args = ["compare", &bench.trace(), &copy, "--repeat", "1", "--strategy", "PAGEWISE,SYSTEM"];
    let many = pagewise(&args).succeeds();
    let each = pagewise(&[&args[..], &["--each"]].concat()).succeeds();
    let table = "\nstrategy ";
    for text in [&one, &many, &each] {
        let place = |part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let verdict = ["Fastest: ", "Leanest: ", "Fewest OS pages: ", "Noise: "].map(place);
        assert!(verdict.is_sorted() && verdict[3] < place(table), "{text}");
        assert!(place(table) < place("\nOS pages  "), "explained below: {text}");
        let too_long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(too_long, None, "{text}");
    }
    let explained = one.lines().any(|line| {
        line.starts_with("GLOBAL ")
            && line.ends_with("pagewise's global allocator, for programs in Rust")
    });
    assert!(explained && one.lines().any(|line| line.starts_with("SYSTEM ")), "{one}");
    let trace = bench.trace();
    assert!(one.contains(&format!("\n  pagewise tune {trace} --for memory\n")), "{one}");
    assert!(one.starts_with("small: ") && one.contains("default parameters"), "{one}");
    let tables = |text: &str| text.matches(table).count();
    assert_eq!([&one, &many, &each].map(|text| tables(text)), [1, 1, 3]);
}

#[test]
fn an_audited_replay_finds_no_fault_in_any_strategy() {
    let bench = Workbench::new();
    for row in rows(&["compare", &bench.trace(), "--json", "--repeat", "1"]) {
        let strategy = row["strategy"].as_str().unwrap();
        if catalogue::find(strategy).is_none() {
            continue;
        }
        for page_size in ["4K", "1M"] {
            let args = ["replay", &bench.trace(), "--strategy", strategy, "--page-size", page_size];
            let args = [&args[..], &["--audit", "500", "--json"]].concat();
            let replayed: Value = serde_json::from_str(&pagewise(&args).succeeds()).unwrap();
            assert!(replayed["audits"].as_u64().unwrap() > 1, "{replayed}");
            assert_eq!(replayed["strategy"], row["strategy"]);
        }
    }
}

#[test]
fn info_counts_what_was_generated() {
    let bench = Workbench::new();
    let json = pagewise(&["info", &bench.trace(), "--json"]).succeeds();
    let info: Value = serde_json::from_str::<Vec<Value>>(&json).unwrap().remove(0);
    assert_eq!(info["program"], "pagewise-generate");
    // 552 requests per second for 5 seconds; three times the standard deviation.
    let allocations = info["allocations"]["all"].as_f64().unwrap();
    assert!((allocations - 2760.0).abs() < 3.0 * 2760.0_f64.sqrt(), "{allocations}");
    assert_eq!(info["sizes"]["all"], 3);
    assert!(info["date"].is_null());
    let markdown = pagewise(&["info", "--markdown", &bench.trace()]).succeeds();
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| small |")).count(), 3);
}

#[test]
fn a_seed_makes_the_same_file_again() {
    let bench = Workbench::new();
    let make = |seed: &str, name: &str| {
        let output = bench.path(name);
        let args = ["generate", "--distribution", "cambridg-like", "--seconds", "2", "--seed"];
        let run = pagewise(&[&args[..], &[seed, "-o", &output]].concat());
        assert!(run.stderr.contains(&format!("seed {seed}")), "{}", run.stderr);
        run.succeeds();
        fs::read(output).unwrap()
    };
    assert_eq!(make("3", "a.pwt"), make("3", "b.pwt"));
    assert_ne!(make("3", "a.pwt"), make("4", "b.pwt"));
}

#[test]
fn a_generator_that_fails_leaves_nothing_behind() {
    let bench = Workbench::new();
    let before = bench.files();
    let output = bench.path("new.pwt");
    let generate = |distribution: &str, seconds: &str, output: &str| {
        pagewise(&["generate", "--distribution", distribution, "--seconds", seconds, "-o", output])
    };
    generate("no-such.csv", "1", &output).fails(1, "no-such.csv (built in: cambridg-like");
    generate(&bench.path("sizes.csv"), "0", &output).fails(2, "--seconds");
    generate(&bench.path("sizes.csv"), "1", &bench.path("none/new.pwt")).fails(1, "none/new.pwt");
    assert_eq!(bench.files(), before);

    let wrong = bench.write("wrong.csv", "size,rate,live\n16,1,1\n16,2,0\n");
    generate(&wrong, "1", &output).fails(1, "wrong.csv: line 3: live: 0 is not above 0");
    assert!(!bench.files().iter().any(|file| file.ends_with("new.pwt")));
}

/// (Regression: the tables of the workbench itself grew during the replay of a long trace, and
/// counted.)
#[test]
fn a_long_traces_resident_memory_is_the_allocators_own() {
    const SIZE: u64 = 16;
    // With their frees they are more operations than are kept in memory.
    const BLOCKS: u32 = (2 << 20) + 1;
    let bench = Workbench::new();
    let path = bench.path("long.pwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), Origin::default()).unwrap();
    for slot in 0..BLOCKS {
        writer.write(Event::Allocate { slot, size: SIZE, align: 16 }).unwrap();
    }
    writer.finish().unwrap();
    let json = pagewise(&["replay", &path, "--json", "--strategy", "PAGEWISE"]).succeeds();
    let replayed: Value = serde_json::from_str(&json).expect("a row");
    let resident = replayed["peak_resident_bytes"].as_u64().expect("a number");
    let requested = SIZE * u64::from(BLOCKS);
    assert!((requested..requested + (4 << 20)).contains(&resident), "{resident} of {requested} B");
}
