//! Which blocks are in use: a byte for each unit of 16 bytes of the heaps' addresses, apart from the blocks.
//!
//! | state of a unit | |
//! |---|---|
//! | 0 | no block in use starts there |
//! | 1 to 191 | a block in use does, with that much less 1 between what was asked for and its class |
//! | 192 | a block in use does, with more than that, or is above FFCROSSOVER |
//! | 255 | a freed block starts there, which was zeroed |
//!
//! A byte belongs to whoever the block belongs to, so it is read and written without a lock, and a free that
//! races with another of the same block may pass here; then the block is on two lists, and whoever takes it
//! second finds it in use.
//!
//! Nothing is ever written here by way of a block: the bytes lie behind the heaps' slots, with addresses
//! between that nobody may touch.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use super::super::space::SPACE;
pub(super) use super::super::space::ZEROED;

/// No block in use starts there.
pub(super) const NONE: u8 = 0;

/// A block in use whose distance to its class is told elsewhere, if at all.
pub(super) const FAR: u8 = 192;

/// The state of a block, which lies in a slot.
#[inline(always)]
pub(super) fn of(block: NonNull<u8>) -> &'static AtomicU8 {
    SPACE.state_of(block.as_ptr())
}

/// The state for a block in use that is so much longer than what was asked for.
#[inline(always)]
pub(super) fn in_use(slack: usize) -> u8 {
    slack.saturating_add(1).min(FAR.into()) as u8
}

/// How much longer a block in use is than what was asked for, if its state tells.
#[inline(always)]
pub(super) fn slack(state: u8) -> Option<usize> {
    (state < FAR).then(|| state as usize - 1)
}

/// Whether a block in use starts where the state is this.
#[inline(always)]
pub(super) fn is_in_use(state: u8) -> bool {
    state.wrapping_sub(1) < FAR
}
