//! Tables I and II: the requests of the loads.

use super::measure::mean;
use super::published::{TABLE_I, TABLE_I_TOTAL};
use crate::experiments::nielsen::{Demand, LOADS};
use crate::table::{Pair, Ranked, Table, columns};

/// Table I: the requests of the base load in a period.
pub(super) fn table_i(seeds: &[u64]) -> Table {
    let demands: Vec<Demand> = seeds.iter().map(|&seed| LOADS[0].demand(seed)).collect();
    let of_all = |figure: &dyn Fn(&Demand) -> f64| mean(demands.iter().map(figure));
    let counts = |demand: &Demand, which: fn((usize, usize)) -> usize| {
        demand.by_period().map(which).collect::<Vec<_>>()
    };
    let most = |counts: &[usize]| counts.iter().max().map_or(0.0, |&most| most as f64);
    let least = |counts: &[usize]| counts.iter().min().map_or(0.0, |&least| least as f64);
    let row = |name: &str, published: [f64; 3], ours: [Option<f64>; 3]| {
        let pairs =
            published.into_iter().zip(ours).map(|(published, ours)| Pair::new(published, ours));
        (name.to_owned(), pairs.collect())
    };
    let words =
        |demand: &Demand| demand.words.iter().map(|&words| words as usize).collect::<Vec<_>>();
    let of_counts = |which: fn((usize, usize)) -> usize| {
        [
            of_all(&|demand| most(&counts(demand, which))),
            of_all(&|demand| least(&counts(demand, which))),
            of_all(&|demand| counts(demand, which).iter().sum::<usize>() as f64),
        ]
    };
    let [memory, allocations, deallocations] = TABLE_I;
    let mut rows = vec![
        row("allocates", [allocations.0, allocations.1, TABLE_I_TOTAL.0], of_counts(|both| both.0)),
        row(
            "deallocates",
            [deallocations.0, deallocations.1, TABLE_I_TOTAL.1],
            of_counts(|both| both.1),
        ),
    ];
    let in_use = vec![
        Pair::new(memory.0, of_all(&|demand| f64::from(demand.most_words))),
        Pair::new(memory.1, of_all(&|demand| least(&words(demand)))),
        Pair::default(),
    ];
    rows.insert(0, ("words in use".to_owned(), in_use));
    Table {
        number: "I",
        title: "the base load, in a period".into(),
        columns: columns(["highest", "lowest", "all 20 periods"].map(|name| (name, 0))),
        rows,
        notes: vec![
            "ours: means over the seeds; the lowest memory in use is at a period's end".into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    }
}

/// Table II: the requests of every load.
pub(super) fn table_ii(seeds: &[u64]) -> Table {
    let rows = LOADS.iter().map(|load| {
        let demands: Vec<Demand> = seeds.iter().map(|&seed| load.demand(seed)).collect();
        let of_all = |figure: &dyn Fn(&Demand) -> f64| mean(demands.iter().map(figure));
        let blocks = |demand: &Demand| {
            demand.coexisting.iter().sum::<f64>() / demand.coexisting.len() as f64
        };
        let generators = |demand: &Demand| demand.coexisting.len() as f64;
        let pairs = vec![
            Pair::new(load.generators as f64, of_all(&generators)),
            Pair::new(load.coexisting, of_all(&blocks)),
            Pair::new(f64::from(load.allocations), of_all(&|demand| f64::from(demand.blocks))),
            Pair::new(None, of_all(&|demand| f64::from(demand.sizes.0))),
            Pair::new(None, of_all(&|demand| f64::from(demand.sizes.1))),
            Pair::new(None, of_all(&|demand| f64::from(demand.most_words))),
        ];
        (load.number.to_string(), pairs)
    });
    let names =
        ["generators", "coexisting", "allocations", "least size", "largest size", "most words"];
    Table {
        number: "II",
        title: "the 18 loads".into(),
        columns: columns(names.map(|name| (name, 0))),
        rows: rows.collect(),
        notes: vec!["ours: means over the seeds; sizes in words".into()],
        ..Table::default()
    }
}
