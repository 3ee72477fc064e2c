//! The search on a small trace: what it prints, writes and refuses.

mod common;
#[path = "common/interruptible.rs"]
mod interruptible;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use common::{Workbench, pagewise};
use interruptible::interruptible;
use pagewise::trace::{Event, Origin, Writer};
use serde_json::Value;

const FEW: [&str; 2] = ["--candidates", "20"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Checks that no point of the front is dominated by another, and that the gain is the chosen
/// one's.
fn check(found: &Value) {
    let front = found["front"].as_array().expect("an array");
    assert!(!front.is_empty());
    for (index, one) in front.iter().enumerate() {
        let beats = |other: &Value| {
            ["time", "memory", "faults"]
                .iter()
                .all(|name| number(&other[name]) <= number(&one[name]))
        };
        assert!(front.iter().enumerate().all(|(other, by)| other == index || !beats(by)), "{one}");
    }
    let held_out = &found["held_out"];
    let gain = number(&held_out["gain"]);
    assert!((gain - (1.0 - number(&held_out["chosen"]["memory"]))).abs() < 1e-12);
    let noise = number(&held_out["noise"]["memory"]);
    assert_eq!(held_out["gained"].as_bool(), Some(gain > noise.max(0.005)));
}

#[test]
fn a_search_prints_a_front_a_choice_a_verdict_and_code_for_each_family() {
    let bench = Workbench::new();
    let (trace, code, json) = (bench.trace(), bench.path("tuned.rs"), bench.path("tune.json"));
    let plot = bench.path("front.svg");
    let files = ["--emit", &code, "-o", &json, "--plot", &plot];
    let args = [&["tune", &trace, "--for", "memory", "--json"], &files[..], &FEW[..]].concat();
    let text = pagewise(&args).succeeds();
    let tuned: Value = serde_json::from_str(&text).expect("JSON");
    let families = tuned["families"].as_array().expect("an array");
    assert_eq!(families.len(), 2);
    families.iter().for_each(check);
    let [global, arena] = [&families[0], &families[1]];
    assert_eq!((&global["family"], &arena["family"]), (&"global".into(), &"arena".into()));
    // An arena's default pages are too large for such a small program.
    assert!(number(&arena["held_out"]["gain"]) > 0.1, "{arena}");
    let code = fs::read_to_string(&code).expect("the code");
    assert_eq!(tuned["code"], code);
    // There is no code for what gains nothing.
    for (family, part) in [(global, "Pagewise::with(\n    Tuning::new()"), (arena, "pub fn heap()")]
    {
        let gained = family["held_out"]["gained"].as_bool().expect("a verdict");
        assert_eq!((code.contains(part), family["code"] != ""), (gained, gained), "{family}");
    }
    assert!(code.contains("pub fn heap()"), "{code}");
    assert_eq!(fs::read_to_string(&json).expect("the JSON").trim(), text.trim());
    let svg = fs::read_to_string(&plot).expect("the plot");
    assert!(svg.contains("small: global allocator") && svg.contains("small: arena"));
}

/// Regression: if one file could not be written, the results of the whole search were lost.
#[test]
fn results_are_printed_even_if_a_file_cannot_be_written() {
    let bench = Workbench::new();
    let args = ["tune", &bench.trace(), "--for", "faults", "--arena", "--candidates", "8"];
    let args = [&args[..], &["--against", "none", "-o", "/dev/full"]].concat();
    let run = pagewise(&args);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let last = run.stderr.lines().last();
    assert!(last.is_some_and(|last| last.starts_with("pagewise: /dev/full cannot be written: ")));
    assert!(run.stdout.contains("held out"), "{}", run.stdout);
    let run = pagewise(&[&args[..], &["--json"]].concat());
    assert_eq!(run.status, 1, "{}", run.stderr);
    let tuned: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(tuned["families"][0]["family"], "arena");
}

#[test]
fn exact_measures_do_not_depend_on_the_run() {
    let bench = Workbench::new();
    let args =
        ["tune", &bench.trace(), "--for", "faults", "--arena", "--json", "--candidates", "8"];
    let args = [&args[..], &["--against", "none"]].concat();
    let first = || {
        let tuned: Value = serde_json::from_str(&pagewise(&args).succeeds()).expect("JSON");
        // Only the first generation, which does not depend on times.
        let front = tuned["families"][0]["front"].as_array().expect("an array").clone();
        front.iter().map(|one| one["faults"].as_f64()).fold(None, |least: Option<f64>, faults| {
            least.map_or(faults, |least| faults.map(|faults| faults.min(least)))
        })
    };
    assert_eq!(first(), first());
}

#[test]
fn the_verdict_states_the_gain_and_both_codes_compile() {
    let bench = Workbench::new();
    let (trace, other) = (bench.trace(), bench.path("other.pwt"));
    fs::copy(&trace, &other).expect("copied");
    let args = ["tune", &trace, "--for", "balanced", "--held-out", &other, "--verify"];
    let text = pagewise(&[&args[..], &FEW[..]].concat()).succeeds();
    // As one line, since sentences are wrapped.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts =
        ["seed 1", "those that no other", "held out", "SYSTEM", " than the default", "compiles."];
    for part in parts.iter().chain(&["global allocator, for a whole", "arena, for a part"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Either it is installed and was measured, or the output says how to get it.
    assert!(text.contains("JEMALLOC (libjemalloc") || text.contains("libjemalloc2 has it"));
}

/// For a program not written in Rust, settings are found, accepted by the library, and shown with
/// their gain; or there is no gain, and nothing to paste. Either way the output names the allocator
/// that does better.
#[test]
fn settings_are_found_for_a_program_not_written_in_rust() {
    let bench = Workbench::new();
    let library = common::libpagewise();
    let (trace, file) = (bench.trace(), bench.path("small.env"));
    let other = bench.path("other.pwt");
    fs::copy(&trace, &other).expect("copied");
    let preload = format!("--preload={}", library.display());
    let args = ["tune", &trace, "--for", "memory", &preload, "--held-out", &other, "--verify"];
    let files = ["--emit", &file, "--json", "--against", "none"];
    // With as many candidates one nearly always takes less memory; which are measured depends on
    // their times.
    let text = pagewise(&[&args[..], &files[..], &["--candidates", "80"]].concat()).succeeds();
    let tuned: Value = serde_json::from_str(&text).expect("JSON");
    let found = &tuned["families"][0];
    check(found);
    assert_eq!(found["family"], "preload");
    let rivals = found["held_out"]["rivals"].as_array().expect("an array");
    assert_eq!(rivals.len(), 1, "a crate is none for a program in C: {found}");
    let gained = found["held_out"]["gained"].as_bool().expect("a verdict");
    let settings = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(tuned["code"], settings);
    if gained {
        let lines: Vec<_> = settings.lines().collect();
        assert!(lines[0].starts_with("# Tuned for peak resident on small"), "{settings}");
        assert_eq!(lines.last(), Some(&&*format!("LD_PRELOAD={}", library.display())));
        let first = lines.iter().find(|line| !line.starts_with("# ")).expect("a setting");
        assert!(first.starts_with("PAGEWISE_"), "{settings}");
    } else {
        assert_eq!(settings, "", "there is nothing to paste");
    }
    pagewise(&["tune", &trace, "--for", "speed", "--preload=/no/lib.so"]).fails(2, "/no/lib.so");
    pagewise(&["tune", &trace, "--for", "speed", "--preload", "--arena"]).fails(2, "--arena");
}

/// (Regression: the gain was said to be of traces that the search had not seen.)
#[test]
fn a_trace_that_is_searched_cannot_be_held_out() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let args = ["tune", &trace, "--for", "memory", "--held-out", &trace];
    pagewise(&args).fails(2, "is searched as well as held out");
}

/// The figures do not show that threads were not measured.
#[test]
fn a_trace_of_several_threads_is_said_to_be_replayed_by_one() {
    let bench = Workbench::new();
    let path = bench.path("two.pwt");
    let file = fs::File::create(&path).expect("a file");
    let mut writer = Writer::new(file, Origin::default()).expect("a writer");
    for slot in 0..400 {
        writer.write(Event::Allocate { slot, size: 100, align: 16 }).expect("written");
        writer.write(Event::Thread { thread: 1 - slot % 2 }).expect("written");
    }
    writer.finish().expect("finished");
    let few = ["--for", "memory", "--arena", "--candidates", "8", "--against", "none"];
    let tune = |trace: &str| pagewise(&[&["tune", trace], &few[..]].concat()).succeeds();
    assert!(tune(&path).contains("One thread replayed the events of 2: locks"));
    assert!(!tune(&bench.trace()).contains("One thread replayed"));
}

/// Tunes for the memory of a program that does nearly nothing; returns the result as JSON.
fn tuned_with(bench: &Workbench, program: &[&str]) -> Value {
    let preload = format!("--preload={}", common::libpagewise().display());
    let args = ["tune", &bench.trace(), "--for", "memory", &preload, "--json", "--against", "none"];
    let few = ["--candidates", "8", "--runs", "6", "--"];
    let text = pagewise(&[&args[..], &few[..], program].concat()).succeeds();
    serde_json::from_str(&text).expect("JSON")
}

/// A replay has one thread and does nothing but allocate, so what it gains is not what the program
/// gains.
#[test]
fn the_runs_of_the_program_itself_decide() {
    let bench = Workbench::new();
    let program = ["sh", "-c", "echo text; echo text >&2; cat"];
    let tuned = tuned_with(&bench, &program);
    let found = &tuned["families"][0];
    let measured = &found["program"];
    assert_eq!((&measured["runs"], &measured["loaded"]), (&6.into(), &true.into()), "{measured}");
    assert_eq!(measured["command"].as_array().expect("words").len(), program.len());
    let allocators = measured["allocators"].as_array().expect("an array");
    let names: Vec<_> = allocators.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chosen", "default", "its own"]);
    for one in allocators {
        // The memory of the search, which started the program, is not the program's.
        let peak = number(&one["peak"]);
        assert!((200e3..8e6).contains(&peak), "{one}");
        assert!(number(&one["processor"]) <= 2.0 && number(&one["faults"]) > 10.0, "{one}");
    }
    assert_eq!(number(&allocators[1]["relative"]["memory"]), 1.0);
    let goal = ["low", "median", "high"].map(|name| number(&measured["goal"][name]));
    assert!(goal.is_sorted(), "{goal:?}");
    let gained = goal[2] < 1.0 && goal[1] < 0.995;
    assert_eq!((&measured["gained"], found["code"] != ""), (&gained.into(), gained), "{found}");
    assert!(tuned["threads"].is_number());
}

#[test]
fn a_program_into_which_the_library_is_not_loaded_is_told() {
    let bench = Workbench::new();
    let (source, program) = (bench.write("alone.rs", "fn main() {}"), bench.path("alone"));
    let mut rustc = Command::new("rustc");
    rustc.args(["-C", "target-feature=+crt-static", "-o", &program, &source]);
    if !rustc.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no static program can be linked here");
        return;
    }
    let tuned = tuned_with(&bench, &[&program]);
    assert_eq!(tuned["families"][0]["program"]["loaded"], false);
}

/// The search takes long, and would be in vain.
#[test]
fn a_program_that_cannot_be_measured_is_refused_before_the_search() {
    let bench = Workbench::new();
    let preload = format!("--preload={}", common::libpagewise().display());
    let (trace, many) = (bench.trace(), ["--candidates", "10000"]);
    let args = [&["tune", &trace, "--for", "speed", &preload], &many[..]].concat();
    let tune = |program: &[&str]| pagewise(&[&args[..], &["--"], program].concat());
    tune(&["sh", "-c", "echo why >&2; exit 3"]).fails(1, "sh failed (exit status: 3): why");
    tune(&["sh", "-c", "kill -9 $$"]).fails(1, "sh failed (signal: 9 (SIGKILL))");
    tune(&["/no/such/program"]).fails(1, "/no/such/program cannot be run: ");
    let arena = ["tune", &trace, "--for", "speed", "--arena"];
    pagewise(&[&arena[..], &["--", "ls"]].concat()).fails(2, "--arena");
    pagewise(&[&arena[..], &["--runs", "9"]].concat()).fails(2, "--arena");
    let global = ["tune", &trace, "--for", "speed", "--global"];
    pagewise(&[&global[..], &["--runs", "9"]].concat()).fails(2, "PROGRAM");
}

/// Interrupts like a shell: the whole process group gets the signal, once the search has started.
#[test]
fn an_interrupted_search_leaves_nothing_behind() {
    let bench = Workbench::new();
    let place = bench.path("temporary");
    fs::create_dir(&place).expect("a directory");
    let mut run = interruptible(&mut Command::new(env!("CARGO_BIN_EXE_pagewise")))
        .args(["tune", &bench.trace(), "--for", "speed", "--arena", "--candidates", "10000"])
        .env("TMPDIR", &place)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(run.stderr.take().expect("a pipe")).lines();
    let first = lines.next().expect("it says how far it is").expect("text");
    assert!(first.contains("generation"), "{first}");
    // SAFETY: the group is the run's own; the run has not been waited for.
    assert_eq!(unsafe { libc::killpg(run.id() as i32, libc::SIGINT) }, 0);
    let status = run.wait().expect("it ends");
    assert_eq!(status.signal(), Some(libc::SIGINT));
    let left: Vec<_> = fs::read_dir(&place).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn impossible_caps_and_invalid_options_are_refused() {
    let bench = Workbench::new();
    let (trace, file) = (bench.trace(), bench.path("tuned.rs"));
    let before = bench.files();
    let cap = ["tune", &trace, "--for", "speed", "--arena", "--cap", "1K"];
    let run = pagewise(&[&cap[..], &["--candidates", "8", "--emit", &file]].concat());
    assert_eq!((run.status, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr.contains("no candidate stays within the cap of 1.0 KiB: the least peak held is")
    );
    pagewise(&["tune", &trace]).fails(2, "--for");
    pagewise(&["tune", &trace, "--for", "beauty"]).fails(2, "beauty");
    pagewise(&["tune", &trace, "--for", "speed", "--cap-ratio", "0.5"])
        .fails(2, "expected a number of at least 1");
    pagewise(&["tune", &trace, "--for", "speed", "--global", "--arena"]).fails(2, "--arena");
    pagewise(&["tune", &trace, "--for", "speed", "--against", "fastmalloc"]).fails(2, "jemalloc");
    pagewise(&["tune", &trace, "--for", "speed", "--against", "/no/lib.so"]).fails(2, "/no/lib.so");
    pagewise(&["tune", &bench.path("none.pwt"), "--for", "speed"]).fails(1, "none.pwt");
    assert_eq!(bench.files(), before);
}

/// Regression: after `cargo install`, the library that the README's next step builds was not found.
#[test]
#[cfg(target_os = "linux")]
fn an_installed_program_finds_the_library_where_it_was_built() {
    let bench = Workbench::new();
    common::libpagewise();
    let program = bench.path("pagewise");
    fs::copy(env!("CARGO_BIN_EXE_pagewise"), &program).expect("a copy");
    let compare = ["compare", &bench.trace(), "--strategy", "LIBPAGEWISE", "--repeat", "1"];
    let output = Command::new(&program).args(compare).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
