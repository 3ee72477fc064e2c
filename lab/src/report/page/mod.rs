//! The page: its text and tables as HTML, and the data that its script draws.
//!
//! The template escapes everything inserted into it, except the style and the script, which are our
//! own files (`page/`), and the JSON, in which every `<` is replaced.

mod sites;

use std::collections::BTreeSet;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pagewise_replay::printable::{printable_json, printable_lines};
use pagewise_replay::units::{bytes, count, thousands};
use serde::Serialize;

use super::collected::{Charts, Collected};
use super::parts::{figure, verdict};
use super::tuned::{self, Front};
use crate::compare::{self, Compared, Grid, Mean};
use crate::development;
use crate::simulate::{Row, Simulated};
use crate::strategies;
use crate::tune::Tuned;

const STYLE: &str = include_str!("style.css");
/// In order of dependency.
const SCRIPT: [&str; 8] = [
    include_str!("units.js"),
    include_str!("frame.js"),
    include_str!("lines.js"),
    include_str!("bars.js"),
    include_str!("heap_map.js"),
    include_str!("areas.js"),
    include_str!("flame.js"),
    include_str!("main.js"),
];

/// The data for the script.
#[derive(Debug, Serialize)]
struct Data<'g> {
    /// The strategy to which the means are relative.
    reference: Option<&'static str>,
    means: Vec<Mean>,
    traces: Vec<Charts<'g>>,
    tuned: Vec<Front<'g>>,
}

/// Builds the page on these traces, measured with these parameters.
///
/// # Errors
/// If the data cannot be written as JSON.
pub(super) fn of(
    collected: Vec<Collected>,
    tuned: Option<&Tuned>,
    parameters: &str,
) -> anyhow::Result<String> {
    let traces = collected.iter().map(Collected::charts).collect();
    let compared: Vec<&Compared> = collected.iter().map(|one| &one.compared).collect();
    let several = collected.len() > 1;
    let data = Data {
        reference: compare::reference(&compared),
        means: compare::mean_of_each(&compared),
        traces,
        tuned: tuned.map(tuned::fronts).unwrap_or_default(),
    };
    let data = escaped(&printable_json(serde_json::to_string(&data)?));
    let names: Vec<&str> = collected.iter().map(|one| &*one.info.trace).collect();
    let title = match &names[..] {
        [one] => (*one).to_owned(),
        names if names.len() <= 4 => names.join(", "),
        names => count(names.len() as u64, "trace"),
    };
    let content = html! {
        (heading(&title, parameters))
        main {
            @if several { (overall(&compared, &names)) }
            @for (index, one) in collected.iter().enumerate() {
                (section(one, index, several))
            }
            @if let Some(tuned) = tuned { (tuned::section(tuned)) }
        }
        footer { (next(&collected)) (terms(&collected)) }
    };
    let page = document(&title, &content, &data);
    // Escapes control characters in inserted texts, such as those that change the direction of
    // text.
    Ok(printable_lines(&page.into_string()).into_owned())
}

/// Returns whether a file is a report, by its title.
pub(super) fn is_report(path: &Path) -> bool {
    const HEAD: u64 = 1 << 10;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains("<title>pagewise: ")
}

/// Returns the document with this content, which runs only its own script and loads nothing.
fn document(title: &str, content: &Markup, data: &str) -> Markup {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:"
    );
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { "pagewise: " (title) }
                style nonce=(nonce) { (PreEscaped(STYLE)) }
            }
            body {
                (content)
                script type="application/json" id="data" nonce=(nonce) { (PreEscaped(data)) }
                script nonce=(nonce) {
                    (PreEscaped("\"use strict\";\n"))
                    @for part in SCRIPT { (PreEscaped(part)) }
                }
            }
        }
    }
}

/// Writes the title, and when and with which parameters the page was made.
fn heading(title: &str, parameters: &str) -> Markup {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    html! {
        header {
            h1 { (title) }
            p.quiet {
                "A report of pagewise " (env!("CARGO_PKG_VERSION")) ", " (now) ". "
                "Strategies with " (parameters) "."
            }
            noscript { p { "The charts need JavaScript; the tables do not." } }
        }
    }
}

/// Makes JSON safe inside a `script` element by replacing `<`, which occurs only in strings.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Returns the verdict's sentences.
fn sentences(compared: &[&Compared]) -> Vec<String> {
    let warning = development::warning().map(str::to_owned);
    warning.into_iter().chain(compare::verdict(compared)).collect()
}

