//! Synthetic distributions that match the statistics that Brent publishes of two systems.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use super::distribution::{Distribution, SizeClass};

impl Distribution {
    /// Returns the built-in distribution of this name, or the one in the CSV file of this name.
    ///
    /// # Errors
    /// File, line and reason.
    pub fn load(name: &str) -> anyhow::Result<Self> {
        if let Some((_, target, spread)) = BUILT_IN.iter().find(|(built_in, ..)| *built_in == name)
        {
            return Ok(target.synthesise(*spread));
        }
        let names: Vec<_> = BUILT_IN.iter().map(|(name, ..)| *name).collect();
        let unreadable = || format!("{name} (built in: {})", names.join(", "));
        let file = File::open(Path::new(name)).with_context(unreadable)?;
        Self::read(file).with_context(|| name.to_owned())
    }

    /// Returns the file that a name denotes; `None` for a built-in distribution.
    pub fn file(name: &str) -> Option<&Path> {
        let is_built_in = BUILT_IN.iter().any(|(built_in, ..)| *built_in == name);
        (!is_built_in).then_some(Path::new(name))
    }

    /// Returns the built-in distribution of this name with other standard deviations of the
    /// logarithms of each size's demand and lifetime; `None` if the name is unknown.
    pub fn with_spread(name: &str, spread: [f64; 2]) -> Option<Self> {
        let (_, target, _) = BUILT_IN.iter().find(|(built_in, ..)| *built_in == name)?;
        Some(target.synthesise(spread))
    }
}

/// Statistics that a synthetic distribution must match: those of Brent's Table 7.1. The fifth, the
/// mean lifetime, is blocks live ÷ requests per second.
struct Target {
    /// Requests per second.
    rate: f64,
    /// Blocks live.
    live: f64,
    /// Bytes live.
    live_bytes: f64,
    /// Mean size of a request, bytes.
    mean_size: f64,
}

const CAMBRIDG: Target =
    Target { rate: 196.0, live: 2347.0, live_bytes: 307_397.0, mean_size: 98.0 };
const YKTVMV: Target =
    Target { rate: 1033.0, live: 27_360.0, live_bytes: 3_226_427.0, mean_size: 129.0 };

/// Standard deviations of the logarithms of each size's demand and lifetime around the smooth
/// curves.
const SMOOTH: [f64; 2] = [0.0; 2];
/// The values that bring QUICK's two storage efficiencies in Brent's Table 7.3 (YKTVMV, full load)
/// closest to the published ones.
const SPREAD: [f64; 2] = [4.0, 5.0];

const BUILT_IN: [(&str, Target, [f64; 2]); 4] = [
    ("cambridg-like", CAMBRIDG, SMOOTH),
    ("yktvmv-like", YKTVMV, SMOOTH),
    ("cambridg-spread", CAMBRIDG, SPREAD),
    ("yktvmv-spread", YKTVMV, SPREAD),
];

impl Target {
    /// Returns, among all distributions over the multiples of 8 from 8 to 4096 that match the
    /// statistics, the least biased: requests and live blocks each decrease exponentially with the
    /// size. With a spread, each size's demand and lifetime deviate from that by fixed random
    /// factors.
    fn synthesise(&self, [demand, lifetime]: [f64; 2]) -> Distribution {
        let sizes: Vec<f64> = (1..=512).map(|units| f64::from(units * 8)).collect();
        let mut random = ChaCha8Rng::seed_from_u64(1984);
        let mut factors = |deviation: f64| -> Vec<f64> {
            let normal = StandardNormal.sample_iter(&mut random);
            normal.take(sizes.len()).map(|normal: f64| (deviation * normal).exp()).collect()
        };
        let (demand, lifetime) = (factors(demand), factors(lifetime));
        let requests = tilted(&sizes, &demand, self.mean_size);
        let smooth = self.live_bytes / self.live;
        let live: Vec<f64> = if lifetime.iter().chain(&demand).all(|&factor| factor == 1.0) {
            fall_off(&sizes, smooth)
        } else {
            let held: Vec<f64> = requests
                .iter()
                .zip(lifetime)
                .map(|(request, lifetime)| request * lifetime)
                .collect();
            tilted(&sizes, &held, smooth)
        };
        let classes = sizes.iter().zip(requests).zip(live).map(|((&size, request), live)| {
            SizeClass { size: size as u64, rate: self.rate * request, live: self.live * live }
        });
        Distribution { classes: classes.collect() }
    }
}

/// Returns shares of the sizes, ∝ e^(−λ·size), with λ such that the mean size is `mean`.
pub fn fall_off(sizes: &[f64], mean: f64) -> Vec<f64> {
    tilted(sizes, &vec![1.0; sizes.len()], mean)
}

/// Returns shares of the sizes, ∝ weight · e^(−λ·size), with λ such that the mean size is `mean`.
fn tilted(sizes: &[f64], weights: &[f64], mean: f64) -> Vec<f64> {
    let shares = |lambda: f64| {
        let weights = sizes.iter().zip(weights);
        let weights: Vec<f64> =
            weights.map(|(size, weight)| weight * (-lambda * size).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect::<Vec<_>>()
    };
    let mean_of =
        |shares: &[f64]| sizes.iter().zip(shares).map(|(size, share)| size * share).sum::<f64>();
    // The mean decreases as λ grows. λ may be negative if the weights decrease themselves. After 60
    // bisections the interval is negligible.
    let even = weights.iter().all(|&weight| weight == 1.0);
    let (mut low, mut high) = (if even { 0.0 } else { -0.05 }, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean_of(&shares(middle)) > mean { low = middle } else { high = middle }
    }
    shares(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_distributions_match_table_7_1() {
        for (name, target, spread) in BUILT_IN {
            let classes = target.synthesise(spread).classes;
            let sum = |value: fn(&SizeClass) -> f64| classes.iter().map(value).sum::<f64>();
            let near = |found: f64, wanted: f64| {
                assert!((found / wanted - 1.0).abs() < 1e-6, "{name}: {found} {wanted}");
            };
            near(sum(|class| class.rate), target.rate);
            near(sum(|class| class.live), target.live);
            near(sum(|class| class.live * class.size as f64), target.live_bytes);
            near(sum(|class| class.rate * class.size as f64) / target.rate, target.mean_size);
        }
    }
}
