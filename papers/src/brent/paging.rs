//! Table 7.3: page faults, simulated and real, and CPU time under YKTVMV at three loads.

use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::options::{Made, Options};
use super::yktvmv::{Load, PAGE, Server, WORKING_SET};
use crate::table::{Column, Near, Pair, Ranked, Table};

/// Load factors.
pub(super) const LOADS: [f64; 3] = [0.5, 0.75, 1.0];

/// The paper compares the rows within a load.
pub(super) const BY_LOAD: Ranked =
    Ranked::Within(|row| row.rsplit(", ").next().unwrap_or_default());

/// A row as published: for each load E, pf/t and CPU/t in seconds.
pub(super) struct Row {
    pub(super) server: Server,
    pub(super) published: [[f64; 3]; 3],
}

impl Row {
    /// Returns the row's name for a load.
    pub(super) fn name(&self, load: f64) -> String {
        let Server { strategy, ffcrossover, .. } = self.server;
        format!("{strategy}, {ffcrossover}, load {load:.2}")
    }
}

#[rustfmt::skip]
pub(super) const PUBLISHED: [Row; 9] = [
    Row { server: Server::new("QUICK", 120), published:
        [[0.351, 80.2, 1.319], [0.355, 276.0, 2.194], [0.352, 533.4, 3.227]] },
    Row { server: Server::new("QUICK", 508), published:
        [[0.300, 70.2, 1.281], [0.301, 188.9, 2.034], [0.304, 419.3, 2.943]] },
    Row { server: Server::new("FIRST-FIT", 0), published:
        [[0.877, 22.5, 1.770], [0.879, 131.0, 2.866], [0.891, 396.7, 4.124]] },
    Row { server: Server::new("MOST-FREE", 120), published:
        [[0.881, 20.5, 1.394], [0.893, 71.5, 2.120], [0.890, 221.9, 3.031]] },
    Row { server: Server::new("MOST-FREE", 508), published:
        [[0.786, 18.5, 1.313], [0.789, 49.2, 2.027], [0.793, 163.8, 2.831]] },
    Row { server: Server::new("LEAST-FREE", 120), published:
        [[0.886, 17.5, 1.400], [0.900, 76.0, 2.139], [0.894, 213.1, 3.039]] },
    Row { server: Server::new("LEAST-FREE", 508), published:
        [[0.792, 14.8, 1.365], [0.796, 45.2, 2.101], [0.798, 157.6, 2.872]] },
    Row { server: Server::new("MRU", 120), published:
        [[0.884, 18.9, 1.363], [0.901, 74.5, 2.081], [0.892, 226.3, 2.954]] },
    Row { server: Server::new("MRU", 508), published:
        [[0.783, 18.8, 1.342], [0.788, 54.5, 1.996], [0.791, 160.6, 2.801]] },
];
/// VAX-VMS's pf/t and CPU/t, as published.
const VMS: [[f64; 2]; 3] = [[156.6, 12.048], [1121.6, 24.941], [33_557.9, 60.562]];

/// Runs: each row at each load, simulated and real.
pub(super) const RUNS: u64 = 2 * (PUBLISHED.len() * LOADS.len()) as u64;

/// The measurements of a row at a load.
struct Measured {
    efficiency: f64,
    simulated: f64,
    real: anyhow::Result<f64>,
    cpu: f64,
}

/// Table 7.3.
pub(super) fn table_7_3(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let loads = LOADS
        .into_par_iter()
        .map(|factor| Load::new(factor, false, options))
        .collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<(&Load, &Row)> =
        loads.iter().flat_map(|load| PUBLISHED.iter().map(move |row| (load, row))).collect();
    let faults = cases.par_iter().map(|(load, row)| {
        let simulated = load.simulate(row.server, options)?;
        let real = load.fault(row.server, options);
        progress.step(1, || format!("YKTVMV: {} {}", row.server.strategy, row.server.ffcrossover));
        Ok((simulated, real))
    });
    let faults: Vec<_> = faults.collect::<anyhow::Result<_>>()?;
    // Measure times sequentially, so that runs do not disturb each other.
    let mut measured = Vec::new();
    for ((load, row), ([efficiency, simulated], real)) in cases.into_iter().zip(faults) {
        let cpu = load.time(row.server, options)?;
        progress.step(1, || {
            format!("YKTVMV, time: {} {}", row.server.strategy, row.server.ffcrossover)
        });
        measured.push(Measured { efficiency, simulated, real, cpu });
    }
    Ok(table(&measured).into())
}

fn table(measured: &[Measured]) -> Table {
    let refused = measured.iter().find_map(|one| one.real.as_ref().err());
    let mut notes = vec![
        format!(
            "pf/t: strict LRU simulated, {WORKING_SET} pages of {PAGE} bytes, bookkeeping included"
        ),
        "CPU/t: published for a VAX 11/750".into(),
        match refused {
            None => format!(
                "real pf/t: of this machine's kernel, {WORKING_SET} pages of its size, all sizes scaled alike, FIFO"
            ),
            Some(error) => format!("cannot measure real page faults on this machine: {error:#}"),
        },
    ];
    notes.push("VAX-VMS: as published".into());
    let mut rows = Vec::new();
    for (at, load) in LOADS.iter().enumerate() {
        let of_load = &measured[at * PUBLISHED.len()..][..PUBLISHED.len()];
        for (row, ours) in PUBLISHED.iter().zip(of_load) {
            let [efficiency, faults, cpu] = row.published[at];
            let pairs = vec![
                Pair::new(efficiency, ours.efficiency),
                Pair::new(faults, ours.simulated),
                Pair::new(faults, ours.real.as_ref().ok().copied()),
                Pair::new(cpu * 1000.0, ours.cpu),
            ];
            rows.push((row.name(*load), pairs));
        }
        let [faults, cpu] = VMS[at];
        let published = [None, Some(faults), Some(faults), Some(cpu * 1000.0)];
        let pairs = published.map(|figure| Pair::new(figure, None));
        rows.push((format!("VAX-VMS, load {load:.2}"), pairs.into()));
    }
    Table {
        number: "7.3",
        title: "YKTVMV: efficiency, page faults and CPU time per simulated second".into(),
        columns: vec![
            Column::new("E", 3).within(0.05),
            Column::new("pf/t", 1),
            Column::new("real pf/t", 1).near(Near::OrderAlone),
            Column::new("CPU/t, ms", 2).near(Near::OrderAlone),
        ],
        rows,
        notes,
        ranked: BY_LOAD,
        ..Table::default()
    }
}
