//! Simulated paging: how often a string of page references faults, for any amount of memory.
//!
//! A *reference string* is the sequence of pages that a program references. A *working set* is how
//! many of them memory holds (Brent §3: "the maximum number of pages in random access memory at any
//! one time"). A reference to a page that is not in memory is a *fault*, and the page replaces
//! another one, chosen by the paging strategy:
//!
//! - [`Lru`]: the least recently referenced page (Brent §3, "strict least-recently-used"), for all
//!   working sets at once;
//! - [`Clock`]: the next page, in cyclic order, that was not referenced since the last round; an
//!   approximation of LRU that operating systems can afford, for selected working sets.
//!
//! Pages are numbers, an address divided by the page size; nothing here depends on addresses,
//! allocation strategies or traces.

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
