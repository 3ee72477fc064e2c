//! The section on allocating call sites: words, drawings, tables. The tables need no script.

use maud::{Markup, html};
use pagewise_replay::units::{bytes, count, thousands};

use crate::report::parts::{figure, verdict};
use crate::report::sites::Sites;
use crate::who::count::{Figures, PREFIX};
use crate::who::group::Group;

/// Functions in a table.
const ROWS: usize = 15;

/// Writes the section for the trace with this number.
pub(super) fn section(sites: &Sites, trace: usize) -> Markup {
    html! {
        h3 { "Who allocates" }
        (verdict(words(sites)))
        (figure("flame", trace, "Flame graph",
            "Functions below their callers; the width is the memory that a function and its \
             callees request. Click or Enter zooms in, Escape zooms out; arrow keys move."))
        (figure("areas", trace, "Live bytes over time, by function",
            "The functions with the most bytes live at the peak, stacked; each part of the run is \
             shown at its moment of most live bytes."))
        (top(sites))
        @if !sites.told.is_empty() { (waste(sites)) }
    }
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / all.max(1) as f64)
}

/// Describes the most important call sites in sentences.
fn words(sites: &Sites) -> Vec<String> {
    let total = &sites.total;
    let most = |figure: fn(&Figures) -> u64| {
        let of = |group: &&Group| figure(&group.figures);
        sites.groups.iter().max_by_key(of).filter(|group| figure(&group.figures) > 0)
    };
    let mut words = Vec::new();
    if let Some(group) = most(|figures| figures.live_bytes) {
        let (part, all) = (group.figures.live_bytes, total.live_bytes);
        let share = percent(part, all);
        words.push(format!(
            "Most live at the peak: {} has {} of {} ({share}).",
            group.function,
            bytes(part),
            bytes(all)
        ));
    }
    if let Some(group) = most(|figures| figures.leaked_bytes) {
        words.push(format!(
            "Never freed: {} in {}, {} of it by {}{}.",
            bytes(total.leaked_bytes),
            count(total.leaked_blocks, "block"),
            percent(group.figures.leaked_bytes, total.leaked_bytes),
            group.function,
            if sites.is_prefix { format!("; {PREFIX}") } else { String::new() }
        ));
    }
    if let Some(group) = most(|figures| figures.temporary) {
        words.push(format!(
            "Temporary: {} of all allocations are freed before their thread allocates again; {} makes \
             {} of them.",
            percent(total.temporary, total.allocations),
            group.function,
            percent(group.figures.temporary, total.temporary)
        ));
    }
    if let Some(name) = sites.told.first().copied()
        && let Some(group) = sites.groups.iter().max_by_key(|group| beyond(group, name))
        && let Some(worst) = group.taken.get(name).and_then(|taken| taken.worst)
    {
        words.push(format!(
            "Worst fit: {} takes {} more than it requested under {name}, most of it for {}.",
            group.function,
            bytes(beyond(group, name)),
            worst.formatted()
        ));
    }
    words
}

/// Writes a function's name and location.
fn name(group: &Group) -> Markup {
    let place = match (&group.file, group.line) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (Some(file), None) => Some(file.clone()),
        (None, _) => group.module.clone(),
    };
    html! {
        span.function { (group.function) }
        @if let Some(place) = place { small title=(place) { (end_of(&place)) } }
    }
}

/// Returns the last two components of a path.
fn end_of(path: &str) -> String {
    match path.rmatch_indices('/').nth(1) {
        Some((at, _)) if at > 0 => format!("…{}", &path[at..]),
        _ => path.to_owned(),
    }
}

