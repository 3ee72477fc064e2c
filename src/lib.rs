//! Memory allocators that choose with care which page a block comes from:
//!
//! - a [global allocator](#as-the-global-allocator) for a whole program, [`Pagewise`];
//! - [arenas](#as-an-arena) over memory of your own, with or without `std`: [`Arena`],
//!   [`StaticArena`];
//! - the [strategies](#which-one-do-i-want) of five papers, to use in an arena or to build on.
//!
//! The workbench in the same repository, a program named `pagewise`, records a program's
//! allocations and measures which of these, or of other allocators, suits it best.
//!
//! # As the global allocator
//! ```
//! use pagewise::Pagewise;
//!
//! #[global_allocator]
//! static ALLOCATOR: Pagewise = Pagewise::new();
//! # fn main() { drop(vec![1, 2, 3]); }
//! ```
//! Each thread has bounded lists of free blocks in front of heaps that all threads share. Small
//! blocks are in pages of blocks of one size, whose headers are stored elsewhere (Brent 1984). Free
//! memory goes back to the system by itself. [`global`] explains how it works, and
//! [`Tuning`](global::Tuning) lists the parameters.
//!
//! # As an arena
//! An [`Arena`] is a strategy behind a lock, over memory that you provide; here 64 KiB. It works
//! with or without `std`.
//! ```
//! use core::alloc::Layout;
//! use pagewise::{Arena, FreeResult, Region};
//!
//! static mut MEMORY: [u8; 1 << 16] = [0; 1 << 16];
//! // SAFETY: nothing else uses the memory.
//! let arena: Arena = Arena::fixed(unsafe { Region::new((&raw mut MEMORY).cast(), 1 << 16) });
//!
//! let layout = Layout::new::<[u64; 5]>();
//! let block = arena.allocate(layout)?.cast::<u8>();
//! assert_eq!(arena.usage().requested, 40);
//! assert_eq!(arena.audit(), Ok(()));
//!
//! // A checked free refuses a pointer that is not a block in use, and then changes nothing.
//! // SAFETY: the block is not used any more.
//! unsafe {
//!     assert_eq!(arena.try_free(block, layout), FreeResult::Freed);
//!     assert_eq!(arena.try_free(block, layout), FreeResult::Unallocated);
//! }
//! # Ok::<(), pagewise::AllocError>(())
//! ```
//!
//! # Which one do I want?
//! | you want | take |
//! |---|---|
//! | an allocator for a whole program | [`Pagewise`] |
//! | a heap in a fixed piece of memory, with or without an operating system | [`Arena::fixed`] |
//! | a heap of 4 KiB to 1 MiB on a small machine | [`StaticArena`], [`SmallArena`] |
//! | a heap for a part of a program, with its own limit and statistics | [`Arena::growing`] |
//! | collections in an arena | `&Arena`, or [`StaticArena::arena`], with the feature `allocator-api2` |
//! | one heap over several pieces of memory | an arena of [`Claims`](arena::Claims) |
//! | no lock, or your own | a [`Strategy`] through `&mut`, over a [`Source`]; [`PageHeap`] is the default strategy |
//! | bookkeeping that stray writes cannot reach | with the feature `strategies`: [`LeastFree`](catalogue::LeastFree), [`FirstFit`](catalogue::FirstFit) |
//! | few pages touched, or little memory held | [`Mru`](catalogue::Mru), [`BestFit`](catalogue::BestFit) |
//! | bump allocation, or frees that are deferred to a collection | [`LazyFirstFit`](catalogue::LazyFirstFit), [`CollectedFirstFit`](catalogue::CollectedFirstFit) |
//! | several owners in one heap | [`HeadFirst`](catalogue::HeadFirst) |
//! | the best strategy for a program that you can record | the one that `pagewise tune` of the workbench (package `pagewise-lab`) finds by measurement |
//!
//! A strategy without an arena (feature `strategies`):
//! ```
//! use core::alloc::Layout;
//! use pagewise::catalogue::LeastFree;
//! use pagewise::pages::Config;
//! use pagewise::{Reserved, Strategy};
//!
//! // LEAST-FREE over at most 1 GiB of address space. Only the parts that are touched use memory.
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
//! | [`Pagewise`] | Linux (glibc and musl); Windows; macOS and FreeBSD, where it has never been run; wasm32, as a single heap; on other targets it forwards to the system's allocator |
//! | [`Reserved`], growing arenas | Linux and other Unixes, Windows, wasm32, with `std` |
//! | everything else | any target, without `std`; 32-bit and 64-bit pointers |
//!
//! Needs stable Rust 1.88 or later. `docs/platforms.md` in the repository says what is tested
//! where.
//!
//! # Features
//! - `std` (default): [`Pagewise`], [`Reserved`], locks for threads. Without it the crate is `no_std`,
//!   depends only on `bitflags`, and needs no allocator.
//! - `os`: [`Pagewise`] and [`Reserved`] in programs and shared libraries without `std`, on Linux
//!   with glibc, on x86-64 and AArch64. Such a shared library must be loaded with the program.
//! - `strategies`: the strategies of the papers, the [`catalogue`] of them by type and by name, and
//!   (with `std`) [`sizemap::optimise`].
//! - `allocator-api2`: collections in an [`Arena`], on stable Rust.
//! - `allocator_api`: the standard library's own collections in an [`Arena`]; needs a nightly
//!   compiler.
//! - `critical-section`: a lock for arenas that uses the crate of this name, for firmware with
//!   interrupts.
//! - `lock_api`: any `lock_api::RawMutex` as an arena's lock.
//! - `guarded`: [guarded blocks](global#guarded-blocks) of [`Pagewise`], for finding overflows and
//!   uses after a free in production; each free takes one more test.
//! - `profiler`: the sampling [heap profiler](global::Profiler) of [`Pagewise`], on Linux; until it
//!   is started it costs at most 0.07 % of instructions.
//! - `trace`: the module [`trace`] (package `pagewise-trace`), which reads and records traces of
//!   real programs.
//! - `initial-exec`: faster access to a thread's lists, for a shared library that contains the
//!   global allocator and is loaded together with the program.
//!
//! # Safety
//! No use of safe functions causes undefined behaviour; functions with conditions that only the
//! caller can verify are `unsafe`. Freeing is always `unsafe`, even when it is checked, because no
//! check can tell whether a block is still needed. A heap that runs out of memory returns an error
//! and stays unchanged. If the allocator detects a broken invariant, it stops the process with a
//! one-line message. Outside [hardened mode](global#hardened-mode) the global allocator detects
//! only some double frees and foreign pointers. `SECURITY.md` in the repository says what is
//! guaranteed.
//!
//! # The modules, in dependency order
//! A module uses only modules above it.
//!
//! | module | contents |
//! |---|---|
//! | `error` | [`AllocError`], [`FreeResult`], [`Fault`] |
//! | `strategy` | the contract of every strategy: [`Strategy`], [`Usage`] |
//! | [`meter`] | counts items visited and addresses looked at; compiles to nothing if unused |
//! | `os` | the operating system: one interface, one implementation for each system |
//! | [`source`] | where memory comes from |
//! | [`walk`] | a heap as spans in address order, and the checks of the spans |
//! | `tally` | counts the memory that a heap has in use |
//! | `engine` | [`Heap`]: implements [`Strategy`] around the engines below |
//! | [`sizemap`] | four ways to choose size classes, one of them optimal |
//! | [`small`] | the heap for small machines: a bitmap instead of headers |
//! | `words` | plain words in dedicated memory: tables, pools, bitmaps |
//! | `tags` | boundary tags: cells, headers with their legal flags, and the audit of them |
//! | [`segments`] | FIRST-FIT in O(log n), and the heap below Brent's pages |
//! | [`fit`] | first, next, best, worst and lazy fits over a heap with boundary tags |
//! | [`head_first`] | best fit with space-fitting, the unallocated region at the head |
//! | [`hybrid`] | Hasan & Chang's tunable hybrid |
//! | [`kingsley`] | Kingsley's powers of two |
//! | [`pages`] | the page engine: PAGEWISE, the default, and Brent's strategies |
//! | [`buddy`] | binary buddies |
//! | `nielsen` | Nielsen's list algorithms: two engines, and the policies that they are composed of |
//! | [`catalogue`] | every strategy as a type, and (`std`) by name |
//! | [`arena`] | a strategy behind a lock: for collections, or as `#[global_allocator]` |
//! | [`global`] | the multi-threaded global allocator (feature `std` or `os`) |
//!
//! [`trace`] (feature `trace`) is a separate package, `pagewise-trace`, for reading and recording
//! traces of real programs. It does not depend on this one.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(feature = "allocator_api", feature(allocator_api))]
// docs.rs shows for each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The mechanisms serve all strategies and the global allocator; a build without one of these leaves
// some of them unused.
#![cfg_attr(
    any(
        pagewise_forwarding,
        not(all(
            feature = "os",
            feature = "strategies",
            any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows)
        ))
    ),
    allow(dead_code)
)]
// In a build without these features the module links above do not resolve.
#![cfg_attr(
    not(all(feature = "std", feature = "strategies", feature = "trace", unix)),
    allow(rustdoc::broken_intra_doc_links)
)]

