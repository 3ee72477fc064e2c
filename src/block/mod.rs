//! The mechanisms strategies are made of.

mod append;
#[cfg(test)]
pub(crate) mod attack;
mod audit;
pub(crate) mod bits;
pub(crate) mod pools;
pub(crate) mod table;
pub(crate) mod tag;
mod words;
