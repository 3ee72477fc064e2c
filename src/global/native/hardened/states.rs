//! Which blocks are in use: one byte of state for each unit of 16 bytes of the heaps' addresses,
//! kept apart from the blocks.
//!
//! | state of a unit | |
//! |---|---|
//! | 0 | no block in use starts there |
//! | 1 to 191 | a block in use starts there; its class is longer than the request by the state − 1 bytes |
//! | 192 | a block in use starts there, whose class is longer by more, or which is above FFCROSSOVER |
//! | 255 | a freed block starts there, which was zeroed |
//!
//! The owner of a block owns its byte, which is therefore read and written without a lock. Two
//! frees of one block that race may both pass. Then the block is on two lists, and the second
//! thread to take it finds it in use.
//!
//! An overflow of a block cannot reach the states: they are behind the heaps' slots and a gap of
//! inaccessible addresses.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use crate::global::native::memory::space::SPACE;
pub(super) use crate::global::native::memory::space::ZEROED;

/// No block in use starts there.
pub(super) const NONE: u8 = 0;

/// A block in use, whose distance from its class is recorded elsewhere, if at all.
pub(super) const FAR: u8 = 192;

/// Returns the state of a block in a slot.
#[inline(always)]
pub(super) fn of(block: NonNull<u8>) -> &'static AtomicU8 {
    SPACE.state_of(block.as_ptr())
}

/// Returns the state of a block in use that is `slack` bytes longer than its request.
#[inline(always)]
pub(super) fn in_use(slack: usize) -> u8 {
    slack.min(FAR as usize - 1) as u8 + 1
}

/// Returns how many bytes a block in use is longer than its request, if `state` records it.
#[inline(always)]
pub(super) fn slack(state: u8) -> Option<usize> {
    (state < FAR).then(|| state as usize - 1)
}

/// Returns whether `state` is that of a block in use.
#[inline(always)]
pub(super) fn is_in_use(state: u8) -> bool {
    state.wrapping_sub(1) < FAR
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block in use has a state of its own for each short distance from its class, and one for
    /// all others; no other state is one of a block in use.
    #[test]
    fn a_state_tells_how_far_the_class_is() {
        for bytes in [0, 1, 100, 190, 191, 192, 254, 255, 256, 1 << 20, usize::MAX] {
            let state = in_use(bytes);
            assert!(is_in_use(state), "{bytes} bytes");
            assert_eq!(slack(state), (bytes <= 190).then_some(bytes));
        }
        assert!((0..=255).all(|state| is_in_use(state) == (1..=FAR).contains(&state)));
        assert!(!is_in_use(NONE) && !is_in_use(ZEROED));
    }
}
