//! Small blocks that are zeros while they are free. All but long ones are written, and checked, as
//! two ends of equal length: a power of two, below the block's length or equal to 16, so that the
//! ends cover the block without a loop. In the middle they may overlap.
//!
//! ```text
//!  48 bytes  |—— first 32 ——|
//!                    |—— last 32 ——|
//! ```

use core::ptr::NonNull;

use crate::global::native::memory::zero;

/// Bytes of the longest short block.
pub(in super::super) const SHORT: usize = 128;

/// Bytes of the longest block that is covered by its ends.
const ENDS: usize = 256;

/// Writes zeros to a small block that is not short.
///
/// # Safety
/// As for [`wipe_short`], but the block is longer than [`SHORT`].
#[inline(always)]
pub(super) unsafe fn wipe_longer(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller owns the block.
    unsafe {
        match size <= ENDS {
            true => wipe_ends::<{ ENDS / 32 }>(block, size),
            false => block.write_bytes(0, size),
        }
    }
}

/// Returns whether a small block that is not short is all zeros.
///
/// # Safety
/// As for [`wipe_longer`].
#[inline(always)]
pub(in super::super) unsafe fn is_longer_zero(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the caller owns the block.
    unsafe {
        match size <= ENDS {
            true => are_ends_zero::<{ ENDS / 32 }>(block, size),
            false => zero::is_zero(block, size),
        }
    }
}

/// Writes zeros to a short block.
///
/// # Safety
/// The block has `size` bytes, a multiple of 16 and at least 16, is aligned to 16, and belongs to
/// the caller.
#[inline(always)]
pub(super) unsafe fn wipe_short(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller owns the block, which is at least as long as one end.
    unsafe {
        match size {
            0..=32 => wipe_ends::<1>(block, size),
            33..=64 => wipe_ends::<2>(block, size),
            _ => wipe_ends::<4>(block, size),
        }
    }
}

/// Returns whether a short block is all zeros.
///
/// # Safety
/// As for [`wipe_short`].
#[inline(always)]
pub(super) unsafe fn is_short_zero(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the caller owns the block, which is at least as long as one end.
    unsafe {
        match size {
            0..=32 => are_ends_zero::<1>(block, size),
            33..=64 => are_ends_zero::<2>(block, size),
            _ => are_ends_zero::<4>(block, size),
        }
    }
}

/// Returns whether both ends of a short block, each of `UNITS` units of 16 bytes, are all zeros.
///
/// # Safety
/// As for [`wipe_short`]; the block is at least as long as one end.
#[inline(always)]
pub(in super::super) unsafe fn are_ends_zero<const UNITS: usize>(
    block: NonNull<u8>,
    size: usize,
) -> bool {
    // SAFETY: the callee has the same contract.
    unsafe { any_of_ends::<UNITS>(block, size) == 0 }
}

/// Returns both ends of a block, each of `UNITS` units of 16 bytes.
///
/// # Safety
/// The block has `size` bytes, and is at least as long as one end.
#[inline(always)]
unsafe fn ends<const UNITS: usize>(block: NonNull<u8>, size: usize) -> [NonNull<[u128; UNITS]>; 2] {
    const { assert!(16 * UNITS <= ENDS / 2) };
    // SAFETY: an end is no longer than the block.
    unsafe { [block.cast(), block.add(size - size_of::<[u128; UNITS]>()).cast()] }
}

/// # Safety
/// As for [`wipe_short`] and [`ends`].
#[inline(always)]
unsafe fn wipe_ends<const UNITS: usize>(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller owns the block; both ends are within it.
    unsafe {
        for end in ends::<UNITS>(block, size) {
            end.write([0; UNITS]);
        }
    }
}

/// Returns the bits that are set in any unit of either end.
///
/// # Safety
/// As for [`wipe_short`] and [`ends`].
#[inline(always)]
unsafe fn any_of_ends<const UNITS: usize>(block: NonNull<u8>, size: usize) -> u128 {
    // SAFETY: the caller owns the block; both ends are within it.
    let units = unsafe { ends::<UNITS>(block, size).map(|end| end.read()) };
    units.as_flattened().iter().fold(0, |any, unit| any | unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For blocks of these sizes, no byte is left out, and none beyond the block is written.
    fn covers_every_byte(
        sizes: impl Iterator<Item = usize>,
        wipe: unsafe fn(NonNull<u8>, usize),
        is_zero: unsafe fn(NonNull<u8>, usize) -> bool,
    ) {
        const MOST: usize = 1 << 11;
        #[repr(align(16))]
        struct Memory([u8; MOST + 16]);

        for size in sizes {
            let mut memory = Memory([1; MOST + 16]);
            let block = NonNull::from(&mut memory.0).cast::<u8>();
            // SAFETY: the block starts with the memory, which is longer.
            unsafe {
                wipe(block, size);
                assert!((0..MOST + 16).all(|at| block.add(at).read() == u8::from(at >= size)));
                for at in 0..size {
                    assert!(is_zero(block, size));
                    block.add(at).write(0x80);
                    assert!(!is_zero(block, size), "byte {at} of {size}");
                    block.add(at).write(0);
                }
            }
        }
    }

    #[test]
    fn every_byte_of_a_short_block() {
        covers_every_byte((16..=SHORT).step_by(16), wipe_short, is_short_zero);
    }

    #[test]
    fn every_byte_of_a_longer_block() {
        let sizes = (SHORT + 16..=400).step_by(16).chain([2048]);
        covers_every_byte(sizes, wipe_longer, is_longer_zero);
    }
}
