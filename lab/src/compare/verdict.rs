//! The verdict: which strategy is best at what, in words, and only as far as the data support it.
//!
//! For each measure, the overall ranking is by geometric mean over the traces that *every* ranked
//! strategy finished. A trace is won by each strategy that is best on it or within the noise of the
//! best. The noise of times is the difference between two identical competitors; bytes and pages
//! are exact.

use pagewise_replay::units;

use super::advice;
use super::compared::Compared;
use super::measure::{MEASURES, Measure, finished, reference, relative, strategies, typical_noise};
use crate::competitor::SYSTEM;

/// Returns the verdict: a sentence or two per measure, and the noise.
pub(crate) fn of(all: &[&Compared]) -> Vec<String> {
    let Some(reference) = reference(all) else { return Vec::new() };
    if all.iter().all(|compared| compared.is_empty()) {
        let have = if all.len() == 1 { "The trace has" } else { "The traces have" };
        return vec![format!("{have} no allocations: there is nothing to time.")];
    }
    let known = typical_noise(all);
    let noise = known.unwrap_or(0.0);
    let judged = MEASURES.iter().filter_map(|measure| judge(all, measure, reference, noise));
    let stopped = strategies(all).into_iter().filter_map(|strategy| {
        let missing = all.len() - finished(all, strategy);
        let traces = units::count(missing as u64, "trace");
        let mut rows = all.iter().flat_map(|compared| &compared.rows);
        let first = rows.find_map(|row| row.stopped().filter(|_| row.strategy == strategy))?;
        Some(format!("{strategy} has no result on {traces}: {first}."))
    });
    let once = timed_once(all);
    let of_noise = known.map(|noise| {
        format!(
            "Noise: two identical runs of {SYSTEM} differed by {:.1} % in the median; smaller \
             leads in time are called ties.",
            noise * 100.0
        )
    });
    advice::of(all, noise)
        .into_iter()
        .chain(judged)
        .chain(stopped)
        .chain(of_noise)
        .chain(once)
        .chain(of_threads(all))
        .collect()
}

/// Says that one thread replays the events of several.
fn of_threads(all: &[&Compared]) -> Option<String> {
    let several = all.iter().filter(|compared| compared.threads > 1);
    let what = match (all, several.count()) {
        (_, 0) => return None,
        ([one], _) => {
            format!("the trace has events of {} threads", units::thousands(one.threads.into()))
        }
        (_, 1) => format!("one of {} traces has events of several threads", all.len()),
        (_, number) => format!("{number} of {} traces have events of several threads", all.len()),
    };
    Some(format!(
        "Threads: {what}, which one thread replays. Locks, caches of processors, and memory that \
         an allocator keeps for each thread are not measured."
    ))
}

/// Names the strategies whose time is that of a single round on some trace.
fn timed_once(all: &[&Compared]) -> Option<String> {
    let is_timed_once = |strategy: &&str| {
        let rows = || all.iter().flat_map(|compared| &compared.rows);
        let mut its = rows().filter(|row| row.strategy == *strategy);
        its.any(|row| row.ns_per_pair.is_some() && row.ns_per_pair_spread.is_none())
    };
    let once: Vec<_> = strategies(all).into_iter().filter(is_timed_once).collect();
    let more = once.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = once.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    (!once.is_empty()).then(|| {
        format!(
            "Timed once: {named}{more}; a single time may be far off, `compare --repeat 5` tells."
        )
    })
}

/// Number of winners named.
const NAMED: usize = 3;

