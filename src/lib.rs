//! # pagewise
#![cfg_attr(not(feature = "std"), no_std)]

mod block;
#[cfg(all(feature = "std", unix))]
pub mod catalogue;
pub mod first_fit;
pub mod meter;
pub mod paged;
pub mod sizemap;
pub mod source;
mod strategy;
pub mod walk;

#[cfg(feature = "trace")]
pub mod trace;

pub use strategy::{AllocError, Fault, Freed, Strategy, Usage};
