//! Tables 7.3.1 to 7.3.4, which are ours: Table 7.3 with spread lifetimes, and with other values of
//! FREETOL, t and FFCROSSOVER; the paper has only a sentence on each.

use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::options::{Made, Options};
use super::paging::{BY_LOAD, LOADS, PUBLISHED, Row};
use super::yktvmv::{self, HIGHEST, Load, Server};
use crate::table::{Column, Pair, Table};

/// Runs of Table 7.3.1.
pub(super) const SPREAD_RUNS: u64 = (PUBLISHED.len() * LOADS.len()) as u64;

/// Table 7.3.1, ours: simulated faults where each size has its own lifetimes.
pub(super) fn table_7_3_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let loads = LOADS.into_par_iter().map(|factor| Load::new(factor, true, options));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<(usize, &Row)> =
        (0..LOADS.len()).flat_map(|load| PUBLISHED.iter().map(move |row| (load, row))).collect();
    let rows = cases.into_par_iter().map(|(at, row)| {
        let ours = loads[at].simulate(row.server, options)?;
        progress.step(1, || format!("YKTVMV, spread: {}", row.server.strategy));
        let published = row.published[at];
        let pairs = (0..2).map(|figure| Pair::new(published[figure], ours[figure])).collect();
        Ok((row.name(LOADS[at]), pairs))
    });
    let table = Table {
        number: "7.3.1",
        title: "Table 7.3's efficiency and simulated faults over the distribution with lifetimes of their own"
            .into(),
        columns: vec![Column::new("E", 3).within(0.05), Column::new("pf/t", 1)],
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: vec![
            "QUICK's two E at load 1.00 are fitted, all else is predicted".into(),
        ],
        ranked: BY_LOAD,
        ..Table::default()
    };
    Ok(table.into())
}

/// Values of FREETOL, bytes: 1, and a tenth, a fifth and two fifths of a page (§5.2).
const FREETOLS: [usize; 4] = [1, 51, 102, 205];
/// The strategies that have FREETOL, and their FFCROSSOVER.
const TOLERANT: [Server; 6] = [
    Server::new("MOST-FREE", 120),
    Server::new("MOST-FREE", HIGHEST),
    Server::new("LEAST-FREE", 120),
    Server::new("LEAST-FREE", HIGHEST),
    Server::new("MRU", 120),
    Server::new("MRU", HIGHEST),
];

/// Runs of Table 7.3.2.
pub(super) const FREETOL_RUNS: u64 = (FREETOLS.len() * TOLERANT.len()) as u64;

/// Table 7.3.2, ours: larger values of FREETOL, "generally worse than with FREETOL = 1" (§7.3).
pub(super) fn table_7_3_2(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let load = Load::new(1.0, false, options)?;
    let rows = TOLERANT.into_par_iter().map(|server| {
        let mut pairs = Vec::new();
        for freetol in FREETOLS {
            let ours = load.simulate(Server { freetol, ..server }, options)?;
            pairs.extend(ours.map(|ours| Pair::new(None, ours)));
            progress.step(1, || format!("YKTVMV: {}, FREETOL {freetol}", server.strategy));
        }
        Ok((format!("{}, {}", server.strategy, server.ffcrossover), pairs))
    });
    let rows: Vec<(String, Vec<Pair>)> = rows.collect::<anyhow::Result<_>>()?;
    let worse = |figure: usize, is_worse: fn(f64, f64) -> bool| {
        let of_row = |(_, pairs): &(String, Vec<Pair>)| {
            let ours = |at: usize| pairs[2 * at + figure].ours.unwrap_or_default();
            (1..FREETOLS.len()).filter(|&at| is_worse(ours(at), ours(0))).count()
        };
        rows.iter().map(of_row).sum::<usize>()
    };
    let all = TOLERANT.len() * (FREETOLS.len() - 1);
    let notes = vec![format!(
        "published: larger values \u{201c}generally worse\u{201d}; ours: of {all}, E is lower in {}, faults are more in {}",
        worse(0, |other, first| other < first),
        worse(1, |other, first| other > first)
    )];
    let names = [
        ("E, 1", 3),
        ("pf/t, 1", 1),
        ("E, 51", 3),
        ("pf/t, 51", 1),
        ("E, 102", 3),
        ("pf/t, 102", 1),
        ("E, 205", 3),
        ("pf/t, 205", 1),
    ];
    let title = "YKTVMV at full load with FREETOL of 1, 51, 102 and 205 bytes".into();
    Ok(Table { number: "7.3.2", title, rows, notes, ..Table::uncompared(names) }.into())
}

/// Strategies whose figures should hardly depend on t; the paper does not claim that for NOFREE.
const LASTING: [Server; 9] = [
    Server::new("QUICK", 120),
    Server::new("QUICK", HIGHEST),
    Server::new("FIRST-FIT", 0),
    Server::new("MOST-FREE", 120),
    Server::new("MOST-FREE", HIGHEST),
    Server::new("LEAST-FREE", 120),
    Server::new("MRU", 120),
    Server::new("MRU", HIGHEST),
    Server::new("NOFREE", HIGHEST),
];

/// Values of t, seconds; the last is the paper's.
const TIMES: [f64; 3] = [300.0, 1000.0, 2000.0];

