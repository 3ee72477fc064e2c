//! `pagewise tables lazy` over one trace: properties of the result.

mod common;

use std::collections::HashMap;

use common::{Workbench, pagewise};

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");

/// Returns our figures from a table of lazy fits, for the trace of espresso.
fn lazy_figures(table: &str) -> HashMap<(String, String), f64> {
    let trace = &format!("{TRACES}/espresso.pwt");
    let arguments = ["tables", "lazy", "--json", "--trace", trace, "--table", table];
    let out = pagewise(&arguments).succeeds();
    let mut figures: Vec<serde_json::Value> = serde_json::from_str(&out).expect("JSON");
    figures.retain(|figure| figure.get("verdict").is_none());
    let text = |figure: &serde_json::Value, field: &str| figure[field].as_str().unwrap().to_owned();
    let key = |figure| (text(figure, "row"), text(figure, "column"));
    figures.iter().map(|figure| (key(figure), figure["ours"].as_f64().unwrap())).collect()
}

#[test]
fn lazy_fits_bump_on_espresso_and_returning_the_area_saves_memory() {
    let fits = lazy_figures("3");
    let of = |found: &HashMap<(String, String), f64>, column: &str| {
        found[&("espresso".to_owned(), column.to_owned())]
    };
    // The paper's order, LFB, LF, LFL, with at least its differences.
    assert!(2.0 * of(&fits, "LFB") < of(&fits, "LF"));
    assert!(of(&fits, "LF") < of(&fits, "LFL") && of(&fits, "LFL") < 50.0);
    assert!(of(&fits, "LW") < of(&fits, "LF") / 5.0);
    let fragmentation = lazy_figures("2");
    assert!(of(&fragmentation, "F") < of(&fragmentation, "LFL"));
    assert!(of(&fragmentation, "LFL") < of(&fragmentation, "LF"));
}

#[test]
fn collected_frees_make_bumps_more_frequent() {
    let key = ("espresso".to_owned(), "LF".to_owned());
    assert!(lazy_figures("6")[&key] < lazy_figures("3")[&key] / 2.0);
    let small = lazy_figures("5");
    assert!(small.values().all(|fragmentation| (0.0..5.0).contains(fragmentation)), "{small:?}");
}

/// Chung & Moon's own translator on its own input: the trace's note identifies the paper's row,
/// whatever the file's name.
#[test]
fn a_row_of_the_paper_is_found_by_the_traces_note() {
    let bench = Workbench::new();
    let trace = bench.path("anything.pwt");
    std::fs::copy(format!("{TRACES}/mallocbench/p2c-mf.pwt"), &trace).expect("a copy");
    let out = pagewise(&["tables", "lazy", "--table", "3", "--trace", &trace]).succeeds();
    let row = out.lines().find(|line| line.contains("anything (P2C)")).expect("the paper's row");
    let figures: Vec<f64> =
        row.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    // LF, LFB and LFL, published and ours.
    for pair in figures[..6].chunks(2) {
        assert!((pair[0] - pair[1]).abs() < 5.0, "{row}");
    }
    assert!(out.contains("1 rows with published figures: 1 within ±5; 3 of 3 pairs"), "{out}");
}

#[test]
fn an_unknown_table_of_lazy_fits_is_refused() {
    pagewise(&["tables", "lazy", "--table", "7"])
        .fails(2, "available tables: 2, 2.1, 3, 3.1, 4, 4.1, 5, 6, 6.1, time");
}

/// The tables with a number after the point show the paper's programs alone.
#[test]
fn tables_of_the_papers_programs_are_not_made_from_other_traces() {
    let bench = Workbench::new();
    let out = pagewise(&["tables", "lazy", "--trace", &bench.trace()]).succeeds();
    assert!(out.contains("\nTable 2: ") && out.contains("\nTable 6: "), "{out}");
    assert!(!out.contains("Table 2.1") && out.contains("Not made: 2.1, 3.1, 4.1 and 6.1"), "{out}");
    let asked = ["tables", "lazy", "--table", "4.1", "--trace", &bench.trace()];
    pagewise(&asked).fails(2, "table 4.1 is of the paper's own programs");
}
