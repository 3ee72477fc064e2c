//! Memory allocators that choose their pages well: a global allocator, arenas, and the strategies of
//! five papers to make more of.
//!
//! # As the global allocator
//! ```
//! use pagewise::Pagewise;
//!
//! #[global_allocator]
//! static ALLOCATOR: Pagewise = Pagewise::new();
//! # fn main() { drop(vec![1, 2, 3]); }
//! ```
//! Each thread has bounded lists of free blocks, in front of heaps that all threads share. Small blocks
//! lie in pages of equal blocks, whose bookkeeping lies elsewhere (Brent 1984). Memory goes back to the
//! system by itself. [`global`] tells how it works, [`Tuning`](global::Tuning) what can be set.
//!
//! # As an arena
//! An [`Arena`] is a strategy behind a lock, over memory that you give it: here 64 KiB, with `std` or
//! without.
//! ```
//! use core::alloc::Layout;
//! use pagewise::{Arena, Freed, Region};
//!
//! static mut MEMORY: [u8; 1 << 16] = [0; 1 << 16];
//! // SAFETY: nobody else uses the memory.
//! let arena: Arena = Arena::fixed(unsafe { Region::new((&raw mut MEMORY).cast(), 1 << 16) });
//!
//! let layout = Layout::new::<[u64; 5]>();
//! let block = arena.allocate(layout)?.cast::<u8>();
//! assert_eq!(arena.usage().requested, 40);
//! assert_eq!(arena.audit(), Ok(()));
//!
//! // A checked free refuses what is not a block in use, and changes nothing.
//! // SAFETY: nobody uses the block any more.
//! unsafe {
//!     assert_eq!(arena.try_free(block, layout), Freed::Freed);
//!     assert_eq!(arena.try_free(block, layout), Freed::Unallocated);
//! }
//! # Ok::<(), pagewise::AllocError>(())
//! ```
//!
//! # Which one do I want?
//! | you want | take |
//! |---|---|
//! | an allocator for a whole program | [`Pagewise`] |
//! | a heap in a fixed piece of memory, without an operating system or with one | [`Arena::fixed`] |
//! | a heap of 4 KiB to 1 MiB on a small machine | [`StaticArena`], [`SmallArena`] |
//! | a heap for a part of a program, with a limit and statistics of its own | [`Arena::growing`] |
//! | collections in an arena | `&Arena`, with the feature `allocator-api2` |
//! | one heap over several pieces of memory | an arena of [`Claims`](arena::Claims) |
//! | no lock, or one of your own | a [`Strategy`] through `&mut`, over a [`Source`]; [`PageHeap`] is the default one |
//! | bookkeeping out of the reach of stray writes | with the feature `strategies`: [`LeastFree`](catalogue::LeastFree), [`FirstFit`](catalogue::FirstFit) |
//! | few pages touched, or little memory held | [`Mru`](catalogue::Mru), [`BestFit`](catalogue::BestFit) |
//! | bumped allocation, or frees that wait for a collection | [`LazyFirstFit`](catalogue::LazyFirstFit), [`CollectedFirstFit`](catalogue::CollectedFirstFit) |
//! | several owners in one heap | [`HeadFirst`](catalogue::HeadFirst) |
//! | the best for a program that you can record | what `pagewise tune` of the workbench (package `pagewise-lab`) measures |
//!
//! A strategy by itself (feature `strategies`):
//! ```
//! use core::alloc::Layout;
//! use pagewise::catalogue::LeastFree;
//! use pagewise::pages::Config;
//! use pagewise::{Reserved, Strategy};
//!
//! // LEAST-FREE over at most 1 GiB of address space. Only what is touched takes memory.
//! let mut heap = LeastFree::new(Config::new(), Reserved::new(1 << 30), ());
//! let block = heap.allocate(Layout::new::<u32>())?;
//!
//! // Every heap can be walked.
//! heap.walk(&mut |span| println!("{:#x} {:>8} {:?}", span.start, span.len, span.kind));
//! # Ok::<(), pagewise::AllocError>(())
//! ```
//!
//! # Platforms
//! | | |
//! |---|---|
//! | [`Pagewise`] | Linux, glibc and musl; Windows; macOS and FreeBSD, where it was never run; wasm32, as one heap; elsewhere it passes everything on to the system's allocator |
//! | [`Reserved`], growing arenas | Linux and other Unixes, Windows, wasm32, with `std` |
//! | all else | anywhere, without `std`; pointers of 32 and 64 bits |
//!
//! Rust 1.88 or later, stable. The repository's `docs/platforms.md` says what is checked where.
//!
//! # Features
//! - `std` (default): [`Pagewise`], [`Reserved`], [`sizemap::optimise`]. Without it the crate is `no_std`,
//!   depends on `bitflags` alone and needs no allocator.
//! - `strategies`: the strategies of the papers, and the [`catalogue`] of them, by type and by name.
//! - `allocator-api2`: collections in an [`Arena`], on stable Rust.
//! - `allocator_api`: the standard library's own collections in one; needs a nightly compiler.
//! - `critical-section`: a lock for arenas by the crate of this name, for firmware with interrupts.
//! - `lock_api`: any `lock_api::RawMutex` as an arena's lock.
//! - `profiler`: the sampling [heap profiler](global::Profiler) of [`Pagewise`], on Linux; costs nothing until it is started.
//! - `trace`: [`trace`], the package `pagewise-trace`: traces of real programs, and recording them.
//! - `initial-exec`: for a shared library that has the global allocator and is loaded with the program:
//!   a quicker way to a thread's lists.
//!
//! # Safety
//! A safe function cannot be misused into undefined behaviour; what only the caller can know is asked for
//! by `unsafe`. A free is always `unsafe`, a checked one, too: whether a block in use is still needed, no
//! check can tell. A heap that runs out of memory answers with an error, and nothing changes. A broken
//! invariant, where one is noticed, stops the process with one line. The global allocator notices some
//! double frees and foreign pointers, and is not a hardened one: `SECURITY.md` in the repository says
//! what is promised.
//!
//! # The modules, in dependency order
//! A module uses only those above it.
//!
//! | module | what |
//! |---|---|
//! | `error` | [`AllocError`], [`Freed`], [`Fault`] |
//! | `strategy` | the contract of every strategy: [`Strategy`], [`Usage`] |
//! | [`meter`] | items visited, addresses looked at: nothing when not asked for |
//! | `os` | the operating system: one contract, one file for each |
//! | [`source`] | where memory comes from |
//! | [`walk`] | a heap as spans in address order, and what must hold of them |
//! | `tally` | what a heap has in use, counted |
//! | `engine` | [`Heap`]: the one implementation of [`Strategy`], around the engines below |
//! | [`sizemap`] | size classes, four ways, one of them optimal |
//! | [`small`] | the heap for small machines: bits in place of headers |
//! | `words` | plain words in dedicated memory: tables, pools, bits |
//! | `tags` | boundary tags: cells, headers and which of their flags are legal, their audit |
//! | [`segments`] | FIRST-FIT in O(log n), and the heap below Brent's pages |
//! | [`fit`] | first, next, best, worst and lazy fits over a heap with boundary tags |
//! | [`head_first`] | best fit with space-fitting, the unallocated region at the head |
//! | [`hybrid`] | Hasan & Chang's tunable hybrid |
//! | [`kingsley`] | Kingsley's powers of two |
//! | [`pages`] | the page engine: PAGEWISE, the default, and Brent's strategies |
//! | [`buddy`] | binary buddies |
//! | `nielsen` | Nielsen's list algorithms: two engines, and the policies they are composed of |
//! | [`catalogue`] | every strategy as a type, and (`std`) by name |
//! | [`arena`] | a strategy behind a lock: for collections, or as `#[global_allocator]` |
//! | [`global`] | the multi-threaded global allocator (feature `std`) |
//!
//! [`trace`] (feature `trace`) is a package of its own, `pagewise-trace`: traces of real programs, and
//! recording them. It uses nothing of this one.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(feature = "allocator_api", feature(allocator_api))]
// docs.rs says of each item what feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The mechanisms serve all strategies and the global allocator; without one of them some of what they can
// do is not used.
#![cfg_attr(
    any(
        pagewise_forwarding,
        not(all(
            feature = "std",
            feature = "strategies",
            any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows)
        ))
    ),
    allow(dead_code)
)]
// The module links above lead nowhere in a build without the feature they need.
#![cfg_attr(
    not(all(feature = "std", feature = "strategies", feature = "trace", unix)),
    allow(rustdoc::broken_intra_doc_links)
)]