/// A column: its heading, the figure it shows, and how it is written.
type Column = (&'static str, fn(&Figures) -> u64, fn(u64) -> String);

const COLUMNS: [Column; 5] = [
    ("live at the peak", |figures| figures.live_bytes, bytes),
    ("never freed", |figures| figures.leaked_bytes, bytes),
    ("allocated", |figures| figures.allocated_bytes, bytes),
    ("allocations", |figures| figures.allocations, thousands),
    ("temporary", |figures| figures.temporary, thousands),
];

/// Writes the table of the most important functions.
fn top(sites: &Sites) -> Markup {
    let total = &sites.total;
    // The greatest of a function's shares.
    let weight = |group: &Group| {
        let share =
            |(_, figure, _): &Column| figure(&group.figures) as f64 / figure(total).max(1) as f64;
        COLUMNS.iter().map(share).fold(0.0, f64::max)
    };
    let mut shown: Vec<&Group> = sites.groups.iter().collect();
    shown.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let left = shown.len().saturating_sub(ROWS);
    shown.truncate(ROWS);
    shown.sort_by_key(|group| std::cmp::Reverse(group.figures.live_bytes));
    html! {
        div.wide tabindex="0" {
            table.sites {
                caption { span {
                    "The functions with the largest shares; below each, the line of its heaviest \
                     call."
                    @if left > 0 { " " (thousands(left as u64)) " others have less." }
                } }
                thead { tr {
                    th scope="col" { "function" }
                    @for (head, ..) in COLUMNS { th scope="col" { (head) } }
                } }
                tbody {
                    @for group in shown { (shares(group, total)) }
                    tr.all {
                        th scope="row" { "all" }
                        @for (_, figure, write) in COLUMNS { td { (write(figure(total))) } }
                    }
                }
            }
        }
    }
}

/// Returns a function's row, with its share of each total.
fn shares(group: &Group, total: &Figures) -> Markup {
    html! {
        tr {
            th scope="row" { (name(group)) }
            @for (_, figure, write) in COLUMNS {
                td {
                    (write(figure(&group.figures)))
                    small { (percent(figure(&group.figures), figure(total))) }
                }
            }
        }
    }
}

/// Returns the bytes beyond those requested that the blocks of a group take under an allocator.
fn beyond(group: &Group, name: &str) -> u64 {
    let taken = group.taken.get(name).map_or(0, |taken| taken.bytes);
    taken.saturating_sub(group.figures.live_bytes)
}

/// Writes bytes beyond those requested as a share of these.
fn excess(beyond: u64, requested: u64) -> String {
    format!("+{}", percent(beyond, requested))
}

/// Writes how much more than requested the blocks of functions take, under each allocator.
fn waste(sites: &Sites) -> Markup {
    let most =
        |group: &Group| sites.told.iter().map(|name| beyond(group, name)).max().unwrap_or_default();
    let mut shown: Vec<&Group> = sites.groups.iter().filter(|group| most(group) > 0).collect();
    shown.sort_by_key(|group| std::cmp::Reverse(most(group)));
    shown.truncate(ROWS);
    let all = |name| sites.groups.iter().map(|group| beyond(group, name)).sum();
    html! {
        h4 { "Functions whose sizes fit their blocks badly" }
        div.wide tabindex="0" {
            table.sites {
                caption { span {
                    "Internal fragmentation: the bytes that blocks live at the peak take beyond \
                     those requested, and the size that adds most. Tags before blocks, page headers \
                     and free memory are not counted."
                } }
                thead { tr {
                    th scope="col" { "function" }
                    th scope="col" { "requested" }
                    @for name in &sites.told { th scope="col" { (name) } }
                } }
                tbody {
                    @for group in shown { (excesses(group, &sites.told)) }
                    tr.all {
                        th scope="row" { "all" }
                        td { (bytes(sites.total.live_bytes)) }
                        @for name in &sites.told { td { (excess(all(name), sites.total.live_bytes)) } }
                    }
                }
            }
        }
    }
}

/// Returns a function's row, the least excess marked.
fn excesses(group: &Group, allocators: &[&str]) -> Markup {
    let least = allocators.iter().map(|name| beyond(group, name)).min();
    html! {
        tr {
            th scope="row" { (name(group)) }
            td { (bytes(group.figures.live_bytes)) }
            @for name in allocators {
                td.best[Some(beyond(group, name)) == least] {
                    (excess(beyond(group, name), group.figures.live_bytes))
                    @if let Some(worst) = group.taken.get(name).and_then(|one| one.worst) {
                        small { (worst.formatted()) }
                    }
                }
            }
        }
    }
}
