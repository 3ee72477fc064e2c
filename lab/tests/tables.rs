//! `pagewise tables brent`: properties of short runs.

mod common;

use std::collections::HashMap;

use common::{Workbench, pagewise};

/// Returns our figures by row and column of a table, in a short run.
fn figures(table: &str) -> HashMap<(String, String), f64> {
    figures_and_plot(table, &[])
}

/// Returns the figures that a command printed as JSON, without the verdicts on tables.
fn of_rows(out: &str) -> Vec<serde_json::Value> {
    let mut figures: Vec<serde_json::Value> = serde_json::from_str(out).expect("JSON");
    figures.retain(|figure| figure.get("verdict").is_none());
    figures
}

/// Like [`figures`], with further arguments.
fn figures_and_plot(table: &str, arguments: &[&str]) -> HashMap<(String, String), f64> {
    let first = ["tables", "brent", "--quick", "--json", "--table", table];
    let out = pagewise(&[&first, arguments].concat()).succeeds();
    let figures = of_rows(&out);
    let text = |figure: &serde_json::Value, field: &str| {
        figure[field].as_str().unwrap_or_else(|| panic!("{field}: {figure}")).to_owned()
    };
    assert!(
        figures.iter().all(|figure| figure["table"] == table && figure.get("published").is_some())
    );
    let ours = figures.iter().filter_map(|figure| {
        Some(((text(figure, "row"), text(figure, "column")), figure["ours"].as_f64()?))
    });
    ours.collect()
}

#[test]
fn tridiag_falls_into_two_groups() {
    let found = figures("3.1");
    let faults = |row: &str| found[&(row.to_owned(), "normalized (2000)".to_owned())];
    for good in ["MRU", "MOST-FREE", "LEAST-FREE", "RANDOM(B)", "FIRST-FIT", "QUICK"] {
        for bad in ["STACK", "QUEUE", "RANDOM"] {
            assert!(3.0 * faults(good) < faults(bad), "{good} and {bad}");
        }
    }
}

/// What Table 3.2 must show: ten rows close to the paper's, and nine of them in its order. That is
/// as much as one run of half the length can show: MRU and MOST-FREE with φ0 = 5, 0.01 apart in the
/// paper, swap places from run to run, which costs one row. The whole table, a mean of four runs,
/// has all ten.
#[test]
fn ten_rows_of_pqsim_are_near_the_papers_and_nine_in_its_order() {
    let out = pagewise(&["tables", "brent", "--quick", "--table", "3.2"]).succeeds();
    let note = out.lines().find(|line| line.contains("within 0.08")).expect("the verdict");
    // "normalized: 10 of 13 rows within 0.08 of the paper, 9 of them in its order"
    let counts: Vec<u32> = note.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[near, rows, in_order] = &counts[..] else { panic!("{note}") };
    assert!(rows == 13 && near >= 10 && in_order >= 9, "{out}");
}

#[test]
fn virtual_size_grows_with_the_tolerance_and_a_plot_is_drawn() {
    let bench = Workbench::new();
    let directory = bench.directory().to_str().expect("UTF-8");
    let found = figures_and_plot("3.4", &["--plot", directory]);
    let svg = std::fs::read_to_string(bench.path("table-3.4.svg")).expect("the plot");
    assert!(svg.starts_with("<svg") && svg.contains("MRU, published"));
    let size = |share: &str| found[&(format!("φ0/c = {share}"), "MRU size".to_owned())];
    assert!(size("0.04") < size("0.40") && size("0.40") < size("1.00"));
}

#[test]
fn the_distributions_have_the_papers_statistics() {
    let out = pagewise(&["tables", "brent", "--json", "--table", "7.1"]).succeeds();
    let figures = of_rows(&out);
    assert_eq!(figures.len(), 20);
    for figure in figures {
        let of = |name: &str| figure[name].as_f64().expect("a number");
        assert!((of("ours") / of("published") - 1.0).abs() < 0.02, "{figure}");
    }
}

#[test]
fn mixed_sizes_are_measured() {
    let found = figures("7.2");
    let row = |row: &str, column: &str| found[&(row.to_owned(), column.to_owned())];
    let items = |name: &str| row(name, "items YKTVMV");
    assert!(items("LEAST-FREE, p = 512, 512") < items("First-fit, p = 512"));
    let efficiency = row("LEAST-FREE, p = 4096, 4096", "E YKTVMV");
    assert!(efficiency > 0.3 && efficiency < 1.0);
    let found = figures("7.3");
    let faults = |row: &str| found[&(row.to_owned(), "pf/t".to_owned())];
    assert!(faults("MRU, 120, load 1.00") < faults("QUICK, 120, load 1.00"));
}