pub mod arena;
#[cfg(feature = "strategies")]
pub mod buddy;
#[cfg(feature = "strategies")]
pub mod catalogue;
mod engine;
mod error;
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
mod nielsen;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod os;
pub mod pages;
#[cfg(feature = "strategies")]
pub mod segments;
pub mod sizemap;
pub mod small;
pub mod source;
mod strategy;
mod tags;
mod tally;
pub mod walk;
mod words;

pub use arena::{Arena, SmallArena, StaticArena};
pub use engine::Heap;
pub use error::{AllocError, Fault, Freed};
#[cfg(feature = "std")]
pub use global::Pagewise;
pub use pages::PageHeap;
#[cfg(feature = "trace")]
pub use pagewise_trace as trace;
pub use small::SmallHeap;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
pub use source::Reserved;
pub use source::{Region, Source};
pub use strategy::{Strategy, Usage};

/// The README's snippets are run with the documentation tests.
#[cfg(all(doctest, feature = "trace"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// And those on recording.
#[cfg(all(doctest, feature = "trace"))]
#[doc = include_str!("../docs/recording.md")]
struct Recording;

/// And those on heap profiles.
#[cfg(all(doctest, feature = "profiler", target_os = "linux"))]
#[doc = include_str!("../docs/profiler.md")]
struct HeapProfiler;