/// Returns the sentence about one measure.
fn judge(all: &[&Compared], measure: &Measure, reference: &str, noise: f64) -> Option<String> {
    let (title, amount) = measure.best?;
    let mut ranked: Vec<(&str, f64)> = strategies(all)
        .into_iter()
        .filter(|&strategy| finished(all, strategy) == all.len())
        .filter_map(|strategy| {
            relative(all, measure, strategy, reference).map(|mean| (strategy, mean))
        })
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let &(best, mean) = ranked.first()?;
    let tolerance = if measure.is_noisy { noise } else { 0.0 };
    let ties: Vec<&str> = ranked[1..]
        .iter()
        .filter(|(_, other)| *other <= mean * (1.0 + tolerance))
        .map(|(strategy, _)| *strategy)
        .collect();

    let tied = if ties.is_empty() { String::new() } else { format!(", tied with {}", list(&ties)) };
    // The reference itself, or what ties with it, is compared with the next in the ranking.
    let behind = &ranked[1 + ties.len()..];
    let other = behind.iter().find(|(strategy, _)| *strategy == reference).or(behind.first());
    let against = other.map(|(strategy, its)| {
        format!(", with {} times the {amount} of {strategy}", below_1(mean / its))
    });
    let sentence = format!("{title}: {best}{tied}{}.", against.unwrap_or_default());
    Some(if all.len() > 1 { format!("{sentence} {}", most_often(all, measure)) } else { sentence })
}

/// Formats a ratio below 1 with two digits, or with as many as tell it from 1.
fn below_1(ratio: f64) -> String {
    let digits = (2..6).find(|&digits| (1.0 - ratio) * 10f64.powi(digits) >= 0.5).unwrap_or(6);
    format!("{ratio:.0$}", digits as usize)
}

/// Names the strategies that win the most traces.
fn most_often(all: &[&Compared], measure: &Measure) -> String {
    let wins = wins(all, measure);
    let named: Vec<_> =
        wins.iter().take(NAMED).map(|(strategy, won)| format!("{strategy} on {won}")).collect();
    let named: Vec<_> = named.iter().map(String::as_str).collect();
    let or_tied = if measure.is_noisy { " or tied with it" } else { "" };
    let most_often = if wins.len() > NAMED { " most often" } else { "" };
    let traces = units::count(all.len() as u64, "trace");
    format!("Best{or_tied}{most_often}, of {traces}: {}.", list(&named))
}

/// Counts for each strategy the traces on which it is best or within the noise of the best; most
/// wins first.
fn wins<'c>(all: &[&'c Compared], measure: &Measure) -> Vec<(&'c str, usize)> {
    let typical = typical_noise(all).unwrap_or(0.0);
    let mut wins: Vec<(&str, usize)> = Vec::new();
    for compared in all {
        let tolerance =
            if measure.is_noisy { compared.noise.unwrap_or(0.0).max(typical) } else { 0.0 };
        let values = compared.rows.iter().filter_map(measure.value);
        let Some(best) = values.min_by(f64::total_cmp) else { continue };
        for row in &compared.rows {
            if (measure.value)(row).is_some_and(|value| value <= best * (1.0 + tolerance)) {
                match wins.iter_mut().find(|(strategy, _)| *strategy == row.strategy) {
                    Some((_, count)) => *count += 1,
                    None => wins.push((row.strategy, 1)),
                }
            }
        }
    }
    wins.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    wins
}

