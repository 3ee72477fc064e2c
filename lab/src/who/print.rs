//! Prints the allocating functions for the terminal, in at most 80 columns.

use pagewise_replay::printable::printable;
use pagewise_replay::units::{bytes, count, thousands};

use super::count::{Counted, PREFIX};
use super::group::{By, Group};
use super::view::View;

const WIDTH: usize = 80;
/// Columns before the names.
const FIGURES: usize = 32;

/// What to print, besides the groups.
pub(crate) struct Asked<'a> {
    pub(crate) trace: &'a str,
    /// The chosen point, in words.
    pub(crate) at: &'a str,
    pub(crate) views: &'a [View],
    pub(crate) top: usize,
    /// Number of frames of the heaviest stack to show below each group.
    pub(crate) callers: usize,
    pub(crate) by: By,
    /// Allocators that report the lengths of blocks, and their parameters.
    pub(crate) taken: &'a [&'static str],
    pub(crate) parameters: &'a str,
}

/// Maximum number of allocators in a table.
pub(crate) const MOST_TAKEN: usize = 4;
/// Columns per allocator.
const TAKEN: usize = 12;

/// Formats the groups, view by view.
pub(crate) fn text(counted: &Counted, groups: &[Group], asked: &Asked<'_>) -> String {
    let total = &counted.total;
    let mut lines = vec![
        printable(asked.trace).into_owned(),
        format!(
            "  {} in {} from {}",
            bytes(total.allocated_bytes),
            count(total.allocations, "allocation"),
            count(counted.sites.len() as u64, "call stack")
        ),
        format!(
            "  {} in {} live {}, after event {}",
            bytes(total.live_bytes),
            count(total.live_blocks, "block"),
            asked.at,
            thousands(counted.at)
        ),
        format!(
            "  {} in {} never freed, {} temporary",
            bytes(total.leaked_bytes),
            count(total.leaked_blocks, "block"),
            count(total.temporary, "allocation")
        ),
    ];
    if counted.is_prefix {
        lines.push(format!("  {PREFIX}"));
    }
    for &view in asked.views {
        lines.push(String::new());
        lines.extend(table(view, counted, groups, asked));
    }
    if !asked.taken.is_empty() {
        lines.push(String::new());
        lines.extend(taken(counted, groups, asked));
    }
    lines.join("\n") + "\n"
}

/// Formats how much more than requested the live blocks take under each allocator, sorted by the
/// first one.
fn taken(counted: &Counted, groups: &[Group], asked: &Asked<'_>) -> Vec<String> {
    let bytes_of = |group: &Group, name| group.taken.get(name).map_or(0, |taken| taken.bytes);
    let beyond =
        |group: &Group, name| bytes_of(group, name).saturating_sub(group.figures.live_bytes);
    let share = |taken: u64, requested: u64| {
        format!("+{:.1}%", 100.0 * taken.saturating_sub(requested) as f64 / requested.max(1) as f64)
    };
    let first = asked.taken[0];
    let mut shown: Vec<&Group> = groups.iter().filter(|group| !group.taken.is_empty()).collect();
    shown.sort_by(|a, b| {
        let key = |group: &Group| (beyond(group, first), group.figures.live_bytes);
        key(b).cmp(&key(a)).then_with(|| a.function.cmp(&b.function)).then(a.line.cmp(&b.line))
    });
    let line = |requested: &str, cells: Vec<String>, name: &str| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>TAKEN$}")).collect();
        format!("{requested:>12}{cells} {name}")
    };
    let total = counted.total.live_bytes;
    let all =
        |name: &&'static str| share(groups.iter().map(|group| bytes_of(group, *name)).sum(), total);
    let names = asked.taken.iter().map(|&name| name.to_owned()).collect();
    let mut lines = vec![
        format!("Bytes that blocks live {} take beyond those requested", asked.at),
        format!("  ({}; tags and page headers not counted)", asked.parameters),
        line("requested", names, "function"),
        line(&bytes(total), asked.taken.iter().map(all).collect(), "all"),
    ];
    let margin = 13 + TAKEN * asked.taken.len();
    let rest = shown.len().saturating_sub(asked.top);
    for group in shown.into_iter().take(asked.top) {
        let requested = group.figures.live_bytes;
        let cells = asked.taken.iter().map(|name| share(bytes_of(group, *name), requested));
        let name = cut(&printable(&group.function), WIDTH - margin);
        lines.push(line(&bytes(requested), cells.collect(), &name));
        if let Some(place) = place(group, WIDTH - margin) {
            lines.push(format!("{:margin$}{place}", ""));
        }
        if let Some(worst) = group.taken.get(first).and_then(|taken| taken.worst) {
            lines.push(format!("{:margin$}{}", "", cut(&worst.formatted(), WIDTH - margin)));
        }
    }
    if rest > 0 {
        lines.push(format!("{:margin$}and {} more", "", thousands(rest as u64)));
    }
    lines
}

