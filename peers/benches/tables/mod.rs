//! Prints the medians.

use std::collections::BTreeMap;

use crate::Figures;

/// The references: row by row the better one.
const BASE: &[&str] = &["mimalloc3", "mimalloc2"];

/// Workloads with several threads.
const THREADED: &[&str] = &[
    "producer/consumer",
    "4 producers 4 consumers",
    "larson 2 threads",
    "all to all",
    "medium blocks 2 threads",
    "medium blocks 32 threads",
    "thread for each request",
    "5 to 16 KiB 4 threads",
    "latency small",
    "latency medium",
];

/// Returns the runs of several threads whose CPU time hardly exceeds their elapsed time.
pub(crate) fn alone(
    workloads: &[String],
    names: &[&str],
    medians: &BTreeMap<(usize, usize), Figures>,
) {
    for (&(row, column), figures) in medians {
        if THREADED.contains(&workloads[row].as_str()) && figures.cpu < 1.2 * figures.time {
            println!(
                "\n{} under {}: {:.2} of its time as CPU time, so one thread mostly waited",
                workloads[row],
                names[column],
                figures.cpu / figures.time
            );
        }
    }
}

/// Prints the workloads' own figures, one table each.
pub(crate) fn found(
    workloads: &[String],
    names: &[&str],
    medians: &BTreeMap<(usize, usize), Figures>,
) {
    for (row, workload) in workloads.iter().enumerate() {
        let of_row: Vec<(usize, &Figures)> = medians
            .iter()
            .filter(|((of, _), figures)| *of == row && !figures.found.is_empty())
            .map(|((_, column), figures)| (*column, figures))
            .collect();
        let Some((_, first)) = of_row.first() else { continue };
        print!("\n| {workload} |");
        first.found.iter().for_each(|(name, _)| print!(" {name} |"));
        println!("\n|---|{}", "---:|".repeat(first.found.len()));
        for (column, figures) in of_row {
            print!("| {} |", names[column]);
            figures.found.iter().for_each(|(_, value)| print!(" {value} |"));
            println!();
        }
    }
}

/// Prints a line per workload and allocator.
pub(crate) fn json(
    workloads: &[String],
    names: &[&str],
    medians: &BTreeMap<(usize, usize), Figures>,
) {
    for (&(row, column), figures) in medians {
        let line = serde_json::json!({
            "workload": workloads[row],
            "allocator": names[column],
            "time": figures.time,
            "cpu_time": figures.cpu,
            "peak_kib": figures.peak,
            "minor_faults": figures.faults,
            "found": figures.found,
        });
        println!("{line}");
    }
}

/// Prints ratios to the better of [`BASE`]; if none of those ran, to the system's allocator, or
/// else to the first.
pub(crate) fn table(
    what: &str,
    workloads: &[String],
    names: &[&str],
    medians: &BTreeMap<(usize, usize), Figures>,
    of: fn(&Figures) -> f64,
) {
    let base: Vec<usize> =
        (0..names.len()).filter(|&column| BASE.contains(&names[column])).collect();
    let system = names.iter().position(|&name| name == "system");
    let base = if base.is_empty() { vec![system.unwrap_or(0)] } else { base };
    let base_names: Vec<&str> = base.iter().map(|&column| names[column]).collect();
    println!("\n{what}, {} = 1 (the best of them in each row)\n", base_names.join(", "));
    print!("| workload |");
    names.iter().for_each(|name| print!(" {name} |"));
    print!("\n|---|");
    names.iter().for_each(|_| print!("---:|"));
    println!();
    let mut logarithms = vec![(0.0, 0.0_f64); names.len()];
    for (row, workload) in workloads.iter().enumerate() {
        let value = |column: usize| medians.get(&(row, column)).map(|figures| of(figures).max(1.0));
        let one = base.iter().filter_map(|&column| value(column)).fold(f64::INFINITY, f64::min);
        print!("| {workload} |");
        for (column, (logarithm, rows)) in logarithms.iter_mut().enumerate() {
            // Without a base there is no ratio for the row.
            match value(column).map(|value| value / one).filter(|_| one.is_finite()) {
                Some(ratio) => {
                    *logarithm += ratio.ln();
                    *rows += 1.0;
                    print!(" {ratio:.2} |");
                }
                None => print!(" |"),
            }
        }
        println!();
    }
    print!("| **geometric mean** |");
    for (logarithm, rows) in logarithms {
        print!(" **{:.2}** |", (logarithm / rows.max(1.0)).exp());
    }
    println!();
}
