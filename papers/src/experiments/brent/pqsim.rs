//! PQSIM (Brent §3.2): a discrete simulation whose events are nodes of a leftist tree.
//!
//! The paper says: inter-arrival times and lifetimes are exponential, "for more details, see the
//! description of the CAMBRIDG distribution" (§7.1), there are about 200 arrivals a second and
//! 2,400 events in the queue at equilibrium; 2,000 seconds are simulated and faults are counted in
//! the last 1,000. Three of its figures say more:
//! - CAMBRIDG has 196 arrivals a second; NOFREE's 31,360 pages of 25 blocks are 784,000 blocks,
//!   exactly two for each arrival in 2,000 seconds. So an arrival enters two events, evidently its
//!   block's departure and the next arrival of its size.
//! - 2,347 blocks are live, so the rest of the 2,400 events are waiting arrivals, one for each
//!   size: 53 sizes.
//! - RANDOM's faults and QUICK's virtual size, to which the two parameters of [`FITTED`] are
//!   fitted.
//!
//! The paper does not say how requests are distributed over the sizes, except that their mean is 98
//! bytes (Table 7.1) and that all are multiples of 8. 53 sizes in equal demand would have a mean of
//! at least 216 bytes, so demand decreases with the size. We take the least biased distribution
//! with that mean, as for Table 7.2 ([`fall_off`]): among all sets of 53 sizes, the smallest ones,
//! 8 to 424 bytes, give maximum entropy, and demand decreases exponentially. The time that arrivals
//! wait in the queue follows from it.
//!
//! The paper does not say how lifetimes are distributed either; CAMBRIDG mixes sizes of very
//! different lifetimes. We take two kinds of blocks, short-lived and long-lived ([`Lifetimes`]).

use pagewise::Strategy;
use pagewise_replay::generator::fall_off;
use pagewise_replay::paging::Paging;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use super::leftist::{Leftist, NODE};
use super::memory::Memory;

/// Seconds simulated.
pub(crate) const SECONDS: f64 = 2000.0;
/// Seconds before faults are counted.
pub(crate) const WARM: f64 = 1000.0;
/// Bytes of a page; c = 25.
pub(crate) const PAGE: usize = 512;

/// Total arrivals per second: CAMBRIDG's (Table 7.1).
const RATE: f64 = 196.0;
/// Blocks live: CAMBRIDG's (Table 7.1).
const LIVE: f64 = 2347.0;
/// Mean size of a request, bytes: CAMBRIDG's (Table 7.1).
const MEAN_SIZE: f64 = 98.0;
/// Number of sizes, hence of waiting arrivals.
const SIZES: u32 = 53;
/// The key of a departure; an arrival's key is its size.
const DEPARTURE: u32 = SIZES;

/// Lifetimes: a mixture of two exponential distributions, whose mean is CAMBRIDG's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    /// Mean of the short ones, seconds.
    pub(crate) short: f64,
    /// Mean of the long ones, seconds.
    pub(crate) long: f64,
}

/// Fitted to RANDOM's 794,000 faults and QUICK's 1,823 pages in Table 3.2, and to nothing else.
pub(crate) const FITTED: Lifetimes = Lifetimes { short: 0.073, long: 106.6 };

impl Lifetimes {
    /// Returns the share of the long ones.
    fn long_share(&self) -> f64 {
        (LIVE / RATE - self.short) / (self.long - self.short)
    }
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) lifetimes: Lifetimes,
    /// Arrivals during the warm-up, relative to those after it: 1, and 2 in Table 3.3.
    pub(crate) initial: f64,
    /// Simulated time relative to the paper's: 1, or less for a quick look.
    pub(crate) scale: f64,
    pub(crate) seed: u64,
    /// Distinguishes runs with the same seed.
    pub(crate) number: u64,
}

/// Runs PQSIM over a strategy. Returns the virtual size in pages, and the paging with its counts of
/// the second half.
///
/// # Errors
/// If the strategy runs out of memory.
pub(crate) fn run<P: Paging>(
    load: &Load,
    strategy: Box<dyn Strategy + '_>,
    paging: P,
) -> anyhow::Result<(u64, P)> {
    run_over(load, Memory::new(strategy, NODE, PAGE, paging))
}

/// Like [`run`], with nodes and pages of these sizes.
///
/// # Errors
/// If memory runs out.
pub(crate) fn run_over<P: Paging>(
    load: &Load,
    mut memory: Memory<'_, P>,
) -> anyhow::Result<(u64, P)> {
    let mut queue = Leftist::default();
    let mut draw = Draw::new(load);
    for size in 0..SIZES {
        let first = draw.interval(size, 0.0);
        queue.insert(&mut memory, size, first as f32)?;
    }
    let mut counting = false;
    while let Some((key, time)) = queue.delete_min(&mut memory) {
        let now = f64::from(time);
        if now >= SECONDS * load.scale {
            break;
        }
        if !counting && now >= WARM * load.scale {
            counting = true;
            memory.paging().start_counting();
        }
        if key != DEPARTURE {
            let (departure, arrival) = (now + draw.lifetime(), now + draw.interval(key, now));
            queue.insert(&mut memory, DEPARTURE, departure as f32)?;
            queue.insert(&mut memory, key, arrival as f32)?;
        }
    }
    Ok((memory.virtual_size(), memory.into_paging()))
}

/// Draws the simulation's times; they do not depend on the strategy.
struct Draw<'l> {
    random: ChaCha8Rng,
    load: &'l Load,
    /// Arrivals of each size per second.
    rates: Vec<f64>,
}

impl<'l> Draw<'l> {
    fn new(load: &'l Load) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(load.seed);
        random.set_stream(load.number);
        let sizes: Vec<f64> = (1..=SIZES).map(|units| f64::from(8 * units)).collect();
        let shares = fall_off(&sizes, MEAN_SIZE);
        Self { random, load, rates: shares.into_iter().map(|share| share * RATE).collect() }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        let one: f64 = Exp1.sample(&mut self.random);
        mean * one
    }

    /// Returns the time from `now` to the next arrival of a size.
    fn interval(&mut self, size: u32, now: f64) -> f64 {
        let load = if now < WARM * self.load.scale { self.load.initial } else { 1.0 };
        let mean = 1.0 / (self.rates[size as usize] * load);
        self.exponential(mean)
    }

    fn lifetime(&mut self) -> f64 {
        let Lifetimes { short, long } = self.load.lifetimes;
        let is_long = self.random.random_bool(self.load.lifetimes.long_share());
        self.exponential(if is_long { long } else { short })
    }
}
