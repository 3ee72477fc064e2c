//! Theorem 6.1 of Brent (1984): with FREETOL 1 and size classes growing by the factor e, MOST-FREE,
//! LEAST-FREE and MRU need at most 1.8842 M log₂ n + O(M + p log n) bytes for M bytes in blocks of
//! at most n; FIRST-FIT about M log₂ n (Robson 1977) and BUDDY 2 M log₂ n (Knuth). Tested with
//! known adversaries and a random search.

#[path = "../papers/src/experiments/brent/adversary.rs"]
mod adversary;

use adversary::{Game, Step, classes};
use pagewise::Reserved;
use pagewise::Strategy;
use pagewise::buddy::Buddy;
use pagewise::catalogue::{BestFit, FirstFit, LeastFree, MostFree, Mru};
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use proptest::prelude::*;

const PAGE: usize = 1024;

/// §6.1's parameters for blocks of up to n bytes.
fn config(largest: usize) -> Config {
    let classes: Vec<u32> = classes(largest).into_iter().map(|class| class as u32).collect();
    // A configuration needs a static list.
    let classes = SizeMap::Classes(classes.leak());
    Config::new().page_size(PAGE).unit(1).sizemap(classes).ffcrossover(largest)
}

fn source() -> Reserved {
    Reserved::new(1 << 28)
}

fn paged(largest: usize) -> [Box<dyn Strategy>; 3] {
    let config = config(largest);
    [
        Box::new(MostFree::new(config, source(), ())),
        Box::new(LeastFree::new(config, source(), ())),
        Box::new(Mru::new(config, source(), ())),
    ]
}

fn first_fit() -> Box<dyn Strategy> {
    Box::new(FirstFit::new(1, 64, source(), ()))
}

fn storage(
    strategy: &mut dyn Strategy,
    budget: usize,
    attack: impl FnOnce(&mut Game<'_>),
) -> usize {
    let mut game = Game::new(strategy, 1, budget);
    attack(&mut game);
    game.storage()
}

/// M log₂ n, bytes.
fn scale(budget: usize, largest: usize) -> f64 {
    budget as f64 * (largest as f64).log2()
}

/// Runs one attack against every strategy, and checks the bound.
fn check(budget: usize, largest: usize, attack: impl Fn(&mut Game<'_>)) {
    let granted = adversary::bound(&classes(largest), budget, PAGE);
    for mut strategy in paged(largest) {
        let needed = storage(&mut *strategy, budget, &attack);
        assert!(needed <= granted, "{needed} bytes of {granted} for M = {budget}, n = {largest}");
        strategy.audit().expect("every invariant holds");
    }
    let needed = storage(&mut *first_fit(), budget, &attack) as f64;
    let granted = scale(budget, largest) + (2 * budget + PAGE) as f64;
    assert!(needed <= granted, "FIRST-FIT: {needed} bytes of {granted}");
    // Buddies have blocks of at least 16 bytes, so sizes are in units of those.
    let mut buddy = Buddy::new(16, 16 * PAGE, source(), ());
    let mut game = Game::new(&mut buddy, 16, budget);
    attack(&mut game);
    let (needed, granted) = (game.storage() as f64, 2.0 * granted);
    assert!(needed <= granted, "BUDDY: {needed} units of {granted}");
}

/// The constant that is checked is the theorem's; the constants of its O are small.
#[test]
fn the_bound_is_within_theorem_6_1() {
    for largest in [2, 16, 100, PAGE / 2, PAGE] {
        for budget in [4, 64, 1024].map(|pages| pages * PAGE) {
            let bound = adversary::bound(&classes(largest), budget, PAGE) as f64;
            let theorem = 1.8842 * scale(budget, largest);
            let rest = 6.0 * (budget as f64 + PAGE as f64 * (largest as f64).log2());
            assert!(bound <= theorem + rest, "M = {budget}, n = {largest}");
        }
    }
}

#[test]
fn known_adversaries_stay_below_the_bound() {
    for largest in [16, 128, PAGE] {
        for budget in [8, 40].map(|pages| pages * PAGE) {
            check(budget, largest, |game| adversary::robson(game, largest));
            let steps = adversary::against_classes(&classes(largest), PAGE);
            check(budget, largest, |game| adversary::pins(game, &steps));
            for steps in
                [adversary::against_first_fit(largest), adversary::against_buddies(largest)]
            {
                check(budget, largest, |game| adversary::pins(game, &steps));
            }
        }
    }
}

/// No strategy needs less than half of M log₂ n, up to lower terms (Robson 1974).
#[test]
fn robsons_adversary_forces_half_of_m_log_n() {
    let (budget, largest) = (64 * PAGE, 256);
    for mut strategy in paged(largest).into_iter().chain([first_fit()]) {
        let needed = storage(&mut *strategy, budget, |game| adversary::robson(game, largest));
        assert!(needed as f64 > 0.5 * scale(budget, largest), "{needed}");
    }
}

#[test]
fn a_search_stays_below_the_bound() {
    let (budget, largest) = (8 * PAGE, PAGE);
    let granted = adversary::bound(&classes(largest), budget, PAGE);
    let steps = adversary::against_classes(&classes(largest), PAGE);
    for which in 0..3 {
        let most = adversary::search(steps.clone(), largest, PAGE, 40, which as u64, |steps| {
            storage(&mut *paged(largest)[which], budget, |game| adversary::pins(game, steps))
        });
        assert!(most <= granted, "{most} bytes of {granted}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn random_steps_stay_below_the_bound(
        pages in 1_usize..12,
        steps in proptest::collection::vec((1..=PAGE, 1_u32..11), 1..8),
    ) {
        let steps: Vec<Step> =
            steps.iter().map(|&(size, log)| Step { size, stretch: 1 << log }).collect();
        let largest = steps.iter().map(|step| step.size).max().unwrap_or(1).max(2);
        check(pages * PAGE, largest, |game| adversary::pins(game, &steps));
    }
}

/// BEST-FIT's worst case is of the order of M n (Robson 1977): the adversary for it reaches M n/e.
#[test]
fn the_best_fit_adversary_reaches_its_share_of_m_n() {
    const UNIT: usize = 16;
    const HEADER: usize = 4;
    for (largest, budget) in [(32, 1 << 12), (64, 1 << 13)] {
        let mut heap = BestFit::new(UNIT, source(), ());
        let mut game = Game::new(&mut heap, UNIT, budget).with_headers(HEADER);
        adversary::against_best_fit(&mut game, largest);
        let share = game.storage() as f64 / (budget * largest) as f64;
        let expected = 1.0 / std::f64::consts::E;
        assert!((share - expected).abs() < 0.03, "n = {largest}: {share}");
    }
}
