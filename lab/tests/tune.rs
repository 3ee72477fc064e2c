//! The search, on a small trace: what it prints, what it writes, what it refuses.

mod common;

use std::fs;

use common::{Workbench, pagewise};
use serde_json::Value;

const FEW: [&str; 2] = ["--candidates", "20"];

#[test]
fn a_search_gives_a_front_a_choice_a_verdict_and_code() {
    let bench = Workbench::new();
    let (trace, file) = (bench.trace(), bench.path("tuned.rs"));
    let args = [&["tune", &trace, "--for", "memory", "--json", "--emit", &file], &FEW[..]].concat();
    let tuned: Value = serde_json::from_str(&pagewise(&args).succeeds()).expect("JSON");
    let front = tuned["front"].as_array().expect("an array");
    assert!(!front.is_empty());
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    // Nothing on the front is beaten by something else on it.
    for (index, one) in front.iter().enumerate() {
        let beats = |other: &Value| {
            ["time", "held", "faults"].iter().all(|name| number(&other[name]) <= number(&one[name]))
        };
        assert!(front.iter().enumerate().all(|(other, by)| other == index || !beats(by)), "{one}");
    }
    let held_out = &tuned["held_out"];
    let gain = number(&held_out["gain"]);
    assert!((gain - (1.0 - number(&held_out["chosen"]["held"]))).abs() < 1e-12);
    assert_eq!(held_out["gained"].as_bool(), Some(gain > 0.005));
    // The default's pages are much too large for so small a program.
    assert!(gain > 0.2, "{held_out}");
    let code = fs::read_to_string(&file).expect("the code");
    assert_eq!(tuned["code"], code);
    assert!(code.contains("pub fn heap()"));
}

#[test]
fn what_is_exact_does_not_depend_on_the_run() {
    let bench = Workbench::new();
    let args = ["tune", &bench.trace(), "--for", "faults", "--json", "--candidates", "8"];
    let first = || {
        let tuned: Value = serde_json::from_str(&pagewise(&args).succeeds()).expect("JSON");
        // Of the first generation alone, which no time decides on.
        let front = tuned["front"].as_array().expect("an array").clone();
        front.iter().map(|one| one["faults"].as_f64()).fold(None, |least: Option<f64>, faults| {
            least.map_or(faults, |least| faults.map(|faults| faults.min(least)))
        })
    };
    assert_eq!(first(), first());
}

#[test]
fn the_words_say_what_was_gained_and_the_code_compiles() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let args = ["tune", &trace, "--for", "balanced", "--held-out", &trace, "--verify"];
    let text = pagewise(&[&args[..], &FEW[..]].concat()).succeeds();
    for part in ["seed 1", "on the front", "held out", "SYSTEM", " than the default.", "compiles."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_cap_that_nothing_keeps_and_wrong_options_are_refused() {
    let bench = Workbench::new();
    let (trace, file) = (bench.trace(), bench.path("tuned.rs"));
    let before = bench.files();
    let cap =
        ["tune", &trace, "--for", "speed", "--cap", "1K", "--candidates", "8", "--emit", &file];
    let run = pagewise(&cap);
    assert_eq!((run.status, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("no candidate keeps the cap; the least that was held is"));
    pagewise(&["tune", &trace]).fails(2, "--for");
    pagewise(&["tune", &trace, "--for", "beauty"]).fails(2, "beauty");
    pagewise(&["tune", &trace, "--for", "speed", "--cap-ratio", "0.5"]).fails(2, "a number from 1");
    pagewise(&["tune", &bench.path("none.pwt"), "--for", "speed"]).fails(1, "none.pwt");
    assert_eq!(bench.files(), before);
}
