//! Tables 7 to 10, and §5.8's share of quick lists: the settings found, and memory and time
//! compared with Lea's and Kingsley's allocators.

use pagewise::Strategy;
use pagewise::hybrid::Settings;
use pagewise::kingsley::Kingsley;
use pagewise::source::Reserved;
use pagewise_replay::lea::{self, Lea};
use pagewise_replay::timing::in_turns;
use pagewise_replay::workload::{CAPACITY, Stop, Target, Workload};

use super::program::{Options, Program, replayed};
use super::tuning::{self, HEADER, Tuned, heap};
use crate::table::{Column, Near, Pair, Ranked, Table, columns};
use crate::widened::Words;

/// The allocators of Tables 8 and 9, in order.
const LEA: usize = 0;
const HC_GEN: usize = 2;
const ALLOCATORS: usize = 5;
/// Timed rounds of the five allocators.
const ROUNDS: usize = 15;
/// Bytes that Lea's allocator keeps before each block.
const LEA_HEADER: usize = size_of::<usize>();
/// Kingsley's page, bytes.
const PAGE: usize = 4096;

/// The measurements of one program.
#[derive(Debug)]
pub(super) struct Measured {
    tuned: Tuned,
    /// Peak bytes held: LEA, KINGSLEY, HCgen, HCmem, HCperf.
    held: [f64; ALLOCATORS],
    /// Nanoseconds per allocation or reallocation with its free, in the same order.
    time: [f64; ALLOCATORS],
    /// Total nanoseconds of processor time, minimum over the rounds, in the same order.
    least: [f64; ALLOCATORS],
    /// Percentage of the allocations served from HCgen's quick lists.
    quick: f64,
    /// Peak bytes held by HCgen if large blocks are coalesced only beyond the threshold.
    strict: f64,
}

/// Tunes the hybrid for a program, and compares it with the others.
///
/// # Errors
/// If a replay stops.
pub(super) fn measure(
    workload: &Workload,
    words: Words,
    options: Options,
) -> Result<Measured, Stop> {
    let tuned = tuning::tune(workload, words, options.quick)?;
    let settings = [Settings::generic(), tuned.memory, tuned.performance];

    let mut held = [0.0; ALLOCATORS];
    let (growth, page) = (lea::GROWTH * words.factor(), PAGE * words.factor());
    let mut lea = Lea::growing_by(growth, CAPACITY);
    replayed(workload, words, &mut lea, LEA_HEADER)?;
    held[LEA] = lea.peak_held() as f64;
    let mut kingsley = Kingsley::new(page, Reserved::new(CAPACITY), ());
    replayed(workload, words, &mut kingsley, HEADER)?;
    held[1] = kingsley.usage().peak_held as f64;
    for (place, config) in (HC_GEN..).zip(settings) {
        let mut heap = heap(config, words);
        replayed(workload, words, &mut heap, HEADER)?;
        held[place] = heap.usage().peak_held as f64;
    }
    let mut generic = heap(settings[0], words);
    replayed(workload, words, &mut generic, HEADER)?;
    let quick = generic.monitor().map_or(0, |monitor| monitor.quick);
    let quick = 100.0 * quick as f64 / generic.usage().allocations.max(1) as f64;

    let mut strict = heap(settings[0].strict_threshold(true), words);
    replayed(workload, words, &mut strict, HEADER)?;
    let strict = strict.usage().peak_held as f64 / words.factor() as f64;

    let rounds = if options.quick { 3 } else { ROUNDS };
    let times = in_turns(ALLOCATORS, rounds, |which| {
        // All are called through a vtable.
        let mut allocator: Box<dyn Target> = match which {
            LEA => Box::new(Lea::growing_by(growth, CAPACITY)),
            1 => Box::new(Kingsley::new(page, Reserved::new(CAPACITY), ())),
            _ => Box::new(heap(settings[which - HC_GEN].monitor(false), words)),
        };
        let header = if which == LEA { LEA_HEADER } else { HEADER };
        replayed(workload, words, &mut *allocator, header)
    })?;
    let pairs = workload.facts.pairs().max(1) as f64;
    Ok(Measured {
        tuned,
        held: held.map(|bytes| bytes / words.factor() as f64),
        time: std::array::from_fn(|which| times[which].median() / pairs),
        least: std::array::from_fn(|which| times[which].least()),
        quick,
        strict,
    })
}

/// Returns Table 7, 8, 8.1, 9, 10 or 5.8; `None` for another number.
pub(super) fn table(number: &str, measured: &[(Program, Measured)]) -> Option<Table> {
    match number {
        "5.8" => Some(quick(measured)),
        "7" => Some(settings(measured)),
        "8" => Some(memory(measured)),
        "8.1" => Some(threshold(measured)),
        "9" => Some(time(measured)),
        "10" => Some(clock(measured)),
        _ => None,
    }
}

