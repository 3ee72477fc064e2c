//! Theorem 6.1: how close adversaries bring each strategy to its bound.

use pagewise::catalogue;
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::options::{Made, Options};
use crate::experiments::brent::adversary::{self, Game, Step};
use crate::plot::{self, Line};
use crate::table::{Column, Near, Pair, Ranked, Table};

/// p, bytes.
const PAGE: usize = 4096;
/// n, bytes.
const LARGEST: [usize; 4] = [64, 256, 1024, 4096];
/// M, pages.
const BUDGETS: [usize; 2] = [16, 64];
/// Strategies, the bytes in a unit of size, and the constant of their bound in M log₂ n: Theorem
/// 6.1 for the first three, Robson (1977), Knuth; BEST-FIT's bound is M n (Robson 1977). BUDDY has
/// no blocks below 16 bytes; with units of 256, BEST-FIT's tags are negligible.
const STRATEGIES: [(&str, usize, Option<f64>); 6] = [
    ("MOST-FREE", 1, Some(1.8842)),
    ("LEAST-FREE", 1, Some(1.8842)),
    ("MRU", 1, Some(1.8842)),
    ("FIRST-FIT", 1, Some(1.0)),
    ("BUDDY", 16, Some(2.0)),
    ("BEST-FIT", 256, None),
];

/// Bytes of a unit of BEST-FIT's heap, and of its header.
const TAGGED: usize = 16;
const TAG: usize = 4;
/// Maximum memory for an attack, bytes.
const MOST_MEMORY: usize = 1 << 30;

/// Number of attacks.
pub(super) const RUNS: u64 = (STRATEGIES.len() * LARGEST.len() * BUDGETS.len()) as u64;

/// A strategy, n and M.
#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: &'static str,
    unit: usize,
    constant: Option<f64>,
    /// n and M, units.
    largest: usize,
    budget: usize,
}