/// Formats a list: "A", "A and B", "A, B and C".
fn list(items: &[&str]) -> String {
    match items {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::TIME;
    use super::super::row::Row;
    use super::*;

    fn row(strategy: &'static str, ns: f64, held: u64) -> Row {
        Row {
            strategy,
            ns_per_pair: Some(ns),
            ns_per_pair_spread: Some(0.01),
            peak_resident_bytes: Some(held),
            pages_touched: Some(held / 4096),
            ..Row::default()
        }
    }

    fn compared(noise: f64, rows: Vec<Row>) -> Compared {
        let (about, argument) = (String::new(), String::new());
        Compared { trace: "t".into(), argument, about, threads: 1, rows, noise: Some(noise) }
    }

    #[test]
    fn a_lead_within_the_noise_is_a_tie() {
        let rows = vec![row("MRU", 10.0, 8192), row("QUICK", 10.2, 9000), row(SYSTEM, 20.0, 9000)];
        let one = compared(0.05, rows);
        let verdict = of(&[&one, &one]);
        assert!(verdict[0].ends_with("of 2 traces: MRU on 2 and QUICK on 2."), "{}", verdict[0]);
        let verdict = of(&[&one]);
        assert!(
            verdict[0]
                .starts_with("Fastest: MRU, tied with QUICK, with 0.50 times the time of SYSTEM.")
        );
        assert!(
            verdict[1].starts_with("Leanest: MRU, with 0.91 times the peak memory of SYSTEM."),
            "{}",
            verdict[1]
        );
        assert!(verdict.last().unwrap().contains("5.0 %"));
    }

    #[test]
    fn a_trace_of_several_threads_is_said_to_be_replayed_by_one() {
        let of_threads = |threads| Compared { threads, ..compared(0.0, vec![row("MRU", 9.0, 1)]) };
        let (one, many) = (of_threads(1), of_threads(201));
        let last = |all: &[&Compared]| of(all).last().unwrap().clone();
        assert!(
            last(&[&many]).starts_with("Threads: the trace has events of 201 threads, which one")
        );
        assert!(
            last(&[&one, &many])
                .starts_with("Threads: one of 2 traces has events of several threads,")
        );
        assert!(!last(&[&one]).starts_with("Threads"));
    }

    #[test]
    fn times_of_a_single_round_are_named() {
        let once = |strategy| Row { ns_per_pair_spread: None, ..row(strategy, 10.0, 8192) };
        let verdict = of(&[&compared(0.0, vec![row("MRU", 9.0, 1), once("QUICK"), once("LEA")])]);
        let last = verdict.last().unwrap();
        assert!(last.starts_with("Timed once: QUICK, LEA; a single time may"), "{last}");
        let four = ["A", "B", "C", "D"].map(once).to_vec();
        let verdict = of(&[&compared(0.0, four)]);
        assert!(verdict.last().unwrap().starts_with("Timed once: A, B, C and 1 more;"));
    }

    #[test]
    fn without_noise_the_lead_counts() {
        let rows = vec![row("MRU", 10.0, 8192), row("QUICK", 10.2, 9000)];
        let verdict = of(&[&compared(0.0, rows)]);
        assert!(
            verdict[0].starts_with("Fastest: MRU, with 0.98 times the time of QUICK."),
            "{}",
            verdict[0]
        );
    }

    #[test]
    fn a_tie_with_the_reference_is_not_compared_with_it() {
        let rows = vec![row("MRU", 19.0, 9000), row(SYSTEM, 20.0, 9000), row("LEA", 38.0, 9001)];
        let verdict = of(&[&compared(0.1, rows)]);
        let fastest = "Fastest: MRU, tied with SYSTEM, with 0.50 times the time of LEA.";
        assert!(verdict.iter().any(|line| line == fastest), "{verdict:?}");
        let leanest = "Leanest: MRU, tied with SYSTEM, with 0.9999 times the peak memory of LEA.";
        assert!(verdict.iter().any(|line| line == leanest), "{verdict:?}");
    }

    #[test]
    fn an_exhausted_strategy_is_not_ranked() {
        let stopped =
            Row { strategy: "NOFREE", stopped: Some("out of memory".into()), ..Row::default() };
        let first = compared(0.0, vec![row("NOFREE", 1.0, 1), row(SYSTEM, 20.0, 9000)]);
        let second = compared(0.0, vec![stopped, row(SYSTEM, 20.0, 9000)]);
        let verdict = of(&[&first, &second]);
        assert!(verdict[0].starts_with("Fastest: SYSTEM."), "{}", verdict[0]);
        assert!(
            verdict.iter().any(|line| line == "NOFREE has no result on 1 trace: out of memory.")
        );
    }

    #[test]
    fn means_are_geometric() {
        let one = compared(0.0, vec![row("A", 10.0, 1), row(SYSTEM, 20.0, 1)]);
        let two = compared(0.0, vec![row("A", 40.0, 1), row(SYSTEM, 20.0, 1)]);
        assert_eq!(relative(&[&one, &two], &TIME, "A", SYSTEM), Some(1.0));
    }
}
