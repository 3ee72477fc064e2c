//! The gain of tuning: each family's Pareto front, the choice compared with others, and the code to
//! paste.

use maud::{Markup, html};
use pagewise_replay::units::count;
use serde::Serialize;

use super::parts::{figure, verdict};
use crate::tune::{
    Family, Found, InProgram, OnFront, PROGRAM_HEADS, Relative, Standing, Tuned, program_row,
};

/// One family's data for the page's script. Measures are multiples of the default's.
#[derive(Debug, Serialize)]
pub(super) struct Front<'t> {
    /// The name of the memory measure.
    memory: &'static str,
    points: Vec<Point<'t>>,
}

/// A point with its three measures.
#[derive(Debug, Serialize)]
struct Point<'t> {
    /// Empty if the point has no label.
    name: &'static str,
    candidate: &'t str,
    time: f64,
    memory: f64,
    faults: f64,
}

/// Returns the fronts by family, with the default's position.
pub(super) fn fronts(tuned: &Tuned) -> Vec<Front<'_>> {
    tuned.families.iter().map(Front::of).collect()
}

impl<'t> Front<'t> {
    fn of(found: &'t Found) -> Self {
        let mut points: Vec<_> = found.front.iter().map(Point::of).collect();
        // The default may itself be on the front.
        match points.iter_mut().find(|one| (one.time, one.memory, one.faults) == (1.0, 1.0, 1.0)) {
            Some(default) if default.name.is_empty() => default.name = "default",
            Some(_) => {}
            None => points.push(Point::DEFAULT),
        }
        Self { memory: found.family.memory(), points }
    }
}

impl<'t> Point<'t> {
    const DEFAULT: Self =
        Self { name: "default", candidate: "default", time: 1.0, memory: 1.0, faults: 1.0 };

    fn of(one: &'t OnFront) -> Self {
        let Relative { time, memory, faults } = one.relative;
        let name = if one.chosen { "chosen" } else { "" };
        Self { name, candidate: &one.candidate, time, memory, faults }
    }
}

/// Writes the section.
pub(super) fn section(tuned: &Tuned) -> Markup {
    html! {
        section {
            h2 { "Gain from tuning: " (tuned.traces.join(", ")) }
            @for (index, found) in tuned.families.iter().enumerate() { (family(tuned, found, index)) }
            @if let Some(note) = tuned.about_threads() { p.quiet { (note) } }
            @for why in &tuned.not_compared { p.quiet { "Not compared: " (why) "." } }
        }
    }
}

/// Writes one family: the verdict, the front, the choice compared with others, the code.
fn family(tuned: &Tuned, found: &Found, index: usize) -> Markup {
    let (title, memory) = (found.family.title(), found.family.memory());
    let about = format!(
        "Of {}, those that no other beats in time, memory and page faults at once, on the searched \
         part; the default is 1. Down and to the left is better; the dotted line is the front of \
         time and memory alone.",
        count(found.measured as u64, "candidate")
    );
    html! {
        h3 { "Tuned for " (tuned.goal.noun(found.family)) ": " (title) }
        (verdict([found.choice(), found.words(tuned.goal)]))
        (figure("tuned", index, &format!("The front of the {title}"), &about))
        @if let Some(program) = &found.program { (in_program(program)) }
        (table(tuned, found, memory))
        @for why in &found.held_out.stopped { p.quiet { "No result: " (why) "." } }
        @if !found.code.is_empty() {
            details {
                summary { "The code to paste" }
                pre tabindex="0" { code { (found.code) } }
            }
        }
    }
}

/// Writes the measures of the program itself.
fn in_program(program: &InProgram) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                caption {
                    "The program itself, " code { (program.command.join(" ")) } ": medians of "
                    (program.runs) " runs with each allocator, in turns; processor time of all \
                    threads; ratios to the default in the same turn."
                }
                thead { tr { @for head in PROGRAM_HEADS { th scope="col" { (head) } } } }
                tbody {
                    @for one in &program.allocators {
                        @let [name, figures @ ..] = program_row(one);
                        tr {
                            th scope="row" { (name) }
                            @for figure in figures { td { (figure) } }
                        }
                    }
                }
            }
        }
    }
}

/// Writes the comparison of the choice with others, on the held-out part.
fn table(tuned: &Tuned, found: &Found, memory: &'static str) -> Markup {
    let part = match tuned.second_halves {
        true => "the second half of each trace",
        false => "the traces held out",
    };
    let arena = found.family == Family::Arena;
    let held_out = &found.held_out;
    let rivals = held_out.rivals.iter().map(|(name, standing)| (&**name, *standing));
    let default = Standing { time: 1.0, memory: Some(1.0), faults: Some(1.0), resident: 1.0 };
    let rows = [("chosen", Some(held_out.chosen)), ("default", Some(default))];
    let cell = |value: Option<f64>| {
        html! { td { @match value { Some(value) => (format!("{value:.3}")), None => "–" } } }
    };
    html! {
        div.wide tabindex="0" {
            table {
                caption { "On " (part) ", which the search has not seen; the default = 1." }
                thead { tr {
                    th scope="col" { "allocator" }
                    th scope="col" { "time" }
                    th scope="col" { (memory) }
                    th scope="col" { "page faults" }
                    @if arena { th scope="col" { "peak resident" } }
                } }
                tbody {
                    @for (name, standing) in rows.into_iter().chain(rivals) {
                        tr {
                            th scope="row" { (name) }
                            (cell(standing.map(|one| one.time)))
                            (cell(standing.and_then(|one| one.memory)))
                            (cell(standing.and_then(|one| one.faults)))
                            @if arena { (cell(standing.map(|one| one.resident))) }
                        }
                    }
                }
            }
        }
    }
}