#[cfg(all(
    feature = "os",
    not(feature = "std"),
    not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))
))]
compile_error!("on this system the feature `os` of pagewise needs the feature `std`");

pub mod arena;
#[cfg(feature = "strategies")]
pub mod buddy;
#[cfg(feature = "strategies")]
pub mod catalogue;
mod engine;
mod error;
pub mod fit;
#[cfg(feature = "os")]
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
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
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
pub use error::{AllocError, Fault, FreeResult};
#[cfg(feature = "os")]
pub use global::Pagewise;
pub use pages::PageHeap;
#[cfg(feature = "trace")]
pub use pagewise_trace as trace;
pub use small::SmallHeap;
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
pub use source::Reserved;
pub use source::{Region, Source};
pub use strategy::{Strategy, Usage};

/// Runs the snippets of the README as documentation tests.
#[cfg(all(doctest, feature = "trace"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the snippet of the document on the global allocator.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../docs/global.md")]
struct GlobalAllocator;

/// Runs the snippets of the document on recording.
#[cfg(all(doctest, feature = "trace"))]
#[doc = include_str!("../docs/recording.md")]
struct Recording;

/// Runs the snippets of the document on heap profiles.
#[cfg(all(doctest, feature = "profiler", target_os = "linux"))]
#[doc = include_str!("../docs/profiler.md")]
struct HeapProfiler;

/// Expands to its argument if this crate was built without `std`, else to nothing: for a shared
/// library that must define what `std` would.
#[cfg(not(feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! without_std {
    ($($items:item)*) => { $($items)* };
}

/// Expands to nothing, because this crate was built with `std`.
#[cfg(feature = "std")]
#[doc(hidden)]
#[macro_export]
macro_rules! without_std {
    ($($items:item)*) => {};
}
