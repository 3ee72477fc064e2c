//! Systems on which no thread has the others pass a barrier: each passes its own.

/// Whether [`others_pass_barrier`] can be called.
pub(crate) fn announce_barriers() -> bool {
    false
}

/// Whether every other thread passed a full memory barrier.
pub(crate) fn others_pass_barrier() -> bool {
    false
}
