//! What a search found, for the terminal.

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units;

use super::candidate::Family;
use super::found::{Found, Tuned};
use super::held_out::Standing;

/// Of each family the front, the measures held out, the verdict in words; the code.
pub(super) fn text(tuned: &Tuned, verified: bool) -> String {
    let mut text = String::new();
    for found in &tuned.families {
        text += &family(found, tuned);
    }
    text +=
        &format!("The code to paste, into a program that depends on pagewise:\n\n{}", tuned.code);
    for why in &tuned.not_compared {
        text += &format!("\nNot compared: {why}.\n");
    }
    if verified {
        text += "\nThe code compiles.\n";
    }
    text
}

fn family(found: &Found, tuned: &Tuned) -> String {
    let (memory, what, default) = match found.family {
        Family::Global => ("peak resident", "for a whole program", "Pagewise::new()"),
        Family::Arena => ("peak held", "for a part of a program", "PAGEWISE"),
    };
    let measures = ["time", memory, "faults"];
    let mut front = sheet("on the front", &measures);
    for one in &found.front {
        let name = format!("{}{}", one.candidate, if one.chosen { " *" } else { "" });
        front.push(row(&name, one.relative.cost().map(Some)));
    }
    let held_out = &found.held_out;
    let all = ["time", memory, "faults", "peak resident"];
    // The global allocator's memory is what is resident.
    let columns = if found.family == Family::Global { 3 } else { 4 };
    let mut verdict = sheet("held out", &all[..columns]);
    let default_standing =
        Standing { time: 1.0, memory: Some(1.0), faults: Some(1.0), resident: 1.0 };
    let rows = [("chosen", Some(held_out.chosen)), ("default", Some(default_standing))];
    let rivals = held_out.rivals.iter().map(|(name, rival)| (&**name, *rival));
    for (name, standing) in rows.into_iter().chain(rivals) {
        let figures = standing
            .map_or([None; 4], |one| [Some(one.time), one.memory, one.faults, Some(one.resident)]);
        verdict.push(row(name, figures.into_iter().take(columns)));
    }
    let part = match tuned.second_halves {
        true => "the second half of each trace",
        false => "the traces held out",
    };
    let measured = units::count(found.measured as u64, "candidate");
    format!(
        "== {}, {what} ==\n\nsearched: {measured}, seed {}; the default, {default}, = 1\n{}\n\
         chosen: {}\n\non {part}, which the search has not seen; the default = 1\n{}\n{}\n\n",
        found.family.title(),
        tuned.seed,
        front.plain(),
        found.chosen,
        verdict.plain(),
        found.words(tuned.goal),
    )
}

fn sheet(head: &str, measures: &[&str]) -> Sheet {
    Sheet::new([head].into_iter().chain(measures.iter().copied()))
}

fn row(name: &str, figures: impl IntoIterator<Item = Option<f64>>) -> Vec<String> {
    let text = |figure: Option<f64>| figure.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    [name.to_owned()].into_iter().chain(figures.into_iter().map(text)).collect()
}
