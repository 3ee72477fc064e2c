//! How much of its memory a load asks for.

/// Shares of its memory that a load asks for at most.
pub(super) const LEVELS: [f64; 3] = [0.5, 2.0 / 3.0, 0.8];

/// Names of those shares in tables.
pub(super) const LEVEL_NAMES: [&str; 3] = ["50 %", "66.7 %", "80 %"];
