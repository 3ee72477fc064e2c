//! Prints the results of a search for the terminal.

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units;

use super::candidate::Family;
use super::found::{Found, Tuned};
use super::held_out::Standing;
use super::program::{InProgram, OfProgram};
use crate::development;
use pagewise_replay::text::{last_column, paragraph};

/// Formats, for each family, the verdict in words, the choice, the held-out measures and the front;
/// then the code, and the next step.
pub(super) fn text(tuned: &Tuned, verified: bool) -> String {
    let warning = development::warning();
    let mut text = warning.map_or_else(String::new, |warning| paragraph(warning) + "\n\n");
    for found in &tuned.families {
        text += &family(found, tuned);
    }
    for why in &tuned.not_compared {
        text += &format!("{}\n", paragraph(&format!("Not compared: {why}.")));
    }
    if let Some(note) = tuned.about_threads() {
        text += &format!("{}\n", paragraph(&note));
    }
    let is_measured = tuned.is_program_measured();
    let is_preload = tuned.families.iter().any(|found| found.family == Family::Preload);
    if tuned.code.is_empty() {
        text += "No gain, so there is nothing to paste.\n";
    } else if is_preload {
        let line = tuned.code.lines().filter(|line| !line.starts_with('#'));
        let line: Vec<_> = line.collect();
        text += &format!("The line to run the program with:\n\n{} PROGRAM\n", line.join(" "));
    } else {
        text += &format!(
            "The code to paste, into a program that depends on pagewise:\n\n{}",
            tuned.code
        );
    }
    if verified && !tuned.code.is_empty() {
        text += if is_preload {
            "\nThe library accepts the settings.\n"
        } else {
            "\nThe code compiles.\n"
        };
    }
    text + &next(tuned, is_preload, is_measured)
}

/// Suggests the next step.
fn next(tuned: &Tuned, is_preload: bool, is_measured: bool) -> String {
    let gains = !tuned.code.is_empty();
    let measure = match gains && !is_measured {
        true => {
            "append `-- PROGRAM ARGUMENTS` to this command, which measures what the program itself \
             gains, or "
        }
        false => "",
    };
    let run = match (gains, is_preload) {
        (false, _) if is_measured => "try more --candidates or --runs, or another --for",
        (false, _) => "try more --candidates, or another --for",
        (true, true) => "run the program this way (docs/c.md)",
        (true, false) => "build the program with it",
    };
    let text = format!("Next: {measure}{run}. For charts, add -o tune.json to this command, then:");
    format!("\n{}\n  pagewise report {} --tune tune.json\n", paragraph(&text), tuned.argument)
}

fn family(found: &Found, tuned: &Tuned) -> String {
    let (memory, what, default) = match found.family {
        Family::Global => ("peak resident", "for a whole program in Rust", "Pagewise::new()"),
        Family::Preload => {
            ("peak resident", "for a program not written in Rust", "the library without settings")
        }
        Family::Arena => ("peak held", "for a part of a program", "PAGEWISE"),
    };
    let held_out = &found.held_out;
    let all = ["time", memory, "faults", "peak resident"];
    // For a process's allocator, memory means resident memory.
    let columns = if found.family == Family::Arena { 4 } else { 3 };
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
    let chosen = format!("{}.", found.choice());
    let program = found.program.as_ref().map(in_program).unwrap_or_default();
    let stopped =
        held_out.stopped.iter().map(|why| paragraph(&format!("No result: {why}.")) + "\n");
    let stopped: String = stopped.collect();
    format!(
        "== {}, {what} ==\n\n{}\n{}\n\n{program}On {part}, which the search has not seen;\n{default} = \
         1\n{}{stopped}\nOn the searched part: {measured}, seed {}; those that no other\nbeats in time, \
         memory and faults at once; * was chosen\n{}\n",
        found.family.title(),
        paragraph(&found.words(tuned.goal)),
        paragraph(&chosen),
        verdict.plain(),
        tuned.seed,
        front(found, memory),
    )
}

/// Formats the measures of the program itself.
fn in_program(program: &InProgram) -> String {
    let mut sheet = Sheet::new(PROGRAM_HEADS);
    for one in &program.allocators {
        sheet.push(program_row(one));
    }
    let about = format!(
        "The program itself, `{}`: medians of {} runs with each allocator, in turns; \
         processor time of all threads; ratios to the default in the same turn.",
        program.command.join(" "),
        program.runs
    );
    format!("{}\n{}\n", paragraph(&about), sheet.plain())
}

/// The columns of the program's measures.
pub(crate) const PROGRAM_HEADS: [&str; 8] =
    ["program on", "CPU time", "ratio", "elapsed", "peak resident", "ratio", "faults", "ratio"];

/// Returns the texts of these columns for one allocator.
pub(crate) fn program_row(one: &OfProgram) -> [String; 8] {
    let OfProgram { processor, elapsed, peak, faults, relative, .. } = one;
    let ratio = |ratio: f64| format!("{ratio:.3}");
    [
        one.short_name().to_owned(),
        units::duration(*processor),
        ratio(relative.time),
        units::duration(*elapsed),
        units::bytes(*peak as u64),
        ratio(relative.memory),
        units::thousands(*faults as u64),
        ratio(relative.faults),
    ]
}

/// Formats the front: figures first, since candidates are long.
fn front(found: &Found, memory: &str) -> String {
    let mut lines = format!(" {:>5}  {memory:>5}  faults  candidate\n", "time");
    for one in &found.front {
        let [time, memory_used, faults] = one.relative.cost();
        let star = if one.chosen { "*" } else { " " };
        let width = memory.len();
        let figures = format!("{star}{time:>5.3}  {memory_used:>width$.3}  {faults:>6.3}  ");
        lines += &format!("{}\n", last_column(&figures, &one.candidate));
    }
    lines
}

fn sheet(head: &str, measures: &[&str]) -> Sheet {
    Sheet::new([head].into_iter().chain(measures.iter().copied()))
}

fn row(name: &str, figures: impl IntoIterator<Item = Option<f64>>) -> Vec<String> {
    let text = |figure: Option<f64>| figure.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    [name.to_owned()].into_iter().chain(figures.into_iter().map(text)).collect()
}
