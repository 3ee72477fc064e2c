//! Prints the contents of one trace for the terminal.

use pagewise_replay::printable::printable;
use pagewise_replay::statistics::{Histogram, Split, Statistics};
use pagewise_replay::units::{self, bytes, count, thousands};

use super::content::Info;
use crate::timeline::sparkline;
use pagewise_replay::text::{last_column, shell_word};

/// Length of the longest bar of a histogram.
const BAR: u64 = 40;

/// Formats everything about a trace.
pub(super) fn text(info: &Info) -> String {
    let statistics = &info.statistics;
    let command: Vec<&str> =
        [info.program.as_str()].into_iter().chain(info.arguments.iter().map(|a| &**a)).collect();
    let mut lines = vec![
        info.trace.clone(),
        line("program", &shell_words(&command)),
        line("recorded", &recorded(info)),
    ];
    if !info.note.is_empty() {
        lines.push(line("note", &printable(&info.note.replace('\n', " "))));
    }
    let part = info.part().map(|part| format!(", {part}")).unwrap_or_default();
    let threads = count(u64::from(info.threads), "thread");
    lines.push(line("events", &format!("{}{part}, in {threads}", thousands(info.events))));
    lines.push(line("allocations", &split(statistics.allocations, thousands)));
    lines.push(line("reallocations", &thousands(statistics.reallocations)));
    lines.push(line("frees", &thousands(statistics.frees)));
    lines.push(line("live at most", &split(statistics.max_live_blocks, thousands)));
    lines.push(line("sizes", &split(statistics.sizes, thousands)));
    lines.push(line("requested", &bytes(statistics.requested_bytes)));
    lines.push(line("allocated", &split(statistics.allocated_bytes, bytes)));
    lines.push(line("  at most", &split(statistics.max_allocated_bytes, bytes)));
    lines.push(line(
        "segregated",
        &format!("{:.2} % of this peak (%SS)", statistics.segregated_storage_percent),
    ));
    lines.extend(profile(statistics));
    lines.push("  requested sizes, up to".into());
    lines.extend(bars(&statistics.size_histogram, |size| {
        u64::try_from(size).map_or_else(|_| "more".into(), bytes)
    }));
    lines.push("  lifetimes in events, up to".into());
    lines.extend(bars(&statistics.lifetime_histogram, |events| {
        u64::try_from(events).map_or_else(|_| "more".into(), thousands)
    }));
    let kept = statistics.allocations.all - statistics.frees;
    lines.push(format!("  {:>12} {:>12}", "never freed", thousands(kept)));
    if info.stacks {
        lines.push(line("call stacks", "recorded: `pagewise who` shows which functions allocate"));
    }
    lines.join("\n") + "\n"
}

/// Formats the program's behaviour over time, a line per aspect; the highest bar is the maximum.
fn profile(statistics: &Statistics) -> [String; 6] {
    let spark = |name, values: &[u64], most: u64, write: fn(u64) -> String| {
        format!("  {name:<12} {:>12} {}", write(most), sparkline(values, most))
    };
    let aspect = |name, values: &[u64], write| {
        spark(name, values, values.iter().copied().max().unwrap_or(0), write)
    };
    let means = statistics.asked_bytes.iter().zip(&statistics.requests);
    let means: Vec<u64> = means.map(|(&bytes, &requests)| bytes / requests.max(1)).collect();
    let parts = count(statistics.live_bytes.len() as u64, "part");
    [
        format!("  {:<12} {:>12} in each of {parts} of the trace", "over time", "most"),
        spark("live bytes", &statistics.live_bytes, statistics.max_requested_bytes, bytes),
        aspect("live blocks", &statistics.live_blocks, thousands),
        aspect("requests", &statistics.requests, thousands),
        aspect("mean size", &means, bytes),
        aspect("freed", &statistics.freed, thousands),
    ]
}

/// Describes when it was recorded, and for how long.
fn recorded(info: &Info) -> String {
    let date = info.date.as_deref().unwrap_or("at an unknown time");
    match info.seconds {
        Some(seconds) => format!("{date}, for {}", units::duration(seconds)),
        None => date.to_owned(),
    }
}

fn line(name: &str, text: &str) -> String {
    last_column(&format!("  {name:<14}"), text)
}

fn split(figure: Split, write: fn(u64) -> String) -> String {
    format!("{} ({} small, {} large)", write(figure.all), write(figure.small), write(figure.large))
}

/// Formats a histogram as lines of bars.
fn bars(histogram: &Histogram, name: impl Fn(u128) -> String) -> Vec<String> {
    let total = histogram.total().max(1);
    let most = histogram.bins().map(|(_, count)| count).max().unwrap_or(0).max(1);
    let bar = |(end, count): (u128, u64)| {
        let length = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize;
        let share = 100.0 * count as f64 / total as f64;
        let line = format!(
            "  {:>12} {:>12} {share:>5.1} %  {}",
            name(end),
            thousands(count),
            "▆".repeat(length)
        );
        line.trim_end().to_owned()
    };
    histogram.bins().map(bar).collect()
}

/// Formats a command line, with quotes around words that need them, and shortened if long.
fn shell_words(words: &[&str]) -> String {
    const LONGEST: usize = 200;
    let text =
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ").replace('\n', " ");
    let text = printable(&text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_needed() {
        assert_eq!(shell_words(&["gawk", "-f", "a b", "it's"]), r"gawk -f 'a b' 'it'\''s'");
        assert!(shell_words(&["x", &"ä".repeat(300)]).ends_with('…'));
    }

    #[test]
    fn the_longest_bar_is_the_most_frequent_bin() {
        let mut histogram = Histogram::default();
        [1, 2, 2, 2].into_iter().for_each(|value| histogram.enter(value));
        let lines = bars(&histogram, |end| end.to_string());
        let length = |line: &str| line.chars().filter(|&c| c == '▆').count();
        assert_eq!((length(&lines[0]), length(&lines[1])), (14, 40));
    }
}
