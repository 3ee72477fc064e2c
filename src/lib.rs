//! Memory allocation strategies that choose their pages well.
//!
//! Five papers of 1977 to 2024 describe strategies that today's allocators forgot or only half
//! re-invented. This crate builds them for real. The first of them, and the name of the crate, is
//! Brent's (1984): serve small blocks from pages of equal blocks, keep the bookkeeping out of the
//! pages, and choose the page the next blocks come from so that few pages are touched.
//!
//! # Use
//! An [`Arena`] is a strategy behind a lock: usable as `#[global_allocator]`, for
//! collections, or directly, over a fixed [`Region`] in a program without `std`, or
//! address space [`Reserved`] from the operating system. A [`Strategy`] over a
//! [`Source`] can also be used as it is, through `&mut`.
//!
//! ```
//! use core::alloc::Layout;
//! use pagewise::Strategy;
//! use pagewise::catalogue::LeastFree;
//! use pagewise::paged::Config;
//! use pagewise::source::Reserved;
//!
//! // LEAST-FREE over at most 1 GiB of address space, of which only what is touched takes memory.
//! let mut heap = LeastFree::new(Config::new(), Reserved::new(1 << 30), ());
//!
//! let layout = Layout::new::<[u64; 5]>();
//! let block = heap.allocate(layout)?;
//! assert!(block.len() >= 40);
//! // SAFETY: the block was allocated for this layout and is freed once.
//! unsafe { heap.deallocate(block.cast(), layout) };
//!
//! // Every heap can be walked, and can prove that it is intact.
//! heap.walk(&mut |span| println!("{:#x} {:>8} {:?}", span.start, span.len, span.kind));
//! assert_eq!(heap.audit(), Ok(()));
//! # Ok::<(), pagewise::AllocError>(())
//! ```
//!
//! Which strategy suits a program is a question to measure: record what the program allocates and
//! compare, with the `pagewise` workbench (package `pagewise-lab`) or through [`trace`]. The
//! [`catalogue`] has every strategy, as a type and by name.
//!
//! # The modules, in dependency order
//! A module uses only those above it.
//!
//! | module | what |
//! |---|---|
//! | `error` | [`AllocError`], [`Freed`], [`Fault`] |
//! | `sealed` | what keeps policy traits to this crate |
//! | `strategy` | the contract of every strategy: [`Strategy`], [`Usage`] |
//! | [`meter`] | items visited, addresses looked at: nothing when not asked for |
//! | `os` | the operating system: one contract, one file for each |
//! | [`source`] | where memory comes from |
//! | [`walk`] | a heap as spans in address order, and what must hold of them |
//! | [`sizemap`] | size classes, four ways, one of them optimal |
//! | `block` | the mechanisms: boundary tags, tables in dedicated memory, bits, pools |
//! | [`first_fit`] | FIRST-FIT in O(log n), and the heap below the pages |
//! | [`fit`] | first, next, best, worst and lazy fits over a heap with boundary tags |
//! | [`head_first`] | best fit with space-fitting, the unallocated region at the head |
//! | [`hybrid`] | Hasan & Chang's tunable hybrid |
//! | [`kingsley`] | Kingsley's powers of two |
//! | [`paged`] | Brent's strategies |
//! | [`page_heap`] | PAGEWISE, the default: small blocks in pages, the rest in a heap with tags |
//! | [`buddy`] | binary buddies |
//! | [`nielsen`] | the 35 list algorithms of Nielsen, as compositions of policies |
//! | [`catalogue`] | every strategy as a type, and (`std`, Unix) by name |
//! | [`arena`] | a strategy behind a lock: for collections, or as `#[global_allocator]` |
//! | [`global`] | the multi-threaded global allocator (feature `std`) |
//!
//! [`trace`] (feature `trace`) is a package of its own, `pagewise-trace`: traces of real programs, and
//! recording them. It uses nothing of this one.
//!
//! # Features
//! - `std` (default): [`global`], [`source::Reserved`], [`catalogue::find`], [`sizemap::optimise`].
//!   Without it the crate is `no_std`, depends on `bitflags` alone and needs no allocator.
//! - `strategies`: the strategies of the papers. Without it there is what [`global`] and the default
//!   [`Arena`] need, which compiles in a few seconds.
//! - `allocator-api2`: collections in an [`Arena`], on stable Rust.
//! - `allocator_api`: the standard library's own collections in one; needs a nightly compiler.
//! - `lock_api`: any `lock_api::RawMutex` as an arena's lock.
//! - `trace`: [`trace`], from the package `pagewise-trace`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(feature = "allocator_api", feature(allocator_api))]
// The mechanisms serve all strategies; without the feature some of what they can do is not used.
#![cfg_attr(not(feature = "strategies"), allow(dead_code))]
// The module links above lead nowhere in a build without the feature they need.
#![cfg_attr(
    not(all(feature = "std", feature = "strategies", feature = "trace", unix)),
    allow(rustdoc::broken_intra_doc_links)
)]

pub mod arena;
mod block;
#[cfg(feature = "strategies")]
pub mod buddy;
#[cfg(feature = "strategies")]
pub mod catalogue;
mod error;
pub mod first_fit;
pub mod fit;
#[cfg(feature = "std")]
pub mod global;
#[cfg(feature = "strategies")]
pub mod head_first;
#[cfg(feature = "strategies")]
pub mod hybrid;
#[cfg(feature = "strategies")]
pub mod kingsley;
pub mod meter;
#[cfg(feature = "strategies")]
pub mod nielsen;
#[cfg(all(feature = "std", unix))]
mod os;
pub mod page_heap;
pub mod paged;
mod sealed;
pub mod sizemap;
pub mod source;
mod strategy;
pub mod walk;

pub use arena::Arena;
pub use error::{AllocError, Fault, Freed};
#[cfg(feature = "std")]
pub use global::Pagewise;
#[cfg(feature = "trace")]
pub use pagewise_trace as trace;
#[cfg(all(feature = "std", unix))]
pub use source::Reserved;
pub use source::{Region, Source};
pub use strategy::{Strategy, Usage};

/// The README's snippets are run with the documentation tests.
#[cfg(all(doctest, feature = "trace"))]
#[doc = include_str!("../README.md")]
struct Readme;
