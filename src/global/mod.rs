//! `Pagewise`, the global allocator: every thread has quick lists in front of heaps of pages.
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
//!  thread      thread      thread        quick lists: bounded arrays of free blocks,
//!  | | | |     | | | |     | | | |       one for each size class (Hasan & Chang §3.10)
//!     │ batches of blocks │    │
//!  ┌──▼────────┐       ┌──▼────▼───┐     heaps, each behind a lock: LEAST-FREE pages with
//!  │ heap      │       │ heap      │     headers out of them (Brent §2.10, §4), larger blocks
//!  └───────────┘       └───────────┘     beside them
//!    slot 0              slot 1          one window of addresses
//! ```
//! A block's heap and class follow from its address. Blocks are freed into the freeing thread's
//! quick lists, whoever allocated them, and go back to their heaps by the batch. No thread owns a
//! heap, so a thread's end, or a block freed by another thread, is nothing special.
//!
//! # Hardened mode
//! [`Tuning::hardening`], or `PAGEWISE_HARDENED=1` in the environment of any program that uses this allocator, has
//! every block checked at every call: [`Hardening`] lists the parts, and `docs/global.md` what each costs and stops.
//!
//! # Guarded blocks
//! With the feature `guarded` and [`Tuning::guarded`], or `PAGEWISE_GUARDED=5000`, one allocation in so many lies
//! at the end of an OS page of its own, before one that nobody may touch; its page is closed when it is freed. Whoever
//! writes beyond it, or uses it after it was freed, is stopped at that instruction, and standard error tells what it
//! was, with the stacks of allocation, free and fault. That is cheap enough for production, and finds in many runs
//! what is wrong in one of many.
//!
//! # Heap profiles
//! With the feature `profiler`, on Linux, [`Pagewise::profiler`], or `PAGEWISE_PROFILE=heap.pb.gz` in the environment, tells
//! which call stacks the memory in use was allocated by: [`Profiler`].
//!
//! # Where
//! On Linux, Windows, macOS and FreeBSD; the last two were never run. On wasm32 it is one heap of pages over the machine's
//! memory, without a tuning, as far as it grows. Elsewhere `Pagewise` compiles, and passes everything on to the system's
//! allocator; so it does anywhere with `--cfg pagewise_forwarding`, for a test of just that.

// `native` has the allocator proper, `wasm` that over `growing` memory, `forwarding` passes on; `tuning` and `stats` are
// for all.
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
mod profiler;
mod stats;
mod tuning;
#[cfg(all(target_arch = "wasm32", not(unix), not(pagewise_forwarding)))]
mod wasm;

pub use self::hardening::Hardening;
#[cfg(feature = "profiler")]
pub use self::profiler::{ProfileError, Profiler, Site, Snapshot};
pub use self::stats::{ClassStats, Stats};
pub use self::tuning::{HugePages, Tuning, TuningError};

/// The allocator. All values of this type in a process share one heap; see [`Tuning`].
#[derive(Debug)]
pub struct Pagewise {
    #[allow(dead_code, reason = "only the allocator proper can be tuned")]
    tuning: Tuning,
}

impl Pagewise {
    /// The allocator as it is tuned by default.
    #[must_use]
    pub const fn new() -> Self {
        Self { tuning: Tuning::new() }
    }

    /// The allocator, tuned.
    ///
    /// # Panics
    /// If the tuning is [out of range](Tuning::check); in a `static`, at compile time.
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
