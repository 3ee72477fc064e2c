//! Systems on which no mapping moves to addresses that are asked for.

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
