//! `pagewise tables hasan`: properties of short runs.

mod common;

use std::collections::HashMap;

use common::pagewise;

/// Published and our figures by row and column of a table.
type Figures = HashMap<(String, String), (Option<f64>, Option<f64>)>;

fn figures(arguments: &[&str]) -> Figures {
    let first = ["tables", "hasan", "--quick", "--json"];
    let out = pagewise(&[&first, arguments].concat()).succeeds();
    let mut figures: Vec<serde_json::Value> = serde_json::from_str(&out).expect("JSON");
    figures.retain(|figure| figure.get("verdict").is_none());
    let of = |figure: &serde_json::Value| {
        let text = |field: &str| figure[field].as_str().expect("a text").to_owned();
        let key = (text("row"), text("column"));
        (key, (figure["published"].as_f64(), figure["ours"].as_f64()))
    };
    figures.iter().map(of).collect()
}

#[test]
fn profiles_are_shown_beside_the_papers() {
    let found = figures(&["--table", "4", "--table", "1"]);
    let row = |row: &str, column: &str| found[&(row.to_owned(), column.to_owned())];
    let gawk = |column| row("gawk-adj-13577 (gawk)", column);
    assert_eq!(gawk("allocs"), (Some(471_005.0), Some(471_045.0)));
    assert_eq!(gawk("reallocs"), (Some(81_486.0), Some(81_486.0)));
    assert_eq!(row("groff, for groff 1.10", "%SS").0, Some(107.09));
    let (published, ours) = row("p2c-mf (p2c)", "%SS");
    assert!((published.expect("printed") - ours.expect("measured")).abs() < 0.1);
    assert_eq!(row("gawk", "allocs"), (None, Some(299_016.0)));
    assert_eq!(row("jq", "reallocs"), (None, Some(3_705.0)));
}

#[test]
fn settings_are_found_and_memory_is_compared() {
    let found = figures(&["--program", "cfrac-51", "--table", "7", "--table", "8"]);
    let row = |row: &str, column: &str| found[&(row.to_owned(), column.to_owned())];
    assert_eq!(row("cfrac-51 (cfrac) (mem)", "QL_HIGH").0, Some(72.0));
    let held = |column: &str| row("cfrac-51 (cfrac)", column).1.expect("measured");
    // Among the settings within 1 % of the least memory, the search takes the fastest in that run.
    let least = [held("HCgen"), held("HCperf")].into_iter().fold(held("HCmem"), f64::min);
    assert!(held("HCmem") <= 1.01 * least && held("HCmem") < held("CK"), "{found:?}");
    assert_eq!(row("cfrac-51 (cfrac)", "HCgen").0, Some(2637.0 / 2632.0));
    // With the paper's word size, the program takes the paper's memory.
    assert!((held("DL") / 2632.0 - 1.0).abs() < 0.03, "{}", held("DL"));
}

#[test]
fn unknown_programs_and_tables_are_refused() {
    pagewise(&["tables", "hasan", "--table", "2"])
        .fails(2, "available tables: 1, 3, 4, Fig. 6, 5.2, 5.5, 7");
    pagewise(&["tables", "hasan", "--program", "cfrac"]).fails(2, "no bundled trace 'cfrac'");
}
