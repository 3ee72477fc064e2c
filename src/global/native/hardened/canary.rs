//! Canaries: bytes behind the requested ones, up to the block's end, and words before a block above
//! FFCROSSOVER.
//!
//! ```text
//!  small:    | requested …                 |canary …    |           at least one byte
//!  medium:   … |len ^ canary|!canary| requested …   |canary|        at a multiple of its alignment
//! ```
//! A canary cannot be forged without the process's secret. None of its bytes is 0, the byte that
//! most one-byte overflows write. Of a long canary only the first and the last word are written and
//! compared: an overflow of this block hits the first, an underflow of the next block hits the
//! last.

use core::ptr::NonNull;

use crate::global::native::base::mode;

/// Bytes of a canary word.
const WORD: usize = size_of::<u64>();

/// Returns the canary of the block that starts there.
#[inline(always)]
fn canary(block: NonNull<u8>) -> u64 {
    canary_of(mode::secret(), block.addr().get() as u64)
}

/// As above, for an `address` in a process with this `secret`.
#[inline(always)]
const fn canary_of(secret: u64, address: u64) -> u64 {
    (secret ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 0x0101_0101_0101_0101
}

/// Masks of the last `count` bytes of a word.
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

/// Returns the last word of a block of `size` bytes, and a mask of its bits that belong to the
/// canary and not to the canary's first word.
#[inline(always)]
fn last(block: NonNull<u8>, size: usize, slack: usize) -> (*mut u64, u64) {
    let bytes = if slack < WORD { slack } else { (slack - WORD).min(WORD) };
    (block.as_ptr().wrapping_add(size - WORD).cast(), LAST[bytes])
}

/// Writes the canary into the last `slack` bytes of a block of `size` bytes. If `far`, the last
/// word also encodes `slack`.
///
/// # Safety
/// The block has at least 16 bytes, `size` in all; the caller owns the last `slack` of them. If
/// `far`, `slack` is at least 16.
#[inline(always)]
pub(super) unsafe fn write(block: NonNull<u8>, size: usize, slack: usize, far: bool) {
    let canary = canary(block);
    let (last, mask) = last(block, size, slack);
    // SAFETY: all writes are within the block; requested bytes get the value that they had.
    unsafe {
        if slack < WORD {
            last.write_unaligned(last.read_unaligned() & !mask | canary & mask);
        } else {
            // Written second, so that the first word is whole where the two overlap.
            last.write_unaligned(if far { canary ^ slack as u64 } else { canary });
            block.add(size - slack).cast::<u64>().write_unaligned(canary);
        }
    }
}

/// Returns the slack of a block, in bytes, if its canary is intact, else `None`. The slack is
/// `known`, or else read from the last word.
///
/// # Safety
/// The block has at least 16 bytes, `size` in all, and [`write()`] was called for it. If the slack
/// is `known`, it is the one written.
#[inline(always)]
pub(super) unsafe fn slack(block: NonNull<u8>, size: usize, known: Option<usize>) -> Option<usize> {
    let canary = canary(block);
    // SAFETY: the bytes are within the block.
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

/// The words before a block above FFCROSSOVER.
#[repr(C)]
struct Front {
    /// The requested bytes, with the logarithm of the alignment above them; XORed with the canary.
    requested: u64,
    /// The block's canary, inverted.
    canary: u64,
}

/// Bytes written before and behind such a block.
pub(super) const FRONT: usize = size_of::<Front>();
pub(super) const BEHIND: usize = WORD;

/// Bit from which on a [`Front`] has the logarithm of the alignment.
const SHIFT: u32 = 56;

/// Writes the words around a block above FFCROSSOVER.
///
/// # Safety
/// The caller owns the memory from [`FRONT`] bytes before the block to [`BEHIND`] bytes behind its
/// `size` bytes.
pub(super) unsafe fn enclose(block: NonNull<u8>, size: usize, align: usize) {
    let canary = canary(block);
    let requested = size as u64 | u64::from(align.trailing_zeros()) << SHIFT;
    // SAFETY: the caller owns this memory.
    unsafe {
        block
            .sub(FRONT)
            .cast::<Front>()
            .write_unaligned(Front { requested: requested ^ canary, canary: !canary });
        block.add(size).cast::<u64>().write_unaligned(canary);
    }
}

/// Returns the requested bytes of a block above FFCROSSOVER, and its alignment; `None` if the words
/// before it were overwritten.
///
/// # Safety
/// The block is in use, and was [enclosed](enclose).
pub(super) unsafe fn enclosed(block: NonNull<u8>) -> Option<(usize, usize)> {
    let canary = canary(block);
    // SAFETY: the words before an enclosed block can be read.
    let front = unsafe { block.sub(FRONT).cast::<Front>().read_unaligned() };
    let requested = front.requested ^ canary;
    let align = 1_usize.checked_shl((requested >> SHIFT) as u32)?;
    let size = usize::try_from(requested & ((1 << SHIFT) - 1)).ok()?;
    (front.canary == !canary && size <= isize::MAX as usize).then_some((size, align))
}

/// Replaces the words around such a block by zeros: what they tell must not get into a block that
/// is handed out there next.
///
/// # Safety
/// As for [`enclose`]; the block is not in use any more.
pub(super) unsafe fn erase(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller owns this memory.
    unsafe {
        block.sub(FRONT).write_bytes(0, FRONT);
        block.add(size).write_bytes(0, BEHIND);
    }
}

/// Returns whether the word behind such a block is intact.
///
/// # Safety
/// As for [`enclosed`], which returned this `size`.
pub(super) unsafe fn is_closed(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the word behind an enclosed block can be read.
    unsafe { block.add(size).cast::<u64>().read_unaligned() == canary(block) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A canary of any length is as it was written until a byte of its first or last word changes;
    /// requested bytes may change.
    #[test]
    fn a_change_of_a_canary_is_noticed() {
        #[repr(align(16))]
        struct Memory([u8; 64]);
        for size in [16, 32, 64] {
            let mut memory = Memory(core::array::from_fn(|at| at as u8));
            let block = NonNull::from(&mut memory.0).cast::<u8>();
            for slack in 0..=size {
                for far in [false, true].into_iter().take(if slack < 2 * WORD { 1 } else { 2 }) {
                    // SAFETY: the memory has this many bytes, and nothing else uses it.
                    let known = |known| unsafe { super::slack(block, size, known) };
                    // SAFETY: as above.
                    unsafe { write(block, size, slack, far) };
                    if far {
                        assert_eq!(known(None), Some(slack), "{size}");
                        continue;
                    }
                    assert_eq!(known(Some(slack)), Some(slack), "{size}");
                    for at in 0..size {
                        let is_in_ends = at < size - slack + WORD || at >= size - WORD;
                        let is_noticed = at >= size - slack && is_in_ends;
                        // SAFETY: as above.
                        let flip = || unsafe { block.add(at).write(!block.add(at).read()) };
                        flip();
                        let expected = if is_noticed { None } else { Some(slack) };
                        assert_eq!(known(Some(slack)), expected, "{at} of {size}, {slack}");
                        flip();
                    }
                }
            }
        }
    }

    /// The words around a block are zeros once they are erased, and nothing else changes.
    #[test]
    fn nothing_is_left_of_erased_words() {
        let mut memory = [7_u128; 8];
        let block = NonNull::from(&mut memory[2]).cast::<u8>();
        // SAFETY: the memory has one unit before the block, and more than one behind it.
        let bytes = unsafe {
            enclose(block, 35, 16);
            assert_eq!(enclosed(block), Some((35, 16)));
            erase(block, 35);
            core::slice::from_raw_parts(block.sub(32).as_ptr(), 128)
        };
        let is_erased = |at: usize| (16..32).contains(&at) || (67..75).contains(&at);
        assert!((0..128).all(|at| bytes[at] == if is_erased(at) || at % 16 > 0 { 0 } else { 7 }));
    }

    /// Different blocks, and different secrets, give different canaries, none with a zero byte.
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
        let places = [0_u128; 8];
        let of_blocks = places.iter().map(|place| canary(NonNull::from(place).cast()));
        assert_eq!(of_blocks.collect::<HashSet<u64>>().len(), places.len(), "each has its own");
    }
}
