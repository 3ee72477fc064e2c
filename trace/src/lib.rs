//! Traces of allocations: a program's requests to its allocator, in order.
//!
//! ```text
//!  program under the recorder ─► raw log ─► Converter ─┐
//!  program with Recording<A>  ─► raw log ─► Converter ─┼─► Event… ─► Writer ─► file.pwt
//!  importer, generator ────────────────────────────────┘                          │
//!                      replay, statistics, comparison  ◄─ Event… ◄─ Reader ◄──────┘
//! ```
//! * [`Event`]: the model. Blocks are named by *slots*, small numbers reused by a fixed rule
//!   ([`Slots`]), so that a replay needs a table for the peak number of live blocks.
//! * [`Writer`], [`Reader`]: the compact file format, `.pwt`. Both stream, and both check every
//!   event against the same [`Ledger`], so that a written file can be read, and a file that can be
//!   read can be replayed without further checks.
//! * [`raw`]: the logs that a recorder writes while the program runs, and their conversion to
//!   events.
//! * [`Recording`]: records a Rust program from inside, as a wrapper of its global allocator.
//!
//! Package `pagewise` re-exports this crate as `pagewise::trace` with its feature `trace`; nothing
//! here depends on an allocator of ours.
//!
//! The format is described byte by byte in `docs/trace-format.md`; each of its layers is one module
//! here: [`header`](Header), `frame`, `codec`, `varint`.

mod codec;
mod error;
mod event;
mod frame;
mod hash;
mod header;
mod ledger;
pub mod raw;
mod read;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod recording;
mod sites;
mod slots;
pub mod stacks;
mod times;
mod varint;
mod write;

pub use error::{Invalid, ReadError, Reason, WriteError};
pub use event::Event;
pub use header::{Header, Origin};
pub use ledger::{Counts, Ledger};
pub use read::{Reader, open};
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use recording::Recording;
pub use slots::Slots;
pub use stacks::Stacks;
pub use times::{Sample, Times};
pub use write::Writer;

/// The README's snippet, as a documentation test.
#[cfg(all(doctest, target_os = "linux", target_has_atomic = "64"))]
#[doc = include_str!("../README.md")]
struct Readme;