fn title(view: View, at: &str) -> String {
    match view {
        View::Live => format!("Most bytes live {at}"),
        View::Allocated => "Most bytes allocated in all".into(),
        View::Count => "Most allocations".into(),
        View::Temporary => "Most temporary allocations: freed before their thread's next".into(),
        View::Leaked => "Most bytes never freed".into(),
        View::Short => "Most short-lived blocks: freed within 1,000 events".into(),
        View::Long => "Most long-lived blocks: a tenth of the trace or more".into(),
    }
}

fn table(view: View, counted: &Counted, groups: &[Group], asked: &Asked<'_>) -> Vec<String> {
    let mut shown: Vec<&Group> =
        groups.iter().filter(|group| view.of(&group.figures) > 0).collect();
    shown.sort_by(|a, b| {
        let key = |group: &Group| (view.of(&group.figures), view.blocks(&group.figures));
        key(b).cmp(&key(a)).then_with(|| a.function.cmp(&b.function)).then(a.line.cmp(&b.line))
    });
    let all = view.of(&counted.total);
    let mut lines = vec![title(view, asked.at)];
    if shown.is_empty() {
        lines.push("  none".into());
        return lines;
    }
    let head = if view.is_bytes() { "bytes" } else { "count" };
    let second = if view.is_bytes() { "blocks" } else { "bytes" };
    let by = match asked.by {
        By::Function => "function",
        By::Line => "line",
        By::Stack => "call stack",
    };
    lines.push(format!("{head:>12} {:>6} {second:>11} {by}", "share"));
    let rest = shown.len().saturating_sub(asked.top);
    for group in shown.into_iter().take(asked.top) {
        let figure = view.of(&group.figures);
        let write = if view.is_bytes() { bytes } else { thousands };
        let other = if view.is_bytes() {
            thousands(view.blocks(&group.figures))
        } else {
            bytes(group.figures.allocated_bytes)
        };
        let share = 100.0 * figure as f64 / all.max(1) as f64;
        let name = cut(&printable(&group.function), WIDTH - FIGURES);
        lines.push(format!("{:>12} {share:>5.1}% {other:>11} {name}", write(figure)));
        if let Some(place) = place(group, WIDTH - FIGURES) {
            lines.push(format!("{:FIGURES$}{place}", ""));
        }
        if view == View::Leaked && !group.leaked_sizes.is_empty() {
            let sizes: Vec<String> = group
                .leaked_sizes
                .iter()
                .map(|&(size, count)| format!("{} × {}", thousands(count), bytes(size)))
                .collect();
            lines.push(format!("{:FIGURES$}{}", "", cut(&sizes.join(", "), WIDTH - FIGURES)));
        }
        for caller in group.stack.iter().take(asked.callers) {
            lines.push(format!("{:14}{}", "", cut(&printable(caller), WIDTH - 14)));
        }
    }
    if rest > 0 {
        lines.push(format!("{:FIGURES$}and {} more", "", thousands(rest as u64)));
    }
    lines
}

/// Returns file and line, shortened at the front if long; without a file, the module.
fn place(group: &Group, room: usize) -> Option<String> {
    let place = match (&group.file, group.line, &group.module) {
        (Some(file), Some(line), _) => format!("{file}:{line}"),
        (Some(file), None, _) => file.clone(),
        (None, _, Some(module)) if !group.function.starts_with(module.as_str()) => {
            format!("in {module}")
        }
        _ => return None,
    };
    let place = printable(&place).into_owned();
    let len = place.chars().count();
    Some(if len <= room {
        place
    } else {
        let end: String = place.chars().skip(len - (room - 1)).collect();
        format!("…{end}")
    })
}

/// Shortens a text to `room` columns.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(room - 1).collect();
    format!("{beginning}…")
}
