//! Shared by the tables of §3: the strategies for equal blocks, named as in the paper's rows.

use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise::{Strategy, catalogue};

/// A strategy for blocks of one size, with its tolerance φ0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) strategy: &'static str,
    /// φ0, in blocks.
    pub(super) tolerance: usize,
}

impl Choice {
    pub(super) const fn new(strategy: &'static str) -> Self {
        Self { strategy, tolerance: 1 }
    }

    pub(super) const fn with_tolerance(strategy: &'static str, tolerance: usize) -> Self {
        Self { strategy, tolerance }
    }

    /// Returns the name as in the paper's rows.
    pub(super) fn name(&self) -> String {
        match self.tolerance {
            1 => self.strategy.to_owned(),
            tolerance => format!("{} (φ0 = {tolerance})", self.strategy),
        }
    }

    /// Returns the strategy for blocks of `block` bytes, a multiple of 4, in pages of `page` bytes.
    ///
    /// # Errors
    /// If the parameters are invalid.
    pub(super) fn build(
        &self,
        block: usize,
        page: usize,
        seed: u64,
    ) -> anyhow::Result<Box<dyn Strategy + Send>> {
        /// Bytes of address space; only touched pages take memory.
        const CAPACITY: usize = 1 << 30;
        let config = Config::new()
            .page_size(page)
            .unit(4)
            .sizemap(SizeMap::Linear)
            .freetol(self.tolerance * block)
            .ffcrossover(page)
            .seed(seed);
        let entry = catalogue::find(self.strategy)
            .ok_or_else(|| anyhow::anyhow!("no strategy {}", self.strategy))?;
        Ok(entry.build(config, CAPACITY)?)
    }
}
