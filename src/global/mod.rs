//! The global allocator [`Pagewise`]: each thread has quick lists in front of shared heaps of
//! pages.
//!
//! ```
//! use pagewise::Pagewise;
//!
//! #[global_allocator]
//! static ALLOCATOR: Pagewise = Pagewise::new();
//! # fn main() { drop(vec![1, 2, 3]); }
//! ```
//!
//! ```text
//!  thread      thread      thread      quick lists: bounded arrays of free blocks,
//!  | | | |     | | | |     | | | |     one for each size class (Hasan & Chang §3.10)
//!     │ batches of blocks │    │
//!  ┌──▼────────┐       ┌──▼────▼───┐   heaps, each behind a lock: small blocks in LEAST-FREE pages
//!  │ heap      │       │ heap      │   whose headers are stored elsewhere (Brent §2.10, §4),
//!  └───────────┘       └───────────┘   larger blocks beside them, with boundary tags
//!    slot 0              slot 1        one window of addresses
//! ```
//! A block's address determines its heap and its size class. `free` pushes a block onto a quick
//! list of the freeing thread, even if another thread allocated it; the lists return blocks to
//! their heaps in batches. No thread owns a heap, so the end of a thread and a free by another
//! thread need no special treatment.
//!
//! # Hardened mode
//! [`Tuning::hardening`], or `PAGEWISE_HARDENED=1` in the environment of any program that uses this
//! allocator, turns on checks of every block at every call. [`Hardening`] lists the parts;
//! `docs/global.md` says what each part costs and stops.
//!
//! # Guarded blocks
//! With the feature `guarded`, [`Tuning::guarded`] or `PAGEWISE_GUARDED=5000` makes one in *n*
//! allocations a guarded block. It ends at the end of an OS page of its own, and the page behind is
//! inaccessible. When the block is freed, its own page becomes inaccessible as well. A write beyond
//! the block or a use after its free therefore faults at that very instruction, and the allocator
//! reports it on standard error with the stacks of allocation, free and fault. This is cheap enough
//! for production, and over many runs it finds errors that occur in only a few of them.
//!
//! # Heap profiles
//! With the feature `profiler`, on Linux, [`Pagewise::profiler`] or `PAGEWISE_PROFILE=heap.pb.gz`
//! in the environment records which call stacks allocated the memory in use: see [`Profiler`].
//!
//! # Platforms
//! Linux, Windows, macOS and FreeBSD; the last two have never been run. On wasm32 the allocator is
//! a single heap in the module's linear memory, which ignores the tuning. Everywhere else
//! `Pagewise` compiles and forwards each call to the system's allocator. To test that path on any
//! target, build with `--cfg pagewise_forwarding`.

// `native` is the allocator proper, `wasm` the one over `growing` memory, and `forwarding` forwards
// to the system. All of them share `tuning`, `hardening` and `stats`.
#[cfg(not(any(
    all(
        any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
        not(pagewise_forwarding)
    ),
    all(target_arch = "wasm32", not(unix), not(pagewise_forwarding)),
)))]
mod forwarding;
#[cfg(any(test, all(target_arch = "wasm32", not(unix), not(pagewise_forwarding))))]
mod growing;
mod hardening;
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
mod native;
#[cfg(feature = "profiler")]
mod profile_error;
#[cfg(feature = "profiler")]
mod profiler;
mod stats;
mod tuning;
#[cfg(all(target_arch = "wasm32", not(unix), not(pagewise_forwarding)))]
mod wasm;

pub use self::hardening::Hardening;
#[cfg(feature = "profiler")]
pub use self::profile_error::ProfileError;
#[cfg(feature = "profiler")]
pub use self::profiler::{Profiler, Site, Snapshot};
pub use self::stats::{ClassStats, Stats};
pub use self::tuning::{HugePages, Tuning, TuningError};

/// The global allocator. All values of this type in a process share the same heaps; see [`Tuning`].
#[derive(Debug)]
pub struct Pagewise {
    #[allow(dead_code, reason = "only the allocator proper can be tuned")]
    tuning: Tuning,
}

impl Pagewise {
    /// Returns the allocator with the default tuning.
    #[must_use]
    pub const fn new() -> Self {
        Self { tuning: Tuning::new() }
    }

    /// Returns the allocator with this tuning.
    ///
    /// # Panics
    /// If the tuning is [out of range](Tuning::check). In a `static` this is a compile-time error.
    #[must_use]
    pub const fn with(tuning: Tuning) -> Self {
        assert!(tuning.check().is_ok(), "the tuning is out of range: see Tuning::check");
        Self { tuning }
    }
}

impl Default for Pagewise {
    fn default() -> Self {
        Self::new()
    }
}
