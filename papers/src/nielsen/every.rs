//! Tables V and VI: seven algorithms on all loads.

use pagewise_replay::progress::Progress;

use super::levels::{LEVEL_NAMES, LEVELS};
use super::measure::{self, COSTS, Shown, mean, median};
use super::published::{TABLE_V, TABLE_VI};
use crate::experiments::nielsen::{ALGORITHMS, Algorithm, Cost, Demand, LOADS};
use crate::table::{Column, Pair, Table};

fn chosen() -> Vec<Algorithm> {
    let by_name = |&(name, _): &(&str, _)| ALGORITHMS.into_iter().find(|one| one.name == name);
    TABLE_V.iter().filter_map(by_name).collect()
}

/// Index of IV-1 among them.
const UNIT: usize = 4;

/// Steps of the progress bar.
pub(super) fn count_steps(seeds: &[u64]) -> u64 {
    measure::count_steps(TABLE_V.len(), LOADS.len() * seeds.len(), LOADS.len())
}

/// An algorithm's results on a load at a level: share of the seeds served, and the cost of
/// allocating and deallocating a block in items and in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    served: f64,
    items: Option<f64>,
    time: Option<f64>,
}

/// Tables V (with a part for each level) and VI.
pub(super) fn tables_v_and_vi(seeds: &[u64], progress: &Progress) -> (Vec<Table>, Table) {
    let algorithms = chosen();
    // Seed by seed, so that each load's first demands, which are timed, come first.
    let of_seed = |&seed: &u64| LOADS.iter().map(move |load| load.demand(seed));
    let demands: Vec<Demand> = seeds.iter().flat_map(of_seed).collect();
    let shown = measure::all(&algorithms, &demands, LOADS.len(), progress);
    let figures: Vec<Vec<[Figures; 3]>> = shown.iter().map(|shown| by_load(shown)).collect();
    ((0..LEVELS.len()).map(|level| part(&figures, level)).collect(), table_vi(&figures))
}

fn by_load(shown: &[Shown]) -> Vec<[Figures; 3]> {
    let both = |cost: Cost| cost.allocate + cost.deallocate;
    let of_load = |load: usize| {
        [0, 1, 2].map(|level| {
            let seeds = || shown.iter().skip(load).step_by(LOADS.len());
            let trials = || seeds().filter_map(|shown| shown.trials[level]);
            Figures {
                served: trials().count() as f64 / seeds().count() as f64,
                items: mean(trials().map(|trial| both(trial.items))),
                time: shown[load].times[level].map(both),
            }
        })
    };
    (0..LOADS.len()).map(of_load).collect()
}

fn part(figures: &[Vec<[Figures; 3]>], level: usize) -> Table {
    let least = |figures: &[[Figures; 3]], level: usize, of: fn(&Figures) -> Option<f64>| {
        figures.iter().filter_map(|figures| of(&figures[level])).reduce(f64::min)
    };
    let most = |figures: &[[Figures; 3]], of: fn(&Figures) -> Option<f64>| {
        figures.iter().filter_map(|figures| of(&figures[level])).reduce(f64::max)
    };
    let items = |figures: &Figures| figures.items;
    let time = |figures: &Figures| figures.time;
    let unit = |of| least(&figures[UNIT], 0, of);
    let rows = TABLE_V.iter().zip(figures).map(|((name, published), figures)| {
        let (low, high, successes) = published[level];
        let paper = |figure: f64| Some(figure / TABLE_V[UNIT].1[0].0);
        let ratio = |ours: Option<f64>, of| Some(ours? / unit(of)?);
        let served: f64 = figures.iter().map(|figures| figures[level].served).sum();
        let pairs = vec![
            Pair::new(paper(low), ratio(least(figures, level, items), items)).derived(),
            Pair::new(None, ratio(least(figures, level, time), time)),
            Pair::new(paper(high), ratio(most(figures, items), items)).derived(),
            Pair::new(None, ratio(most(figures, time), time)),
            Pair::new(successes, served),
        ];
        ((*name).to_owned(), pairs)
    });
    let columns = vec![
        Column::new("minimum", 1).near(COSTS),
        Column::new("minimum ns", 1),
        Column::new("maximum", 1).near(COSTS),
        Column::new("maximum ns", 1),
        Column::new("successes", 1).within(2.0),
    ];
    let mut notes = Vec::new();
    if level == 0 {
        notes.push(
            "1 is IV-1's minimum at 50 %; successes of 18 loads, on average over the seeds".into(),
        );
    }
    Table {
        number: ["V, 50 %", "V, 66.7 %", "V, 80 %"][level],
        title: format!(
            "seven algorithms on 18 loads, peak demand {} of memory",
            LEVEL_NAMES[level]
        ),
        columns,
        rows: rows.collect(),
        notes,
        ..Table::default()
    }
}

fn table_vi(figures: &[Vec<[Figures; 3]>]) -> Table {
    /// Returns the median over the loads served in most samples, if these are more than half of the
    /// loads.
    fn typical(
        figures: &[[Figures; 3]],
        level: usize,
        of: fn(&Figures) -> Option<f64>,
    ) -> Option<f64> {
        let served = figures.iter().filter(|figures| figures[level].served > 0.5);
        let costs: Vec<f64> = served.filter_map(|figures| of(&figures[level])).collect();
        if 2 * costs.len() > figures.len() { median(costs) } else { None }
    }
    let rows = TABLE_V.iter().zip(TABLE_VI).zip(figures).map(|(((name, _), published), ours)| {
        let pairs = (0..LEVELS.len()).flat_map(|level| {
            let ratio = |of| Some(typical(ours, level, of)? / typical(&figures[UNIT], level, of)?);
            [
                Pair::new(published[level], ratio(|figures: &Figures| figures.items)),
                Pair::new(None, ratio(|figures: &Figures| figures.time)),
            ]
        });
        ((*name).to_owned(), pairs.collect())
    });
    let names = ["50 %", "50 % ns", "66.7 %", "66.7 % ns", "80 %", "80 % ns"];
    Table {
        number: "VI",
        title: "medians over 18 loads, relative to IV-1".into(),
        columns: names.map(|name| Column::new(name, 1).near(COSTS)).into(),
        rows: rows.collect(),
        notes: vec!["a dash: half of the loads or more were not served".into()],
        ..Table::default()
    }
}