/// Writes the section on all traces together.
fn overall(compared: &[&Compared], names: &[&str]) -> Markup {
    html! {
        section {
            h2 { "Over all traces" }
            (verdict(sentences(compared)))
            @if let Some((caption, grid)) = compare::means(compared) {
                (table(&caption, &grid))
                (figure("means", 0, "Time against memory, over all traces",
                    "Geometric means. Down and to the left is better; the dotted line joins those \
                     that no other beats in both."))
            }
            nav aria-label="Traces" {
                @for (index, name) in names.iter().enumerate() {
                    a href={ "#trace-" (index) } { (name) }
                }
            }
        }
    }
}

/// Writes the section on one trace.
fn section(one: &Collected, index: usize, is_one_of_several: bool) -> Markup {
    let page = bytes(one.simulated.page_size as u64);
    let sentences = sentences(&[&one.compared]);
    html! {
        section id={ "trace-" (index) } {
            @if is_one_of_several { h2 { (one.info.trace) } }
            (origin(one))
            (verdict(sentences.into_iter().chain(fewest_faults(&one.simulated))))

            h3 { "Requests of the program" }
            (facts(one))
            (figure("live", index, "Live bytes over time",
                "The most bytes requested and not yet freed, in each of up to 400 equal parts of \
                 the run."))
            div.pair {
                (figure("sizes", index, "Requested sizes",
                    "Allocations and reallocations; a bar covers the sizes from half its label up \
                     to its label."))
                (figure("lifetimes", index, "Lifetimes",
                    "From allocation to free. Blocks that are never freed are not counted."))
            }

            @if let Some(sites) = &one.sites { (sites::section(sites, index)) }

            h3 { "Comparison of the allocators" }
            (table("The best in each column stands out.", &compare::grid(&one.compared)))
            (figure("trade", index, "Time against memory",
                "Down and to the left is better; the dotted line joins those that no other beats \
                 in both."))
            (figure("held", index, "Bytes held over time",
                "Bytes that each strategy has taken from the operating system, bookkeeping \
                 included."))
            (figure("fragmentation", index, "Fragmentation over time",
                "Share of the bytes held that the program has not requested."))
            (maps(index))
            (figure("faults", index, "Page faults",
                &format!("Page faults against the number of pages of {page} that memory holds \
                          (strict LRU, both axes logarithmic). Every block is written when \
                          allocated and read before it is freed.")))
        }
    }
}

/// Describes the recorded program.
fn origin(one: &Collected) -> Markup {
    let info = &one.info;
    let command: Vec<_> = [&info.program].into_iter().chain(&info.arguments).cloned().collect();
    let command: String = command.join(" ").chars().take(300).collect();
    html! {
        p {
            code { (command) }
            @if let Some(date) = &info.date { span.quiet { ", recorded " (date) } }
        }
        @if !info.note.is_empty() { p.quiet { (info.note) } }
        @if let Some(part) = info.part() {
            p.quiet { (thousands(info.events)) " events, " (part) "." }
        }
    }
}