fn quick(measured: &[(Program, Measured)]) -> Table {
    let row = |(program, measured): &(Program, Measured)| {
        let published = program.published.and_then(|published| published.quick);
        (program.row(), vec![Pair::new(published, measured.quick)])
    };
    Table {
        number: "5.8",
        title: "allocations that quick lists served, percent (HCgen)".into(),
        columns: columns([("%", 0)]),
        rows: measured.iter().map(row).collect(),
        notes: vec![
            "published in prose: over 90 in five of seven programs, 60 in ghostscript".into(),
        ],
        ..Table::default()
    }
}

fn settings(measured: &[(Program, Measured)]) -> Table {
    let rows = measured.iter().flat_map(|(program, measured)| {
        let settings = [("mem", measured.tuned.memory), ("perf", measured.tuned.performance)];
        settings.into_iter().enumerate().map(|(which, (name, ours))| {
            let published = program.published.map(|published| published.settings[which]);
            let switches = [ours.coalesce, ours.coalesce_ql, ours.coalesce_in_free, ours.split];
            let mut figures: Vec<_> =
                switches.into_iter().map(|on| f64::from(u8::from(on))).collect();
            figures.push(ours.ql_high as f64);
            let figure = |index: usize| published.map(|setting| f64::from(setting[index]));
            let pairs = figures.into_iter().enumerate();
            let mut pairs: Vec<_> =
                pairs.map(|(index, ours)| Pair::new(figure(index), ours)).collect();
            pairs.push(Pair::new(None, f64::from(u8::from(ours.mmap_threshold != usize::MAX))));
            pairs.push(Pair::new(None, f64::from(ours.preallocate)));
            (format!("{} ({name})", program.row()), pairs)
        })
    });
    Table {
        number: "7",
        title: "settings found for least memory and for most speed".into(),
        columns: ["COALESCE", "_QL", "_IN_FREE", "SPLIT", "QL_HIGH", "mmap", "prealloc."]
            .map(|name| Column::new(name, 0).within(0.0))
            .into(),
        rows: rows.collect(),
        notes: vec![
            "MONITOR is off; QL_HIGH in bytes, ours counts words twice as wide: 144 is the paper's 72".into(),
            "mmap: blocks of more than 100 KiB get mappings (1) or not (0); prealloc.: most blocks".into(),
            "ours from a grid of 256 settings, each tried; where a switch makes no difference, \
             measured time decided".into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    }
}

fn memory(measured: &[(Program, Measured)]) -> Table {
    let row = |(program, measured): &(Program, Measured)| {
        let published = program.published.map(|published| published.memory);
        let held = measured.held.map(|bytes| bytes / 1024.0);
        (program.row(), relative(published, held))
    };
    let mut rows: Vec<_> = measured.iter().map(row).collect();
    rows.extend(means(&rows));
    Table {
        number: "8",
        title: "most memory held: Lea's allocator in KB, the others relative to it".into(),
        columns: allocators(0),
        means: rows.len() - measured.len(),
        rows,
        notes: vec![
            "DL: published 2.7.2, ours the crate dlmalloc (2.8); both it and HC grow by 8 KiB"
                .into(),
            "ours in KiB; the last rows: geometric means".into(),
            "the paper's own programs have the paper's words: units of 8 bytes, headers of 4"
                .into(),
        ],
        ranked: Ranked::Across,
    }
}

/// Compares the threshold with COALESCE on, as we read it and as §3.3 states it.
fn threshold(measured: &[(Program, Measured)]) -> Table {
    let row = |(program, measured): &(Program, Measured)| {
        let published = program.published.map(|published| published.memory);
        let theirs = published.map(|memory| memory[HC_GEN] / memory[LEA]);
        let [ours, strict] =
            [measured.held[HC_GEN], measured.strict].map(|held| held / measured.held[LEA]);
        (
            program.row(),
            vec![Pair::new(theirs, ours).derived(), Pair::new(theirs, strict).derived()],
        )
    };
    Table {
        number: "8.1",
        title: "HCgen's memory relative to Lea's, large blocks joined whenever none serves, or \
                only beyond the threshold"
            .into(),
        columns: ["HCgen", "as worded"].map(|name| Column::new(name, 2).ratio()).into(),
        rows: measured.iter().map(row).collect(),
        notes: vec![
            "§3.3: coalescing \u{201c}when needed for allocation and when the memory consumption becomes greater than a configured threshold\u{201d}".into(),
        ],
        ..Table::default()
    }
}

fn time(measured: &[(Program, Measured)]) -> Table {
    let row = |(program, measured): &(Program, Measured)| {
        let published = program.published.map(|published| {
            published.time.map(|milliseconds| milliseconds * 1e6 / published.allocations)
        });
        (program.row(), relative(published, measured.time))
    };
    let mut rows: Vec<_> = measured.iter().map(row).collect();
    rows.extend(means(&rows));
    Table {
        number: "9",
        title: "time: Lea's allocator in ns per allocation with its free, the others relative to it"
            .into(),
        columns: allocators(1),
        means: rows.len() - measured.len(),
        rows,
        notes: vec![
            "published: Table 9 (ms, Pentium II, 400 MHz) ÷ Table 5; ours: processor time, medians of rounds in turns".into(),
            "each block's first and last byte are written; the last rows: geometric means".into(),
        ],
        ranked: Ranked::Across,
    }
}

fn clock(measured: &[(Program, Measured)]) -> Table {
    let row = |(program, measured): &(Program, Measured)| {
        let published = program.published;
        let ticks = published.and_then(|published| published.ticks);
        let ours = [measured.least[LEA], measured.least[HC_GEN]].map(|time| time / 1e6);
        let pair = |which: usize| Pair::new(ticks.map(|ticks| ticks[which]), ours[which]);
        let published = published.map(|published| published.ticks_ratio);
        let ratio = Pair::new(published, ours[1] / ours[0]);
        (program.row(), vec![pair(0), pair(1), ratio])
    };
    Table {
        number: "10",
        title: "time in millions of clock ticks; ours in millions of nanoseconds".into(),
        columns: vec![
            Column::new("DL", 2).near(Near::Uncounted),
            Column::new("HCgen", 2).near(Near::Uncounted),
            Column::new("HCgen ÷ DL", 2).ratio(),
        ],
        rows: measured.iter().map(row).collect(),
        notes: vec![
            "DL: published 2.7.0, ours the crate dlmalloc (2.8); ours the processor time of a run, the least of the rounds".into(),
            "ghostscript's published ratio comes from the prose; its line of the table is lost".into(),
        ],
        ..Table::default()
    }
}

/// Returns the columns of Tables 8 and 9: Lea's allocator in absolute units, the others relative to
/// it.
fn allocators(decimals: usize) -> Vec<Column> {
    let others = ["CK", "HCgen", "HCmem", "HCperf"].map(|name| Column::new(name, 2).ratio());
    [Column::new("DL", decimals).unit()].into_iter().chain(others).collect()
}

/// Returns the first figure unchanged, and the others relative to it.
fn relative(published: Option<[f64; ALLOCATORS]>, ours: [f64; ALLOCATORS]) -> Vec<Pair> {
    let of = |figures: [f64; ALLOCATORS], which: usize| match which {
        LEA => figures[LEA],
        _ => figures[which] / figures[LEA],
    };
    let pair = |which| {
        let pair = Pair::new(published.map(|figures| of(figures, which)), of(ours, which));
        if which == LEA { pair } else { pair.derived() }
    };
    (0..ALLOCATORS).map(pair).collect()
}

/// Returns rows of geometric means, for all columns except Lea's: of the programs with published
/// figures, if there are some, and of all, beside which nothing was published.
fn means(rows: &[(String, Vec<Pair>)]) -> Vec<(String, Vec<Pair>)> {
    let published = |pairs: &[Pair]| pairs.iter().any(|pair| pair.published.is_some());
    let theirs: Vec<&[Pair]> =
        rows.iter().map(|(_, pairs)| &pairs[..]).filter(|pairs| published(pairs)).collect();
    let all: Vec<&[Pair]> = rows.iter().map(|(_, pairs)| &pairs[..]).collect();
    let row = |name: &str, rows: &[&[Pair]], publishes: bool| {
        let pair = |which| {
            let theirs = publishes.then(|| mean(rows, which, |pair| pair.published)).flatten();
            Pair::new(theirs, mean(rows, which, |pair| pair.ours)).derived()
        };
        (name.to_owned(), (0..ALLOCATORS).map(pair).collect())
    };
    let of_theirs = (!theirs.is_empty()).then(|| row("mean of the paper's", &theirs, true));
    of_theirs.into_iter().chain([row("mean of all", &all, false)]).collect()
}

/// Returns the geometric mean of one side of a column; `None` for Lea's, or without figures.
fn mean(rows: &[&[Pair]], which: usize, side: fn(&Pair) -> Option<f64>) -> Option<f64> {
    let logs: Vec<_> = rows.iter().filter_map(|pairs| side(&pairs[which])).map(f64::ln).collect();
    let is_one = which != LEA && !logs.is_empty();
    is_one.then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric_and_exclude_the_base() {
        let row = |ours| ("x".to_owned(), relative(None, [10.0, ours, 1.0, 1.0, 1.0]));
        let rows = means(&[row(20.0), row(80.0)]);
        let [(name, pairs)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(pairs[LEA].ours, None);
        assert!((pairs[1].ours.unwrap() - 4.0).abs() < 1e-12);
        assert_eq!((&name[..], pairs[1].published), ("mean of all", None));
    }

    /// (Regression: the published mean of seven programs stood beside ours of all.)
    #[test]
    fn means_beside_each_other_are_of_the_same_programs() {
        let figures = |ck| [10.0, ck, 1.0, 1.0, 1.0];
        let theirs = ("a".to_owned(), relative(Some(figures(30.0)), figures(20.0)));
        let other = ("b".to_owned(), relative(None, figures(80.0)));
        let rows = means(&[theirs, other]);
        let shown = |row: usize| {
            let pair = &rows[row].1[1];
            [pair.published, pair.ours].map(|figure| figure.map(f64::round))
        };
        assert_eq!([shown(0), shown(1)], [[Some(3.0), Some(2.0)], [None, Some(4.0)]]);
        assert_eq!(rows.len(), 2);
    }
}
