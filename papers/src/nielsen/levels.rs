//! The share of memory that a load uses.

/// The maximum share of its memory that a load uses.
pub(super) const LEVELS: [f64; 3] = [0.5, 2.0 / 3.0, 0.8];

/// Names of those shares in tables.
pub(super) const LEVEL_NAMES: [&str; 3] = ["50 %", "66.7 %", "80 %"];