#[test]
fn adversaries_stay_below_the_bound() {
    let found = figures("6.1");
    for ((row, column), share) in &found {
        let bound = found[&(row.clone(), "bound".to_owned())];
        assert!(*share <= bound + 1e-9, "{row}, {column}: {share} of {bound}");
    }
}

#[test]
fn an_unknown_table_is_refused() {
    pagewise(&["tables", "brent", "--table", "9.9"]).fails(2, "available tables: 3.1, 3.2");
}

#[test]
fn a_table_ends_with_missed_figures_and_counts() {
    let arguments = ["tables", "nielsen", "--samples", "1", "--table", "VI"];
    let out = pagewise(&arguments).succeeds();
    // It may take two lines of 80 columns.
    let from = out.rfind("  7 rows with published figures: ").expect("a last sentence");
    let last = out[from..].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(last.contains(" of 31 pairs in published order"), "{last}");
    // Unlike in the paper, buddies are faster here.
    assert!(out.contains("  I-5: 50 % not below V-1"), "{out}");
    let out = pagewise(&[&arguments[..], &["--json"]].concat()).succeeds();
    let figures: Vec<serde_json::Value> = serde_json::from_str(&out).expect("JSON");
    let published = |one: &&serde_json::Value| one["published"].is_number();
    assert_eq!(figures.iter().filter(published).count(), 14);
    let verdict = &figures.last().expect("the verdict")["verdict"];
    assert_eq!([verdict["rows"].as_u64(), verdict["pairs"].as_u64()], [Some(7), Some(31)]);
    assert!(last.trim() == verdict["summary"] && verdict["missed"].is_array(), "{verdict}");
    assert!(figures.iter().filter(published).all(|one| one["published_is"] == "printed"));
}

#[test]
fn the_text_has_both_figures() {
    let out = pagewise(&["tables", "brent", "--quick", "--table", "7.1"]).succeeds();
    assert!(out.contains("Table 7.1") && out.contains("307,397"), "{out}");
}

/// Nielsen's text on 80 %: these algorithms fail, and no others.
const FAILING: [&str; 14] = [
    "I-2", "I-5", "I-6", "I-7", "II-2", "II-6", "III-1", "III-3", "V-1", "V-2", "V-3", "V-4",
    "V-5", "V-6",
];

#[test]
fn nielsens_algorithms_fail_as_in_the_paper() {
    let out = pagewise(&["tables", "nielsen", "--json", "--samples", "3", "--table", "IV"]);
    let figures = of_rows(&out.succeeds());
    let column = |table: &str, column: &str| -> HashMap<String, f64> {
        let here = figures.iter().filter(|one| one["table"] == table && one["column"] == column);
        let row = |one: &serde_json::Value| {
            let name = one["row"].as_str().expect("a name").to_owned();
            one["ours"].as_f64().map(|ours| (name, ours))
        };
        here.filter_map(row).collect()
    };
    assert!(column("IV, 50 %", "fails %").values().all(|&fails| fails == 0.0));
    let fails = column("IV, 80 %", "fails %");
    assert_eq!(fails.len(), 35);
    let agree =
        fails.iter().filter(|(name, share)| (**share > 50.0) == FAILING.contains(&name.as_str()));
    assert!(agree.count() >= 30);
    let allocate = column("IV, 66.7 %", "allocate");
    for (name, cost) in &allocate {
        let fast = name.starts_with('V') && !name.starts_with("VI") || name.starts_with("IV");
        assert!(*cost >= 0.99 && (*cost < 20.0 || !fast), "{name}: {cost}");
    }
    assert!(allocate["I-5"] < 5.0 && allocate["I-4"] > 50.0 && allocate["III-5"] > 50.0);
    let space = column("IV, 50 %", "space %");
    assert!(space["V-1"] > 70.0 && space["IV-1"] < 54.0);
}

#[test]
fn an_unknown_table_of_nielsen_is_refused() {
    pagewise(&["tables", "nielsen", "--table", "VII"]).fails(2, "available tables: I, II, IV");
}
