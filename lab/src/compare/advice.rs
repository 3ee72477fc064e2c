//! The verdict's first sentence: which allocator a program not written in Rust should use.
//!
//! Time and memory count equally. Only allocators that can serve a whole process compete: the C
//! library's, `libpagewise.so`, and other libraries; no strategies, and nothing that only a Rust
//! program can use.

use pagewise::catalogue;

use super::compared::Compared;
use super::measure::{self, RESIDENT, TIME};
use crate::competitor::{GLOBAL, HC, LEA, LIBPAGEWISE, SYSTEM};

/// Smaller leads do not count: memory varies slightly with the layout of the process.
const LEAST: f64 = 0.005;

/// Returns the sentence; `None` unless both the C library's allocator and `libpagewise.so` took
/// part and finished.
pub(super) fn of(all: &[&Compared], noise: f64) -> Option<String> {
    let is_whole =
        |name: &&str| ![GLOBAL, HC, LEA].contains(name) && catalogue::find(name).is_none();
    let mean = |name| {
        let finished = measure::finished(all, name) == all.len();
        let time = measure::relative(all, &TIME, name, SYSTEM).filter(|_| finished)?;
        Some((name, time, measure::relative(all, &RESIDENT, name, SYSTEM)?))
    };
    let whole = measure::strategies(all).into_iter().filter(is_whole).filter_map(mean);
    let whole: Vec<(&str, f64, f64)> = whole.collect();
    let of = |wanted| whole.iter().find(|(name, ..)| *name == wanted);
    let (ours, system) = of(LIBPAGEWISE).zip(of(SYSTEM))?;
    let both = |&(_, time, memory): &(&str, f64, f64)| (time * memory).sqrt();
    let best = whole.iter().min_by(|a, b| both(a).total_cmp(&both(b)))?;
    let tolerance = 1.0 + (noise / 2.0).max(LEAST);
    // A tie goes to an allocator that needs no library.
    if both(system) <= both(best) * tolerance {
        return Some(format!(
            "For a program in C: stay with the C library's malloc ({SYSTEM}); {LIBPAGEWISE} takes {:.2} times its \
             time and {:.2} times its memory.",
            ours.1, ours.2
        ));
    }
    let with = |(_, time, memory): &(&str, f64, f64)| {
        format!("with {time:.2} times the time and {memory:.2} times the memory of {SYSTEM}")
    };
    Some(if both(ours) <= both(best) * tolerance {
        format!("For a program in C: preload libpagewise.so, {}.", with(ours))
    } else {
        let (name, ..) = best;
        format!(
            "For a program in C: use {name}, {}; {LIBPAGEWISE} takes {:.2} and {:.2} times.",
            with(best),
            ours.1,
            ours.2
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::*;

    fn advice(rows: &[(&'static str, f64, u64)]) -> Option<String> {
        let row = |&(strategy, ns, bytes): &(&'static str, f64, u64)| Row {
            strategy,
            ns_per_pair: Some(ns),
            peak_resident_bytes: Some(bytes),
            ..Row::default()
        };
        let rows = rows.iter().map(row).collect();
        let (about, argument) = (String::new(), String::new());
        let one = Compared { trace: "t".into(), argument, about, threads: 1, rows, noise: None };
        of(&[&one], 0.01)
    }

    #[test]
    fn the_advice_depends_on_time_and_memory() {
        let stay = advice(&[(SYSTEM, 10.0, 100), (LIBPAGEWISE, 9.0, 150), (GLOBAL, 1.0, 1)]);
        let stay = stay.expect("a sentence");
        assert!(
            stay.contains("stay with the C library's malloc (SYSTEM); LIBPAGEWISE takes 0.90"),
            "{stay}"
        );
        let other = advice(&[(SYSTEM, 10.0, 100), (LIBPAGEWISE, 9.0, 100), ("MIMALLOC", 7.0, 100)]);
        let other = other.expect("a sentence");
        assert!(other.contains("use MIMALLOC, with 0.70 times the time"), "{other}");
        let ours = advice(&[(SYSTEM, 10.0, 100), (LIBPAGEWISE, 7.0, 100), ("MIMALLOC", 7.0, 100)]);
        assert!(ours.expect("a sentence").contains("preload libpagewise.so, with 0.70 times"));
    }

    #[test]
    fn a_tie_goes_to_the_allocator_without_a_library() {
        let tie = advice(&[(SYSTEM, 10.0, 100), (LIBPAGEWISE, 9.99, 100)]).expect("a sentence");
        assert!(tie.contains("stay with"), "{tie}");
        assert_eq!(advice(&[(SYSTEM, 10.0, 100), (GLOBAL, 1.0, 1)]), None);
    }
}
