//! `pagewise tables head-first`: properties of short runs. Times are not tested.

mod common;

use common::pagewise;
use serde_json::Value;

/// Returns the figures of these tables, in a short run.
fn figures(tables: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["tables", "head-first", "--quick", "--json", "--threads", "2"];
    for table in tables {
        arguments.extend(["--table", table]);
    }
    let mut figures: Vec<Value> =
        serde_json::from_str(&pagewise(&arguments).succeeds()).expect("JSON");
    figures.retain(|figure| figure.get("verdict").is_none());
    figures
}

/// Returns our figure for a row and column.
fn ours(figures: &[Value], row: &str, column: &str) -> f64 {
    let found = figures.iter().find(|figure| figure["row"] == row && figure["column"] == column);
    found.and_then(|figure| figure["ours"].as_f64()).unwrap_or_else(|| panic!("{row}, {column}"))
}

#[test]
fn the_heap_walks_match_the_papers() {
    let figures = figures(&["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(figures.len(), 3 * (2 + 5 + 6 + 7 + 6 + 6 + 5));
    for figure in figures {
        let of = |name: &str| figure[name].as_f64().expect("a number");
        assert!((of("ours") - of("published")).abs() <= 16.0, "{figure}");
    }
}

#[test]
fn memory_fills_as_published_and_head_first_visits_less() {
    let found = figures(&["9.2", "9.3"]);
    for composition in
        ["non-head-first, ChunkUp", "head-first", "non-head-first", "head-first, ChunkUp"]
    {
        let success = |column| ours(&found, &format!("{composition}: malloc-ed, %"), column);
        let free = |column| ours(&found, &format!("{composition}: ex. frag., KiB"), column);
        assert_eq!(success("10,000"), 100.0);
        assert!(success("80,000") > 70.0 && success("80,000") < 90.0, "memory is exhausted");
        assert!(free("10,000") > free("40,000") && free("40,000") > free("80,000"));
    }
    let items = |row| ours(&found, row, "40,000");
    assert!(items("head-first") < 0.7 * items("non-head-first, ChunkUp"));
    assert!(items("bins: non-head-first, ChunkUp") < 20.0);
}

#[test]
fn requests_in_order_never_exhaust_memory() {
    let found = figures(&["9.4"]);
    for column in ["10,000", "80,000"] {
        assert_eq!(ours(&found, "head-first: malloc-ed, %", column), 100.0);
        assert!(ours(&found, "head-first: freed, %", column) > 80.0);
    }
}

#[test]
fn the_benchmark_prints_both_figures_and_says_how_it_was_run() {
    let out = pagewise(&["tables", "head-first", "--quick", "--table", "9"]).succeeds();
    assert!(out.contains("seed 1, 8 threads") && out.contains("t imp, %"), "{out}");
    assert!(out.contains("55.4") && out.contains("15,504"), "{out}");
}

#[test]
fn wrong_arguments_are_refused() {
    let there_are = "available tables: 1, 2, 3, 4, 5, 6, 7, 8, 9, 9.1";
    pagewise(&["tables", "head-first", "--table", "10"]).fails(2, there_are);
    pagewise(&["tables", "head-first", "--threads", "1"]).fails(2, "2..=1024");
}
