//! What a search found, for the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::Tuned;
use super::measure::Relative;
use crate::units;

/// The front, the measures held out, the verdict in words, the code.
pub(super) fn text(tuned: &Tuned, second_halves: bool, verified: bool) -> String {
    let mut front = table("on the front");
    for one in &tuned.front {
        let name = format!("{}{}", one.candidate, if one.chosen { " *" } else { "" });
        front.add_row(row(&name, Some(one.relative)));
    }
    let held_out = &tuned.held_out;
    let mut verdict = table("held out");
    verdict.add_row(row("chosen", Some(held_out.chosen)));
    verdict.add_row(row("default", Some(Relative { time: 1.0, held: 1.0, faults: 1.0 })));
    for (name, relative) in &held_out.rivals {
        verdict.add_row(row(name, *relative));
    }
    let part = if second_halves { "the second half of each trace" } else { "the traces held out" };
    let measured = units::count(tuned.measured as u64, "candidate");
    format!(
        "searched: {measured}, seed {}; the default, PAGEWISE, = 1\n{}\n\nchosen: {}\n\non {part}, \
         which the search has not seen; the default = 1\n{}\n\n{}\n\n{}{}",
        tuned.seed,
        trimmed(&front),
        tuned.chosen,
        trimmed(&verdict),
        words(tuned),
        tuned.code,
        if verified { "\nThe code compiles.\n" } else { "" }
    )
}

/// What was gained, or that nothing was.
fn words(tuned: &Tuned) -> String {
    let held_out = &tuned.held_out;
    let (noun, noise) = (tuned.goal.noun(), held_out.noise * 100.0);
    let change = held_out.gain.abs() * 100.0;
    let less = if held_out.gain >= 0.0 { "less" } else { "more" };
    let mut words = if held_out.gained {
        format!("Gained: {change:.1} % {less} {noun} than the default.")
    } else {
        format!(
            "Nothing is gained: {change:.1} % {less} {noun} than the default. Keep the default."
        )
    };
    words += &format!(" Times are known to {noise:.1} %.");
    for (name, relative) in &held_out.rivals {
        if let Some(relative) = relative {
            let ratio = tuned.goal.measure(&held_out.chosen) / tuned.goal.measure(relative);
            words += &format!(" Against {name}: {ratio:.2} times its {noun}.");
        }
    }
    if !held_out.keeps_cap {
        words += " The cap is not kept on what was held out.";
    }
    words
}

fn table(head: &str) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let heads = ["time", "peak held", "faults"].map(right);
    table.set_header([Cell::new(head)].into_iter().chain(heads));
    table
}

fn row(name: &str, relative: Option<Relative>) -> Vec<Cell> {
    let figures = match relative {
        Some(relative) => relative.cost().map(|ratio| right(&format!("{ratio:.3}"))),
        None => [(); 3].map(|()| right("-")),
    };
    [Cell::new(name)].into_iter().chain(figures).collect()
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
