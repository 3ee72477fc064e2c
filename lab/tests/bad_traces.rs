//! Files that are damaged or not traces: every command reports it in one clear line.

mod common;

use std::fs;

use common::{Workbench, pagewise};

/// Asserts that every command that reads a trace refuses this one.
#[track_caller]
fn refused(path: &str, part: &str) {
    pagewise(&["info", path]).fails(1, part);
    pagewise(&["replay", path, "--strategy", "MRU"]).fails(1, part);
    pagewise(&["compare", path, "--json"]).fails(1, part);
}

#[test]
fn a_file_that_is_not_there() {
    let bench = Workbench::new();
    refused(&bench.path("none.pwt"), "none.pwt: No such file");
    refused(bench.directory().to_str().unwrap(), "directory");
}

#[test]
fn a_file_that_is_not_a_trace() {
    let bench = Workbench::new();
    refused(&bench.write("empty.pwt", ""), "empty.pwt: not a pagewise trace");
    refused(
        &bench.write("text.pwt", "a 0 16\nf 0\n"),
        "text.pwt: not a pagewise trace; `pagewise record`",
    );
}

#[test]
fn a_truncated_trace() {
    let bench = Workbench::new();
    let whole = fs::read(bench.trace()).unwrap();
    for length in [whole.len() - 1, whole.len() / 2, 70, 20] {
        refused(&bench.write("cut.pwt", &whole[..length]), "ends too early");
    }
}

#[test]
fn a_trace_with_a_flipped_bit() {
    let bench = Workbench::new();
    let whole = fs::read(bench.trace()).unwrap();
    for place in (0..whole.len()).step_by(whole.len() / 10) {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x10;
        refused(&bench.write("flipped.pwt", flipped), "flipped.pwt: ");
    }
}

#[test]
fn a_trace_with_trailing_data() {
    let bench = Workbench::new();
    let mut longer = fs::read(bench.trace()).unwrap();
    longer.extend([0; 100_000]);
    refused(&bench.write("longer.pwt", longer), "longer.pwt: ");
}

#[test]
fn a_bad_trace_among_good_ones_is_found_before_anything_is_measured() {
    let bench = Workbench::new();
    let bad = bench.write("bad.pwt", "nothing");
    pagewise(&["compare", &bench.trace(), "--trace", &bad, "--json"]).fails(1, "bad.pwt: not a");
}
