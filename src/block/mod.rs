//! The mechanisms strategies are made of.

pub(crate) mod bits;
pub(crate) mod pools;
pub(crate) mod table;
pub(crate) mod tag;
