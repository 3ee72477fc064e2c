//! Counts the mappings in use, and keeps them and the [kept] ones together below their peak.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::super::kept;
use crate::global::native::base::apart::Apart;

/// Counts of the mappings in use.
pub(super) struct InUse {
    /// Number of mappings in use.
    pub(super) count: AtomicUsize,
    /// Bytes of mappings in use.
    pub(super) bytes: AtomicUsize,
    /// Bytes of mappings that threads are making of kept memory.
    pub(super) pending: AtomicUsize,
    /// Most bytes in use so far.
    pub(super) most: AtomicUsize,
    /// Most bytes in use so far together with those kept.
    peak: AtomicUsize,
}

/// The counts of the process.
pub(super) static IN_USE: Apart<InUse> = Apart::new(InUse {
    count: AtomicUsize::new(0),
    bytes: AtomicUsize::new(0),
    pending: AtomicUsize::new(0),
    most: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
});

/// How much memory mappings take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) struct MappingUsage {
    /// Number of mappings in use.
    pub(in crate::global::native) count: usize,
    /// Bytes of mappings in use.
    pub(in crate::global::native) bytes: usize,
    /// The most bytes ever, kept mappings included.
    pub(in crate::global::native) peak: usize,
}

/// Returns how much memory mappings take.
pub(in crate::global::native) fn usage() -> MappingUsage {
    MappingUsage {
        count: IN_USE.count.load(Relaxed),
        bytes: IN_USE.bytes.load(Relaxed),
        peak: IN_USE.peak.load(Relaxed),
    }
}

/// Counts bytes of mappings in use. Gives back kept ones as far as both together exceed the most
/// ever in use.
pub(super) fn count_bytes(added: usize, removed: usize) {
    let bytes = IN_USE.bytes.fetch_add(added.wrapping_sub(removed), Relaxed);
    let bytes = bytes.wrapping_add(added).wrapping_sub(removed);
    let most = IN_USE.most.fetch_max(bytes, Relaxed).max(bytes);
    let pending = IN_USE.pending.load(Relaxed);
    let excess = bytes.saturating_add(pending).saturating_add(kept::bytes()).saturating_sub(most);
    if excess != 0 {
        kept::give_back(excess);
    }
    IN_USE.peak.fetch_max(bytes.saturating_add(kept::bytes()), Relaxed);
}

/// Notes that `bytes` are not pending any more: their mapping is made, or could not be. (The child
/// of a fork has forgotten them, if its thread forked in a signal handler meanwhile.)
pub(super) fn end_pending(bytes: usize) {
    let left = |pending: usize| Some(pending.saturating_sub(bytes));
    let _ = IN_USE.pending.fetch_update(Relaxed, Relaxed, left);
}

/// In the child of a fork: forgets the mappings that threads which stayed behind were making.
pub(in crate::global::native) fn after_fork_in_child() {
    IN_USE.pending.store(0, Relaxed);
}