impl Case {
    /// S after an attack, units.
    fn storage(&self, attack: impl FnOnce(&mut Game<'_>)) -> anyhow::Result<usize> {
        let classes: Vec<u32> =
            adversary::classes(self.largest).into_iter().map(|class| class as u32).collect();
        // A configuration needs a static list.
        let classes = SizeMap::Classes(classes.leak());
        let config =
            Config::new().page_size(PAGE).unit(1).sizemap(classes).ffcrossover(self.largest);
        // Only the paged strategies have classes; the others round to their unit.
        let config = if self.in_pages() {
            config
        } else {
            Config::with_page_size(PAGE).unit(self.unit.min(16))
        };
        let entry = catalogue::find(self.strategy)
            .ok_or_else(|| anyhow::anyhow!("no strategy {}", self.strategy))?;
        let mut strategy = entry.build(config, 1 << 34)?;
        let mut game = Game::new(&mut *strategy, self.unit, self.budget);
        attack(&mut game);
        Ok(game.storage())
    }

    /// S ÷ (M log₂ n).
    fn share(&self, storage: usize) -> f64 {
        storage as f64 / (self.budget as f64 * (self.largest as f64).log2())
    }

    /// Returns whether Theorem 6.1 covers the strategy.
    fn in_pages(&self) -> bool {
        self.constant == STRATEGIES[0].2
    }

    /// Returns the bound of S, as a share, for these n and M.
    fn bound(&self, classes: &[usize]) -> f64 {
        match self.constant {
            Some(_) if self.in_pages() => self.share(adversary::bound(classes, self.budget, PAGE)),
            Some(constant) => constant,
            None => self.largest as f64 / (self.largest as f64).log2(),
        }
    }

    /// Returns the storage that the adversary for BEST-FIT forces, in units of the heap, headers
    /// included. `None` for other strategies, or if it would need more than [`MOST_MEMORY`].
    fn attack_best_fit(&self) -> anyhow::Result<Option<f64>> {
        let needed = self.budget * self.largest * TAGGED / 2;
        if self.constant.is_some() || needed > MOST_MEMORY {
            return Ok(None);
        }
        let entry = catalogue::find(self.strategy)
            .ok_or_else(|| anyhow::anyhow!("no strategy {}", self.strategy))?;
        let config = Config::with_page_size(PAGE);
        let mut strategy = entry.build(config, 1 << 34)?;
        let mut game = Game::new(&mut *strategy, TAGGED, self.budget).with_headers(TAG);
        adversary::against_best_fit(&mut game, self.largest);
        Ok(Some(self.share(game.storage())))
    }

    /// Returns the storage that Robson's adversary, Knuth's and the search force, and the bound for
    /// these n and M.
    fn attack(&self, options: Options) -> anyhow::Result<[f64; 4]> {
        let classes = adversary::classes(self.largest);
        let steps = match self.strategy {
            "BUDDY" => adversary::against_buddies(self.largest),
            _ if self.in_pages() => adversary::against_classes(&classes, PAGE),
            _ => adversary::against_first_fit(self.largest),
        };
        let robson = self.storage(|game| adversary::robson(game, self.largest))?;
        let knuth = self.storage(|game| adversary::pins(game, &steps))?;
        let tries = if options.quick { 2 } else { 30 };
        let storage = |steps: &[Step]| {
            // A strategy that cannot be built was reported above.
            self.storage(|game| adversary::pins(game, steps)).unwrap_or_default()
        };
        let found =
            adversary::search(steps.clone(), self.largest, PAGE, tries, options.seed, storage);
        let bound = self.bound(&classes);
        Ok([self.share(robson), self.share(knuth), self.share(found), bound])
    }
}

/// Table 6.1: not a table of the paper, but a test of its theorem.
pub(super) fn table_6_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let budgets = if options.quick { &BUDGETS[..1] } else { &BUDGETS };
    let cases: Vec<Case> = STRATEGIES
        .iter()
        .flat_map(|&(strategy, unit, constant)| {
            budgets.iter().flat_map(move |pages| {
                let budget = pages * PAGE;
                let case = move |largest| Case { strategy, unit, constant, largest, budget };
                LARGEST.map(case)
            })
        })
        .collect();
    let reached = cases
        .par_iter()
        .map(|case| {
            let reached = (case.attack(options)?, case.attack_best_fit()?);
            progress.step(1, || format!("Theorem 6.1: {}", case.strategy));
            Ok(reached)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows = cases.iter().zip(&reached).map(|(case, &([robson, knuth, search, bound], made))| {
        let name = format!("{}, n = {}, M = {} Ki", case.strategy, case.largest, case.budget >> 10);
        let ours = |figure| Pair::new(None, figure);
        let made = Pair::new(None, made);
        (name, vec![Pair::new(case.constant, bound), ours(robson), ours(knuth), ours(search), made])
    });
    let table = Table {
        number: "6.1",
        title: format!("Theorem 6.1: S ÷ (M log₂ n) under attack, pages of {PAGE} bytes"),
        columns: ["bound", "Robson", "Knuth", "search", "made for it"]
            .map(|name| Column::new(name, 3).near(Near::Uncounted))
            .into(),
        rows: rows.collect(),
        notes: vec![
            "published: the constant of M log₂ n; our bound includes the terms O(M + p log n)"
                .into(),
            "sizes in bytes; for BUDDY in units of 16, for BEST-FIT, whose bound is M n, of 256"
                .into(),
            "Robson, Knuth, search: adversaries, see docs/brent.md".into(),
            "made for it: against BEST-FIT, in units of 16 bytes with their headers, where S stays below 1 GiB; M n ÷ e is expected".into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    };
    let svg = plot_6_1(&cases, &reached)?;
    Ok(Made { table, svg: Some(svg) })
}

/// The storage that the adversaries reached, with the bound, and that of the adversary for
/// BEST-FIT.
type Reached = ([f64; 4], Option<f64>);

/// Plots the maximum reached, over log₂ n, for the largest M; bounds are drawn pale.
fn plot_6_1(cases: &[Case], reached: &[Reached]) -> anyhow::Result<String> {
    let most = cases.iter().map(|case| case.budget).max().unwrap_or_default();
    let lines = STRATEGIES.iter().flat_map(|&(strategy, ..)| {
        let line = |name: String, figure: fn(&Reached) -> f64, pale| {
            let here = cases.iter().zip(reached);
            let here = here.filter(|(case, _)| case.strategy == strategy && case.budget == most);
            let points =
                here.map(|(case, reached)| (f64::from(case.largest.ilog2()), figure(reached)));
            Line { name, points: points.collect(), pale }
        };
        let best = |(of_all, made): &Reached| {
            of_all[0].max(of_all[1]).max(of_all[2]).max(made.unwrap_or_default())
        };
        [line(strategy.to_owned(), best, false), line("its bound".to_owned(), |r| r.0[3], true)]
    });
    let lines: Vec<_> = lines.collect();
    plot::svg("How near adversaries come to the bound", "log₂ n", "S / (M log₂ n)", &lines)
}