/// Writes the figures of the requests.
fn facts(one: &Collected) -> Markup {
    let statistics = &one.info.statistics;
    let facts = [
        ("events", thousands(one.info.events)),
        ("threads", thousands(one.info.threads.into())),
        ("allocations", thousands(one.facts.allocations)),
        ("reallocations", thousands(one.facts.reallocations)),
        ("never freed", thousands(one.facts.live_at_end)),
        ("peak live blocks", thousands(statistics.max_live_blocks.all)),
        ("distinct sizes", thousands(statistics.sizes.all)),
        ("bytes requested in all", bytes(statistics.requested_bytes)),
        ("peak bytes requested", bytes(one.facts.peak_requested)),
    ];
    html! {
        dl.facts {
            @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// Names the strategy with the fewest faults when memory holds half of the peak.
fn fewest_faults(simulated: &Simulated) -> Option<String> {
    let (index, pages) = simulated.working_sets.iter().enumerate().find_map(|(index, set)| {
        (set.0 == crate::simulate::WorkingSet::Percent(50.0)).then_some((index, set.1))
    })?;
    let faults = |row: &Row| row.faults(index);
    let rows = || simulated.rows.iter().filter(|row| faults(row).is_some());
    let best = rows().min_by_key(|row| faults(row))?;
    let worst = rows().max_by_key(|row| faults(row))?;
    if faults(best) == faults(worst) {
        return None;
    }
    Some(format!(
        "Fewest page faults: with memory for {} of {}, half of the peak requested, {} has {}; {} \
         has the most, {}.",
        count(pages as u64, "page"),
        bytes(simulated.page_size as u64),
        best.strategy,
        count(faults(best)?, "fault"),
        worst.strategy,
        thousands(faults(worst)?),
    ))
}

fn table(caption: &str, grid: &Grid) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "strategy" }
                    @for head in &grid.heads { th scope="col" { (head) } }
                } }
                tbody {
                    @for (strategy, figures) in &grid.lines {
                        tr {
                            th scope="row" { (strategy) }
                            @for figure in figures {
                                td.best[figure.best] {
                                    @if figure.text.is_empty() { "–" } @else { (figure.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Writes the heap maps side by side.
fn maps(trace: usize) -> Markup {
    let group = format!("layer-{trace}");
    html! {
        figure data-kind="maps" data-trace=(trace) {
            figcaption {
                "Heaps over time"
                small {
                    "Where the blocks lie, addresses upwards. A dashed line stands for addresses \
                     without any block, or for several such stretches. The paler a colour, the emptier that stretch."
                }
            }
            div.key {
                label { input type="radio" name=(group) value="age" checked; " age of the blocks" }
                label { input type="radio" name=(group) value="size"; " size of the blocks" }
                span.least {} span.ramp {} span.most {}
                span.swatch {} span { "empty, was in use" }
            }
            div.plot {}
        }
    }
}

/// Suggests the next steps.
fn next(collected: &[Collected]) -> Markup {
    let steps = steps(collected.iter().any(|one| one.sites.is_some()));
    html! {
        section {
            h3 { "Next steps" }
            dl.terms {
                @for (command, about) in steps { dt { code { (command) } } dd { (about) } }
            }
        }
    }
}

/// Returns commands that may follow, and what each does.
fn steps(has_stacks: bool) -> Vec<(&'static str, &'static str)> {
    let mut steps = Vec::new();
    if has_stacks {
        steps.push(("pagewise who TRACE --callers 8", "the calls that lead to each function"));
        steps.push(("pagewise who TRACE --at end --of live", "the blocks live at another moment"));
    } else {
        let about = "also record call stacks: the page then shows a flame graph of the functions \
                     that allocate";
        steps.push(("pagewise record --stacks -- COMMAND", about));
    }
    steps.push((
        "pagewise tune TRACE --for memory",
        "search for the best strategy and parameters, and verify them",
    ));
    steps.push((
        "pagewise tune TRACE --for memory --preload",
        "the same for a program not written in Rust",
    ));
    steps.push(("pagewise compare TRACE --strategy all", "compare all strategies"));
    steps
}

/// Explains the terms and strategies used.
fn terms(collected: &[Collected]) -> Markup {
    let rows = collected.iter().flat_map(|one| &one.compared.rows);
    let strategies: BTreeSet<&str> = rows.map(|row| row.strategy()).collect();
    let strategies =
        strategies.into_iter().filter_map(|name| Some((name, strategies::about(name)?)));
    let terms = [
        (
            "ns/pair",
            "Processor time per allocation or reallocation with the free that matches it; \
                     median of several rounds, +/- half the interquartile range.",
        ),
        (
            "resident",
            "Peak memory in use, in a separate process: anonymous memory, less the memory in use \
             before the first block.",
        ),
        (
            "held",
            "Peak bytes taken from the operating system, bookkeeping included; unknown for some \
             allocators.",
        ),
        ("frag", "1 − peak bytes requested ÷ peak bytes held."),
        (
            "OS pages",
            "Distinct pages of the operating system that contain a block or a visited item.",
        ),
        (
            "items",
            "List items that the strategy's bookkeeping visits, per allocation or reallocation \
             with the free that matches it; known only for strategies.",
        ),
    ];
    html! {
        section {
            h3 { "Terms" }
            dl.terms {
                @for (term, meaning) in terms.into_iter().chain(strategies) {
                    dt { (term) }
                    dd { (meaning) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn json_cannot_end_its_element() {
        let json = serde_json::to_string(&["</script><!--", "plain"]).expect("JSON");
        let safe = escaped(&json);
        assert!(!safe.contains('<'));
        let back: Vec<String> = serde_json::from_str(&safe).expect("still JSON");
        assert_eq!(back, ["</script><!--", "plain"]);
    }

    #[test]
    fn no_script_of_ours_ends_its_element() {
        for part in SCRIPT {
            assert!(!part.contains("</script") && !part.contains("<!--"));
        }
    }

    #[test]
    fn every_next_step_is_a_command() {
        for (command, _) in [steps(true), steps(false)].concat() {
            let parsed = Cli::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }
}
