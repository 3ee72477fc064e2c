//! Systems on which no mapping moves to addresses that are asked for, and memory goes back a run at a time.

use crate::os::Run;

/// Whether mappings move.
pub(crate) const MOVES: bool = false;

/// Not called where nothing moves.
///
/// # Safety
/// None.
pub(crate) unsafe fn move_into(
    _: (*mut u8, usize),
    _: (*mut u8, usize),
    _: *mut u8,
    _: usize,
) -> bool {
    false
}

/// Whether several runs of OS pages go back by one call.
pub(crate) fn discards_many() -> bool {
    false
}

/// How many of several runs went back by one call: none.
///
/// # Safety
/// None.
pub(crate) unsafe fn discard_all(_: &[Run]) -> usize {
    0
}
