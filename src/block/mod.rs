//! The mechanisms strategies are made of.

mod audit;
pub(crate) mod bits;
pub(crate) mod pools;
pub(crate) mod table;
pub(crate) mod tag;
