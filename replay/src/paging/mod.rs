//! Simulated paging: how often a string of page references faults, for any amount of memory.
//!
//! A *reference string* is the sequence of pages a program refers to. A *working set* is how many
//! of them memory holds (Brent §3: "the maximum number of pages in random access memory at any one
//! time"). A reference to a page that memory does not hold is a *fault*, and the page takes the
//! place of another. Which one is the paging strategy:
//!
//! - [`Lru`]: the page referred to least recently (Brent §3, "strict least-recently-used"), for all
//!   working sets at once;
//! - [`Clock`]: the first page, going round, that was not referred to since the last time round;
//!   an approximation of LRU that operating systems can afford, for chosen working sets.
//!
//! Pages are numbers, an address divided by the page size; nothing here knows about addresses,
//! strategies of allocation or traces.

mod clock;
mod lru;
#[cfg(test)]
mod naive;
mod page_map;
mod recency;
mod strategy;

pub use clock::Clock;
pub use lru::Lru;
pub use strategy::Paging;
