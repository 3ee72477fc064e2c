//! Canaries: bytes behind what was asked for, up to the block's end, and before a block above FFCROSSOVER.
//!
//! ```text
//!  small:    | requested …              |canary …        |                  at least one byte
//!  medium:   … |len ^ secret|canary| requested …    |canary|                at a multiple of its alignment
//! ```
//! Nobody can write what stands there without knowing the process's secret, and no byte of it is 0, which
//! most one-byte overflows write. Of a long rest its first and its last word are written and compared: who
//! runs beyond his block meets the first, who runs below the next one meets the last.

use core::ptr::NonNull;

use super::super::mode;

/// Bytes of a canary, at most.
const WORD: usize = size_of::<u64>();

/// The canary of the block that starts there.
#[inline(always)]
fn canary(block: NonNull<u8>) -> u64 {
    canary_of(mode::secret(), block.addr().get() as u64)
}

/// As above, of an address in a process with this secret.
#[inline(always)]
const fn canary_of(secret: u64, address: u64) -> u64 {
    (secret ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 0x0101_0101_0101_0101
}

/// Which bits of a word are those of its last `count` bytes.
const LAST: [u64; WORD + 1] = {
    let mut masks = [0; WORD + 1];
    let mut count = 0;
    while count <= WORD {
        let mut bytes = [0; WORD];
        let mut at = WORD - count;
        while at < WORD {
            bytes[at] = 0xff;
            at += 1;
        }
        masks[count] = u64::from_ne_bytes(bytes);
        count += 1;
    }
    masks
};

/// The last word of a block of `size` bytes, and the bits of it that are the canary's: those behind the
/// first word of the rest, if that has one.
#[inline(always)]
fn last(block: NonNull<u8>, size: usize, slack: usize) -> (*mut u64, u64) {
    let bytes = if slack < WORD { slack } else { (slack - WORD).min(WORD) };
    (block.as_ptr().wrapping_add(size - WORD).cast(), LAST[bytes])
}

/// Writes the canary between the requested bytes of a block and its end, `slack` bytes behind. Where that
/// is `far`, the last word tells how many bytes were requested.
///
/// # Safety
/// The block has `size` bytes, 16 at least, of which `slack` are nobody's.
#[inline(always)]
pub(super) unsafe fn write(block: NonNull<u8>, size: usize, slack: usize, far: bool) {
    let canary = canary(block);
    let (last, mask) = last(block, size, slack);
    // SAFETY: all that is written lies in the block, behind what was requested, or stays as it was.
    unsafe {
        if slack < WORD {
            last.write_unaligned(last.read_unaligned() & !mask | canary & mask);
        } else {
            // The first word comes second: where both meet, it is whole.
            last.write_unaligned(if far { canary ^ slack as u64 } else { canary });
            block.add(size - slack).cast::<u64>().write_unaligned(canary);
        }
    }
}

/// How many bytes a block is longer than what was requested, if the canary stands as it was written; `None` if not. Where
/// that is far, the last word tells it; else it is `known`.
///
/// # Safety
/// The block has `size` bytes, 16 at least, and [`write`] was called for it; what is known is right.
#[inline(always)]
pub(super) unsafe fn slack(block: NonNull<u8>, size: usize, known: Option<usize>) -> Option<usize> {
    let canary = canary(block);
    // SAFETY: the bytes lie in the block.
    unsafe {
        let found = block.add(size - WORD).cast::<u64>().read_unaligned() ^ canary;
        let (slack, is_last_whole) = match known {
            Some(slack) => (slack, found & last(block, size, slack).1 == 0),
            None => {
                let slack = usize::try_from(found).ok()?;
                (slack, 2 * WORD <= slack && slack <= size)
            }
        };
        let is_first_whole =
            || slack < WORD || block.add(size - slack).cast::<u64>().read_unaligned() == canary;
        (is_last_whole && is_first_whole()).then_some(slack)
    }
}

/// What stands before a block above FFCROSSOVER.
#[repr(C)]
struct Front {
    /// The bytes requested, and above them the logarithm of the alignment.
    requested: u64,
    canary: u64,
}

/// Bytes before and behind such a block.
pub(super) const FRONT: usize = size_of::<Front>();
pub(super) const BEHIND: usize = WORD;

const SHIFT: u32 = 56;

/// Writes what stands around a block above FFCROSSOVER.
///
/// # Safety
/// The memory from [`FRONT`] bytes before the block to [`BEHIND`] bytes behind it is the caller's.
pub(super) unsafe fn enclose(block: NonNull<u8>, size: usize, align: usize) {
    let canary = canary(block);
    let requested = size as u64 | u64::from(align.trailing_zeros()) << SHIFT;
    // SAFETY: the caller's promise.
    unsafe {
        block
            .sub(FRONT)
            .cast::<Front>()
            .write_unaligned(Front { requested: requested ^ canary, canary: !canary });
        block.add(size).cast::<u64>().write_unaligned(canary);
    }
}

/// The bytes requested of a block above FFCROSSOVER, and its alignment; `None` if what stands before it was
/// overwritten.
///
/// # Safety
/// The block is in use, and was [enclosed](enclose).
pub(super) unsafe fn enclosed(block: NonNull<u8>) -> Option<(usize, usize)> {
    let canary = canary(block);
    // SAFETY: the caller's promise.
    let front = unsafe { block.sub(FRONT).cast::<Front>().read_unaligned() };
    let requested = front.requested ^ canary;
    let align = 1_usize.checked_shl((requested >> SHIFT) as u32)?;
    let size = usize::try_from(requested & ((1 << SHIFT) - 1)).ok()?;
    (front.canary == !canary && size <= isize::MAX as usize).then_some((size, align))
}

/// Whether what stands behind such a block does as it was written.
///
/// # Safety
/// As for [`enclosed`], which gave this size.
pub(super) unsafe fn is_closed(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { block.add(size).cast::<u64>().read_unaligned() == canary(block) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Blocks have canaries of their own, other ones with each secret, without a byte of 0.
    #[test]
    fn canaries_are_told_apart() {
        let mut all = HashSet::new();
        for secret in [0, 1, 0x7777_0000_1111_2222, 0x0123_4567_89ab_cdef, 0xaaaa_aaaa_aaaa_aaaa] {
            for at in 0..2000 {
                let canary = canary_of(secret, 0x7f12_3456_0000 + 16 * at);
                assert!(canary.to_ne_bytes().iter().all(|&byte| byte != 0));
                all.insert(canary);
            }
        }
        assert!(all.len() > 9_990, "{} of 10,000", all.len());
    }
}
