//! New addresses outside the slots of heaps: a block in a slot would be freed to a heap.

use super::refused;
use super::space::SPACE;
use crate::os;

/// Maps `len` zero bytes at new addresses; `None` if there is no memory outside the slots.
pub(in crate::global::native) fn allocate(len: usize) -> Option<*mut u8> {
    // SAFETY: the addresses were just mapped, and nobody uses them.
    unsafe { keep_outside(os::allocate(len)?, len) }
}

/// Reserves `len` bytes of new addresses; `None` if there are none outside the slots.
pub(in crate::global::native) fn reserve(len: usize) -> Option<*mut u8> {
    // SAFETY: the addresses were just reserved, and nobody uses them.
    unsafe { keep_outside(os::reserve(len)?, len) }
}

/// Returns these addresses, or releases them if they are in the slots.
///
/// # Safety
/// The addresses are the caller's, and nobody uses them.
unsafe fn keep_outside(memory: *mut u8, len: usize) -> Option<*mut u8> {
    if !SPACE.overlaps(memory, len) {
        return Some(memory);
    }
    // SAFETY: the caller guarantees that nobody uses the addresses.
    unsafe { refused::release(memory, len) };
    None
}