/// Runs of Table 7.3.3.
pub(super) const TIME_RUNS: u64 = (LASTING.len() * TIMES.len()) as u64;

/// Table 7.3.3, ours: "pf/t and CPU/t are almost independent of t" (§7.3).
pub(super) fn table_7_3_3(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let times = if options.quick { TIMES.map(|time| time / 10.0) } else { TIMES };
    let mut rows: Vec<(String, Vec<Pair>)> = LASTING
        .iter()
        .map(|server| (format!("{}, {}", server.strategy, server.ffcrossover), Vec::new()))
        .collect();
    for time in times {
        let load = Load::lasting(time, options)?;
        let simulated = LASTING.par_iter().map(|&server| load.simulate(server, options));
        let simulated = simulated.collect::<anyhow::Result<Vec<_>>>()?;
        for ((server, [efficiency, faults]), row) in LASTING.iter().zip(simulated).zip(&mut rows) {
            let cpu = load.time(*server, options)?;
            row.1.extend([efficiency, faults, cpu].map(|ours| Pair::new(None, ours)));
            progress.step(1, || format!("YKTVMV, {time} s: {}", server.strategy));
        }
    }
    // The largest change of a figure from the first t to a later one, in either direction, percent.
    let most = |figure: usize| {
        let of_row = |(_, pairs): &(String, Vec<Pair>)| {
            let ours = |time: usize| pairs[3 * time + figure].ours.unwrap_or_default();
            (1..TIMES.len())
                .map(|time| 100.0 * (ours(time) / ours(0) - 1.0).abs())
                .fold(0.0, f64::max)
        };
        rows.iter().filter(|(name, _)| !name.starts_with("NOFREE")).map(of_row).fold(0.0, f64::max)
    };
    let notes = vec![
        format!(
            "t: {} seconds, the first {} of which do not count",
            times.map(|time| format!("{time}")).join(", "),
            yktvmv::seconds(options).0
        ),
        format!(
            "published: pf/t and CPU/t \u{201c}almost independent of t\u{201d}; ours change by {:.1} and {:.0} % at most, without NOFREE",
            most(1),
            most(2)
        ),
        "CPU/t: measured in milliseconds, in one run".into(),
    ];
    let names = [
        ("E, short", 3),
        ("pf/t", 1),
        ("CPU/t", 2),
        ("E, longer", 3),
        ("pf/t ", 1),
        ("CPU/t ", 2),
        ("E, long", 3),
        ("pf/t  ", 1),
        ("CPU/t  ", 2),
    ];
    let title = "YKTVMV at full load over shorter and longer times t".into();
    Ok(Table { number: "7.3.3", title, rows, notes, ..Table::uncompared(names) }.into())
}

/// Values of FFCROSSOVER; 0 is FIRST-FIT.
const CROSSOVERS: [usize; 8] = [0, 24, 48, 72, 96, 120, 240, HIGHEST];
/// The strategies used below it.
const CROSSING: [&str; 3] = ["MOST-FREE", "LEAST-FREE", "MRU"];

/// Runs of Table 7.3.4.
pub(super) const CROSSOVER_RUNS: u64 = (CROSSOVERS.len() * CROSSING.len()) as u64;

/// Table 7.3.4, ours: below FFCROSSOVER = 120 "the behaviour of the strategies becomes close to
/// that of FIRST-FIT" (§7.3).
pub(super) fn table_7_3_4(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let load = Load::new(1.0, false, options)?;
    let servers = CROSSOVERS.iter().flat_map(|&ffcrossover| {
        let name = move |name| if ffcrossover == 0 { "FIRST-FIT" } else { name };
        CROSSING.map(|strategy| Server::new(name(strategy), ffcrossover))
    });
    let servers: Vec<Server> = servers.collect();
    let simulated = servers.par_iter().map(|&server| load.simulate(server, options));
    let simulated = simulated.collect::<anyhow::Result<Vec<_>>>()?;
    let mut measured = Vec::new();
    for (&server, [efficiency, faults]) in servers.iter().zip(simulated) {
        measured.push([efficiency, faults, load.time(server, options)?]);
        progress.step(1, || format!("YKTVMV: {}, {}", server.strategy, server.ffcrossover));
    }
    let rows = CROSSOVERS.iter().zip(measured.chunks(CROSSING.len())).map(|(ffcrossover, of)| {
        let figures = (0..3).flat_map(|figure| of.iter().map(move |ours| ours[figure]));
        (format!("FFCROSSOVER {ffcrossover}"), figures.map(|ours| Pair::new(None, ours)).collect())
    });
    let names = [
        ("E MF", 3),
        ("LF", 3),
        ("MRU", 3),
        ("pf/t MF", 1),
        ("LF ", 1),
        ("MRU ", 1),
        ("CPU/t MF", 2),
        ("LF  ", 2),
        ("MRU  ", 2),
    ];
    let notes = vec![
        "0: FIRST-FIT alone".into(),
        "published: below 120 E \u{201c}stays about the same but page faults and CPU time increase\u{201d}"
            .into(),
        "CPU/t: measured in milliseconds, in one run".into(),
    ];
    let (title, rows) =
        ("YKTVMV at full load with other values of FFCROSSOVER".into(), rows.collect());
    Ok(Table { number: "7.3.4", title, rows, notes, ..Table::uncompared(names) }.into())
}
