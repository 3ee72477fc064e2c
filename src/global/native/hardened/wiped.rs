//! Short blocks that are zeros while they are free: both ends are written, and looked at, in as many bytes as lie between
//! the power of two below and the block's length, so that no loop is needed; in the middle they overlap.
//!
//! ```text
//!  48 bytes  |—— first 32 ——|
//!                    |—— last 32 ——|
//! ```

use core::ptr::NonNull;

/// Bytes of the longest.
pub(in super::super) const SHORT: usize = 128;

/// Writes zeros to a short block.
///
/// # Safety
/// It has this many bytes, 16 at least and a multiple of that, begins at such a multiple, and is nobody's.
#[inline(always)]
pub(super) unsafe fn wipe_short(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise: either end has as many bytes.
    unsafe {
        match size {
            0..=32 => wipe_ends::<1>(block, size),
            33..=64 => wipe_ends::<2>(block, size),
            _ => wipe_ends::<4>(block, size),
        }
    }
}

/// Whether a short block holds nothing but zeros.
///
/// # Safety
/// As for [`wipe_short`].
#[inline(always)]
pub(super) unsafe fn is_short_zero(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: as above.
    unsafe {
        match size {
            0..=32 => are_ends_zero::<1>(block, size),
            33..=64 => are_ends_zero::<2>(block, size),
            _ => are_ends_zero::<4>(block, size),
        }
    }
}

/// Whether both ends of a short block, of so many units of 16 bytes, hold nothing but zeros.
///
/// # Safety
/// As for [`wipe_short`]; the block has as many bytes as an end.
#[inline(always)]
pub(in super::super) unsafe fn are_ends_zero<const UNITS: usize>(
    block: NonNull<u8>,
    size: usize,
) -> bool {
    // SAFETY: passed on.
    unsafe { any_of_ends::<UNITS>(block, size) == 0 }
}

/// Either end of a block, in units of 16 bytes.
///
/// # Safety
/// The block has `size` bytes, and no fewer than the ends do.
#[inline(always)]
unsafe fn ends<const UNITS: usize>(block: NonNull<u8>, size: usize) -> [NonNull<[u128; UNITS]>; 2] {
    const { assert!(16 * UNITS <= SHORT / 2) };
    // SAFETY: the caller's promise.
    unsafe { [block.cast(), block.add(size - size_of::<[u128; UNITS]>()).cast()] }
}

/// # Safety
/// As for [`wipe_short`] and [`ends`].
#[inline(always)]
unsafe fn wipe_ends<const UNITS: usize>(block: NonNull<u8>, size: usize) {
    // SAFETY: passed on.
    unsafe {
        for end in ends::<UNITS>(block, size) {
            end.write([0; UNITS]);
        }
    }
}

/// Bits that are set in any unit of either end.
///
/// # Safety
/// As for [`wipe_short`] and [`ends`].
#[inline(always)]
unsafe fn any_of_ends<const UNITS: usize>(block: NonNull<u8>, size: usize) -> u128 {
    // SAFETY: passed on.
    let units = unsafe { ends::<UNITS>(block, size).map(|end| end.read()) };
    units.as_flattened().iter().fold(0, |any, unit| any | unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every short size no byte is left out, and none beyond is written.
    #[test]
    fn every_byte_of_a_short_block() {
        #[repr(align(16))]
        struct Memory([u8; SHORT + 16]);

        for size in (16..=SHORT).step_by(16) {
            let mut memory = Memory([1; SHORT + 16]);
            let block = NonNull::from(&mut memory.0).cast::<u8>();
            // SAFETY: the memory is longer than the block, which begins with it.
            unsafe {
                wipe_short(block, size);
                assert!((0..SHORT + 16).all(|at| block.add(at).read() == u8::from(at >= size)));
                for at in 0..size {
                    assert!(is_short_zero(block, size));
                    block.add(at).write(0x80);
                    assert!(!is_short_zero(block, size), "byte {at} of {size}");
                    block.add(at).write(0);
                }
            }
        }
    }
}
