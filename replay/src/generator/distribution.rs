//! A distribution of requests: for each size, how often it is asked for and how many are live.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// The requests of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeClass {
    /// Bytes.
    pub size: u64,
    /// Allocations per second.
    pub rate: f64,
    /// Mean number of blocks live in the steady state.
    pub live: f64,
}

impl SizeClass {
    /// Mean time a block is held, in seconds (Little's law).
    pub fn holding(&self) -> f64 {
        self.live / self.rate
    }
}

/// What is asked for, by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The sizes.
    pub classes: Vec<SizeClass>,
}

const COLUMNS: [&str; 3] = ["size", "rate", "live"];

impl Distribution {
    /// The built-in distribution of this name, or the one in the CSV file of this name.
    ///
    /// # Errors
    /// File, line and reason.
    pub fn load(name: &str) -> anyhow::Result<Self> {
        if let Some((_, target, spread)) = BUILT_IN.iter().find(|(built_in, ..)| *built_in == name)
        {
            return Ok(target.synthesise(*spread));
        }
        let names: Vec<_> = BUILT_IN.iter().map(|(name, ..)| *name).collect();
        let unreadable = || format!("{name} (built in are {})", names.join(", "));
        let file = File::open(Path::new(name)).with_context(unreadable)?;
        Self::read(file).with_context(|| name.to_owned())
    }

    /// The built-in distribution of this name with other standard deviations of the logarithms of a size's
    /// demand and of its lifetime; none if there is no such.
    pub fn with_spread(name: &str, spread: [f64; 2]) -> Option<Self> {
        let (_, target, _) = BUILT_IN.iter().find(|(built_in, ..)| *built_in == name)?;
        Some(target.synthesise(spread))
    }

    /// Reads CSV with a header line; columns may stand in any order, and others are ignored.
    ///
    /// # Errors
    /// Line and reason.
    pub fn read(input: impl std::io::Read) -> anyhow::Result<Self> {
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(input);
        let headers = reader.headers()?.clone();
        let column = |name: &str| {
            let found = headers.iter().position(|header| header.eq_ignore_ascii_case(name));
            found.ok_or_else(|| {
                anyhow!("line 1: no column '{name}'; there must be {}", COLUMNS.join(", "))
            })
        };
        let [size, rate, live] = [column("size")?, column("rate")?, column("live")?];
        let mut classes = Vec::new();
        let mut lines = HashMap::new();
        for record in reader.records() {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            let class = SizeClass {
                size: parse(&record, size).with_context(|| format!("line {line}: size"))?,
                rate: positive(&record, rate).with_context(|| format!("line {line}: rate"))?,
                live: positive(&record, live).with_context(|| format!("line {line}: live"))?,
            };
            // 64 GiB: the address space a strategy gets.
            ensure!(class.size <= 1 << 36, "line {line}: size: {} is too large", class.size);
            if let Some(first) = lines.insert(class.size, line) {
                bail!("line {line}: size {} was given in line {first} already", class.size);
            }
            classes.push(class);
        }
        ensure!(!classes.is_empty(), "no sizes");
        Ok(Self { classes })
    }
}

fn parse<T: std::str::FromStr>(record: &csv::StringRecord, column: usize) -> anyhow::Result<T> {
    let text = record.get(column).unwrap_or_default();
    text.parse().map_err(|_| anyhow!("'{text}' is not a number that makes sense here"))
}

fn positive(record: &csv::StringRecord, column: usize) -> anyhow::Result<f64> {
    let number: f64 = parse(record, column)?;
    ensure!(number.is_finite() && number > 0.0, "{number} is not above 0");
    Ok(number)
}

/// Statistics a made-up distribution shall meet: those of Brent's Table 7.1. The fifth, the mean lifetime, is
/// blocks live ÷ requests per second.
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

/// Standard deviations of the logarithms of a size's demand and of its lifetime, about what falls off smoothly.
const SMOOTH: [f64; 2] = [0.0; 2];
/// Those that bring QUICK's two storage efficiencies in Brent's Table 7.3 (YKTVMV, full load) nearest to the
/// published ones.
const SPREAD: [f64; 2] = [4.0, 5.0];

const BUILT_IN: [(&str, Target, [f64; 2]); 4] = [
    ("cambridg-like", CAMBRIDG, SMOOTH),
    ("yktvmv-like", YKTVMV, SMOOTH),
    ("cambridg-spread", CAMBRIDG, SPREAD),
    ("yktvmv-spread", YKTVMV, SPREAD),
];

impl Target {
    /// Of all distributions over the multiples of 8 from 8 to 4096 that meet the statistics, the
    /// least biased: requests and live blocks each fall off exponentially with the size. With a spread, each
    /// size's demand and lifetime are some way off that, drawn at random once and for all.
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

/// Shares of the sizes, ∝ e^(−λ·size), with λ such that the mean size is `mean`.
pub fn fall_off(sizes: &[f64], mean: f64) -> Vec<f64> {
    tilted(sizes, &vec![1.0; sizes.len()], mean)
}

/// Shares of the sizes, ∝ weight · e^(−λ·size), with λ such that the mean size is `mean`.
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
    // The mean falls as λ grows, which may be below 0 for weights that fall off themselves; 60 halvings leave
    // nothing of the interval.
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

    fn read(text: &str) -> anyhow::Result<Distribution> {
        Distribution::read(text.as_bytes())
    }

    #[test]
    fn columns_may_stand_in_any_order() {
        let distribution = read("# ours\nlive, rate, size\n40, 2.5, 4096\n").unwrap();
        let class = SizeClass { size: 4096, rate: 2.5, live: 40.0 };
        assert_eq!(distribution.classes, [class]);
        assert_eq!(class.holding(), 16.0);
    }

    #[test]
    fn errors_name_line_and_reason() {
        let message = |text| format!("{:#}", read(text).unwrap_err());
        assert_eq!(
            message("size,rate\n"),
            "line 1: no column 'live'; there must be size, rate, live"
        );
        assert_eq!(message("size,rate,live\n"), "no sizes");
        assert_eq!(
            message("size,rate,live\n8,1,1\n8,1,1\n"),
            "line 3: size 8 was given in line 2 already"
        );
        assert!(message("size,rate,live\n8,x,1\n").starts_with("line 2: rate: 'x' is not"));
        assert!(message("size,rate,live\n8,1,0\n").starts_with("line 2: live: 0 is not above 0"));
        assert!(message("size,rate,live\n8,inf,1\n").contains("not above 0"));
        assert!(message("size,rate,live\n-8,1,1\n").starts_with("line 2: size: '-8'"));
        assert!(message("size,rate,live\n99999999999999,1,1\n").contains("too large"));
        assert!(message("size,rate,live\n8,1\n").contains("line: 2"));
    }

    #[test]
    fn the_built_in_ones_meet_table_7_1() {
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
