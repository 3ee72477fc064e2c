//! Pages carved into equal blocks (Brent 1984): PAGEWISE, and the strategies of the paper.
//!
//! A request of at most FFCROSSOVER bytes is rounded up to a size class (SIZEMAP) and served from a
//! page of that class. Larger blocks, and the pages themselves, come from a heap below (§5.3).
//! There is one engine, and three choices turn it into a strategy:
//!
//! | | Brent's strategies, [`Paged`] | PAGEWISE, [`PageHeap`] |
//! |---|---|---|
//! | which page serves a request | a [`placement`] of the paper | [`Windowed`](placement::Windowed): LEAST-FREE, lazily and by quarters |
//! | the heap below | FIRST-FIT without tags, in O(log n) | a good fit with boundary tags, in O(1) |
//! | how a page is named | a header in a table, by number | a header with its bits, by address |
//!
//! The headers differ because the pages do. The paper's pages are as small as 512 bytes, where 24
//! bytes more for each header would be a twentieth of the memory. PAGEWISE's pages have 16 KiB and
//! more, and a header that holds all facts about its page saves a look at the class.
//!
//! Files, in the order they build on each other: `config` (parameters), `class` (SIZEMAP as an
//! array), `headers`, `below`, `store` (takes pages and gives them back), `engine` (with the trait
//! of placements), `inspect` (walk and audit); then the placements, `brent/` for the paper's
//! strategies and `page_heap/` for PAGEWISE.

mod below;
#[cfg(feature = "strategies")]
mod brent;
mod class;
mod config;
mod engine;
mod headers;
mod inspect;
mod page_heap;
pub mod placement;
mod store;

#[cfg(feature = "strategies")]
pub use self::brent::Paged;
pub use self::config::{Config, ConfigError};
#[cfg(all(
    feature = "os",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) use self::page_heap::FreeKind;
pub use self::page_heap::PageHeap;
