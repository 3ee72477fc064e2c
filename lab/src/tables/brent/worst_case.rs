//! Theorem 6.1: how near adversaries bring each strategy to its bound.

use pagewise::catalogue;
use pagewise::paged::Config;
use pagewise::sizemap::SizeMap;
use rayon::prelude::*;

use super::{Made, Options};
use crate::brent::adversary::{self, Game, Step};
use crate::progress::Progress;
use crate::tables::plot::{self, Line};
use crate::tables::table::{Column, Pair, Table};

/// p, bytes.
const PAGE: usize = 4096;
/// n, bytes.
const LARGEST: [usize; 4] = [64, 256, 1024, 4096];
/// M, pages.
const BUDGETS: [usize; 2] = [16, 64];
/// Strategies, and the constant of their bound in M log₂ n.
const STRATEGIES: [(&str, f64); 4] =
    [("MOST-FREE", 1.8842), ("LEAST-FREE", 1.8842), ("MRU", 1.8842), ("FIRST-FIT", 1.0)];

/// Attacks to be made.
pub(super) const RUNS: u64 = (STRATEGIES.len() * LARGEST.len() * BUDGETS.len()) as u64;

/// A strategy, n and M.
#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: &'static str,
    constant: f64,
    largest: usize,
    budget: usize,
}

impl Case {
    /// S after an attack, bytes.
    fn storage(&self, attack: impl FnOnce(&mut Game<'_>)) -> anyhow::Result<usize> {
        let classes: Vec<u32> =
            adversary::classes(self.largest).into_iter().map(|class| class as u32).collect();
        let config = Config {
            page_size: PAGE,
            unit: 1,
            // A configuration lives as long as the program.
            sizemap: SizeMap::Classes(classes.leak()),
            freetol: 1,
            ffcrossover: self.largest,
            seed: 0,
        };
        let entry = catalogue::find(self.strategy)
            .ok_or_else(|| anyhow::anyhow!("no strategy {}", self.strategy))?;
        let mut strategy = entry.build(config, 1 << 30)?;
        let mut game = Game::new(&mut *strategy, self.budget);
        attack(&mut game);
        Ok(game.storage())
    }

    /// S ÷ (M log₂ n).
    fn share(&self, storage: usize) -> f64 {
        storage as f64 / (self.budget as f64 * (self.largest as f64).log2())
    }

    /// What Robson's adversary, Knuth's and the search reach, and the bound for these n and M.
    fn attack(&self, options: Options) -> anyhow::Result<[f64; 4]> {
        let classes = adversary::classes(self.largest);
        let steps = if self.strategy == "FIRST-FIT" {
            adversary::doubling_steps(self.largest)
        } else {
            adversary::class_steps(&classes, PAGE)
        };
        let robson = self.storage(|game| adversary::robson(game, self.largest))?;
        let knuth = self.storage(|game| adversary::pins(game, &steps))?;
        let tries = if options.quick { 2 } else { 30 };
        let storage = |steps: &[Step]| {
            // A strategy that cannot be had was met above.
            self.storage(|game| adversary::pins(game, steps)).unwrap_or_default()
        };
        let found =
            adversary::search(steps.clone(), self.largest, PAGE, tries, options.seed, storage);
        let bound = if self.strategy == "FIRST-FIT" {
            self.constant
        } else {
            self.share(adversary::bound(&classes, self.budget, PAGE))
        };
        Ok([self.share(robson), self.share(knuth), self.share(found), bound])
    }
}

/// Table 6.1: not a table of the paper, but its theorem tried.
pub(super) fn table_6_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let budgets = if options.quick { &BUDGETS[..1] } else { &BUDGETS };
    let cases: Vec<Case> = STRATEGIES
        .iter()
        .flat_map(|&(strategy, constant)| {
            budgets.iter().flat_map(move |pages| {
                let budget = pages * PAGE;
                LARGEST.map(move |largest| Case { strategy, constant, largest, budget })
            })
        })
        .collect();
    let reached = cases
        .par_iter()
        .map(|case| {
            let reached = case.attack(options)?;
            progress.step(1, || format!("Theorem 6.1: {}", case.strategy));
            Ok(reached)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows = cases.iter().zip(&reached).map(|(case, &[robson, knuth, search, bound])| {
        let name =
            format!("{}, n = {}, M = {} KiB", case.strategy, case.largest, case.budget >> 10);
        let ours = |figure| Pair::new(None, figure);
        (name, vec![Pair::new(case.constant, bound), ours(robson), ours(knuth), ours(search)])
    });
    let column = |name| Column { name, decimals: 3 };
    let table = Table {
        number: "6.1",
        title: format!("Theorem 6.1: S ÷ (M log₂ n) under attack, pages of {PAGE} bytes"),
        columns: ["bound", "Robson", "Knuth", "search"].map(column).into(),
        rows: rows.collect(),
        notes: vec![
            "published: the constant of M log₂ n; our bound has the terms O(M + p log n) in it"
                .into(),
            "Robson, Knuth, search: what adversaries reach; see docs/brent.md".into(),
        ],
    };
    let svg = plot_6_1(&cases, &reached)?;
    Ok(Made { table, svg: Some(svg) })
}

/// The most that was reached, over log₂ n, for the largest M; the bounds pale.
fn plot_6_1(cases: &[Case], reached: &[[f64; 4]]) -> anyhow::Result<String> {
    let most = cases.iter().map(|case| case.budget).max().unwrap_or_default();
    let lines = STRATEGIES.iter().flat_map(|&(strategy, _)| {
        let line = |name: String, figure: fn(&[f64; 4]) -> f64, pale| {
            let here = cases.iter().zip(reached);
            let here = here.filter(|(case, _)| case.strategy == strategy && case.budget == most);
            let points =
                here.map(|(case, reached)| (f64::from(case.largest.ilog2()), figure(reached)));
            Line { name, points: points.collect(), pale }
        };
        let best = |reached: &[f64; 4]| reached[0].max(reached[1]).max(reached[2]);
        [line(strategy.to_owned(), best, false), line("its bound".to_owned(), |r| r[3], true)]
    });
    let lines: Vec<_> = lines.collect();
    plot::svg("How near adversaries come to the bound", "log₂ n", "S / (M log₂ n)", &lines)
}
