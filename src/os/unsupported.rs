//! Stubs for systems other than Linux: a mapping cannot move to a given address, a call gives back
//! one run of pages, what a program set on pages stays, and a thread cannot make the others pass a
//! barrier.

use crate::os::OsPageRun;

/// Whether mappings can move: they cannot.
pub(crate) const MOVES: bool = false;

/// Never called, since [`MOVES`] is false.
///
/// # Safety
/// None.
pub(crate) unsafe fn move_into(_: OsPageRun, _: OsPageRun, _: *mut u8, _: usize) -> bool {
    false
}

/// Returns how many bytes can move: none.
///
/// # Safety
/// None.
pub(crate) unsafe fn movable(_: *mut u8, _: usize) -> usize {
    0
}

/// Returns whether one call can give back several runs of OS pages: it cannot.
pub(crate) fn discards_many() -> bool {
    false
}

/// Returns how many runs one call gave back: none.
///
/// # Safety
/// None.
pub(crate) unsafe fn discard_all(_: &[OsPageRun]) -> usize {
    0
}

/// Takes all pages as they are.
///
/// # Safety
/// None.
pub(crate) unsafe fn may_keep(_: *mut u8, _: usize) -> bool {
    true
}

/// Takes all pages as they are.
///
/// # Safety
/// None.
pub(crate) unsafe fn restore(_: *mut u8, _: usize) -> bool {
    true
}

/// Returns whether [`others_pass_barrier`] works: it does not.
pub(crate) fn announce_barriers() -> bool {
    false
}

/// Returns whether every other thread passed a full memory barrier: none did.
pub(crate) fn others_pass_barrier() -> bool {
    false
}
