//! A distribution of requests: for each size, how often it is requested and how many blocks are
//! live.

use std::collections::HashMap;

use anyhow::{Context, anyhow, bail, ensure};

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
    /// Returns whether a process can have these: time passes between two allocations, and none from
    /// an allocation back to before it. A rate of 0 is possible.
    pub fn is_possible(&self) -> bool {
        1.0 / self.rate > 0.0 && self.live >= 0.0
    }

    /// Returns the mean time that a block is held, in seconds (Little's law).
    pub fn holding(&self) -> f64 {
        self.live / self.rate
    }
}

/// The requests, by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The sizes.
    pub classes: Vec<SizeClass>,
}

const COLUMNS: [&str; 3] = ["size", "rate", "live"];

impl Distribution {
    /// Reads CSV with a header line; columns may be in any order, and unknown ones are ignored.
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
                anyhow!("line 1: no column '{name}'; expected the columns {}", COLUMNS.join(", "))
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
            // 64 GiB: the address space of a strategy.
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
    text.parse().map_err(|_| anyhow!("'{text}' is not a number in range"))
}

fn positive(record: &csv::StringRecord, column: usize) -> anyhow::Result<f64> {
    let number: f64 = parse(record, column)?;
    ensure!(number.is_finite() && number > 0.0, "{number} is not above 0");
    Ok(number)
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
            "line 1: no column 'live'; expected the columns size, rate, live"
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
}
