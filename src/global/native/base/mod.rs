//! What all other folders build on: statics, the lock, settings, size classes. Nothing here knows
//! of heaps, blocks or threads' lists. Used by all other folders.
//!
//! | files, in the order they build on each other | |
//! |---|---|
//! | `apart` | statics in cache lines of their own |
//! | `sealed` | statics in OS pages of their own, read-only in hardened mode |
//! | `once` | a value that is set once |
//! | `cooldown` | the time that must pass before something is done again |
//! | `sync`, `lock`, `gate` | atomics, barriers; the lock; the gate to a thread's own data |
//! | `text` | text for standard error |
//! | `mode` | whether the process runs hardened |
//! | `sizes` | which list serves which size |
//! | `visit` | bounds the time that a thread spends on maintenance |
//! | `sampler` | which blocks are sampled |
//! | `settings` | settings from the environment, and complaints about ignored ones |

pub(super) mod apart;
pub(super) mod cooldown;
pub(super) mod gate;
pub(super) mod lock;
pub(super) mod mode;
pub(super) mod once;
#[cfg_attr(
    not(all(feature = "profiler", target_os = "linux")),
    allow(dead_code, reason = "nothing is sampled without the profiler")
)]
pub(super) mod sampler;
pub(super) mod sealed;
pub(super) mod settings;
pub(super) mod sizes;
pub(super) mod sync;
pub(super) mod text;
pub(super) mod visit;
