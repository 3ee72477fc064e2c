//! Tables 1, 3 and 4: the programs' requests.

use pagewise_replay::statistics::{Split, Statistics};

use super::program::Program;
use super::published::profile;
use crate::table::{self, Pair, Table};

/// One of the three tables: its columns, and our figures for them.
struct Profile {
    number: &'static str,
    title: &'static str,
    columns: &'static [(&'static str, usize)],
    ours: fn(&Statistics) -> Vec<f64>,
    notes: &'static [&'static str],
}

const PROFILES: [Profile; 3] = [
    Profile {
        number: "1",
        title: "allocated sizes",
        columns: &[("#sizes", 0), ("#small", 0), ("#large", 0), ("%SS", 2)],
        ours: |of| {
            let mut figures = split(of.sizes).to_vec();
            figures.push(of.segregated_storage_percent);
            figures
        },
        notes: &[
            "small: up to 1 KiB, with 8 bytes of header and trailer as the paper counts",
            "%SS: memory of pure segregated storage, in percent of the most bytes allocated",
        ],
    },
    Profile {
        number: "3",
        title: "bytes",
        columns: &[
            ("requested", 0),
            ("allocated", 0),
            ("small", 0),
            ("large", 0),
            ("max", 0),
            ("max small", 0),
            ("max large", 0),
        ],
        ours: |of| {
            let mut figures = vec![of.requested_bytes as f64];
            figures.extend(split(of.allocated_bytes));
            figures.extend(split(of.max_allocated_bytes));
            figures
        },
        notes: &[],
    },
    Profile {
        number: "4",
        title: "operations",
        columns: &[
            ("allocs", 0),
            ("small", 0),
            ("large", 0),
            ("max live", 0),
            ("max small", 0),
            ("max large", 0),
            ("reallocs", 0),
            ("frees", 0),
        ],
        ours: |of| {
            let mut figures = split(of.requests_by_size).to_vec();
            figures.extend(split(of.max_live_blocks));
            figures.extend([of.reallocations as f64, (of.frees + of.reallocations) as f64]);
            figures
        },
        notes: &[
            "a reallocation also counts as an allocation and a free, which reproduces the paper's \
             counts",
        ],
    },
];

fn split(split: Split) -> [f64; 3] {
    [split.all, split.small, split.large].map(|figure| figure as f64)
}

/// Fig. 6: large blocks, in percent of the allocations and of the bytes. Its bars have no figures;
/// these are derived from Tables 3 and 4.
fn figure_6(programs: &[(Program, Statistics)]) -> Table {
    let rows = programs.iter().map(|(program, statistics)| {
        let published = |table, large: usize, all: usize| {
            let figures = profile(table, program.published?.program);
            Some(100.0 * figures.get(large)? / figures.get(all)?)
        };
        let ours = |split: Split| 100.0 * split.large as f64 / split.all.max(1) as f64;
        let pairs = vec![
            Pair::new(published("4", 2, 0), ours(statistics.requests_by_size)).derived(),
            Pair::new(published("3", 3, 1), ours(statistics.allocated_bytes)).derived(),
        ];
        (program.row(), pairs)
    });
    Table {
        number: FIGURE_6,
        title: "large blocks, percent of allocations and of bytes".into(),
        columns: ["%large allocs", "%large bytes"]
            .map(|name| table::Column::new(name, 2).within(2.0))
            .into(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// The "number" of Fig. 6.
pub(super) const FIGURE_6: &str = "Fig. 6";

/// Returns Table 1, 3 or 4, or Fig. 6; `None` for another number.
pub(super) fn table(number: &str, programs: &[(Program, Statistics)]) -> Option<Table> {
    if number == FIGURE_6 {
        return Some(figure_6(programs));
    }
    let of = PROFILES.iter().find(|profile| profile.number == number)?;
    let rows = programs.iter().map(|(program, statistics)| {
        let published = program.published.map(|published| profile(number, published.program));
        let published = published.unwrap_or_default();
        let ours = (of.ours)(statistics).into_iter().enumerate();
        let pairs = ours.map(|(index, ours)| Pair::new(published.get(index).copied(), ours));
        (program.row(), pairs.collect())
    });
    Some(Table {
        number: of.number,
        title: of.title.into(),
        columns: table::columns(of.columns.iter().copied()),
        rows: rows.collect(),
        notes: of.notes.iter().map(|&note| note.to_owned()).collect(),
        ..Table::default()
    })
}
