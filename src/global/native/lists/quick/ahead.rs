//! Fetching ahead of frees.
//!
//! A program that drops a large structure reads each block just before it frees it, mostly in the
//! order in which the blocks were allocated, which is that of their addresses. But it reads them
//! at several places of its code, or jumps ahead within a tree, so the processor does not notice
//! the order, and each read waits for memory. The list of the blocks' class does notice: while it
//! puts batches of neighbours back to their heap, it also stops after each [`GROUP`] of blocks, to
//! have the processor fetch the next ones. A list on which blocks come and go never stops, nor does
//! one whose thread frees so [fast](Pace) that it cannot have waited: it does not read the blocks.
//!
//! ```text
//!  freed, on the list    | fetched before    fetched now       |
//!  … | group: neighbours | half a group    | half a group … and half of the next |
//! ```

use core::cell::Cell;
use core::ptr::NonNull;

/// Blocks that a list takes before it stops again, and blocks that are fetched then.
pub(super) const GROUP: usize = 32;

/// Bytes that are fetched of a block at most, from its start.
const BYTES: usize = 128;

/// Bytes that the processor fetches at a time.
const LINE: usize = 64;

/// Steps between blocks that are looked at, and how many of them must agree.
const LOOKS: usize = 8;
const AGREE: usize = 6;

/// How fast a thread frees while it puts back one batch after the other. The clock steps by
/// milliseconds, far longer than a batch takes; so many batches are looked at together, however
/// many other things the thread does in between.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the last batch was put back, in milliseconds, the lower 32 bits.
    last: Cell<u32>,
    /// Milliseconds between batches since the pace was last determined, and blocks in these.
    elapsed: Cell<u32>,
    blocks: Cell<u32>,
    is_slow: Cell<bool>,
}

/// Milliseconds over which the pace is determined, and blocks freed in each of them from which on
/// it is fast: one in ten nanoseconds, where a read from memory takes dozens.
const MEASURED: u32 = 16;
const FAST: u32 = 100_000;

impl Pace {
    /// Notes that a batch of `blocks` blocks is put back at `now`, after others in a row; returns
    /// whether the pace is slow.
    pub(super) fn note(&self, blocks: u32, now: u32) -> bool {
        let since = now.wrapping_sub(self.last.replace(now));
        // A longer time was spent on other things.
        if since <= MEASURED {
            self.elapsed.set(self.elapsed.get() + since);
            self.blocks.set(self.blocks.get().saturating_add(blocks));
        }
        if self.elapsed.get() >= MEASURED {
            let elapsed = self.elapsed.replace(0);
            self.is_slow.set(self.blocks.replace(0) / elapsed < FAST);
        }
        self.is_slow.get()
    }
}

/// Has the processor fetch blocks that are probably freed soon, given those of `size` bytes that
/// were freed last, in that order. Returns whether there are such blocks: whether most of these are
/// neighbours.
pub(super) fn fetch(freed: &[NonNull<u8>], size: usize) -> bool {
    let (Some(last), Some(step)) = (freed.last(), step(freed, size)) else { return false };
    for nth in GROUP / 2..GROUP / 2 + GROUP {
        let block = last.as_ptr().wrapping_offset(step.wrapping_mul(nth.cast_signed()));
        (0..size.min(BYTES)).step_by(LINE).for_each(|at| prefetch(block.wrapping_add(at)));
    }
    true
}

/// Returns the distance in bytes from one block to the next, if most are neighbours.
fn step(freed: &[NonNull<u8>], size: usize) -> Option<isize> {
    let steps = freed.len().checked_sub(1).filter(|&steps| steps >= LOOKS)?;
    let address = |at: usize| freed[at].addr().get();
    let found = |look| {
        let at = look * steps / LOOKS;
        address(at + 1).wrapping_sub(address(at)).cast_signed()
    };
    let goes_by = |step: &isize| (0..LOOKS).filter(|&look| found(look) == *step).count() >= AGREE;
    let size = size.cast_signed();
    [size, -size].into_iter().find(goes_by)
}

/// Has the processor fetch the line at this address, which need not exist: it is not accessed.
#[inline(always)]
fn prefetch(address: *mut u8) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
    // SAFETY: the processor has this instruction, which affects no memory and never fails.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the instruction affects no memory and never fails.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{address}]", address = in(reg) address,
            options(nostack, readonly, preserves_flags));
    }
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the step of blocks of `size` bytes that were freed at these addresses.
    fn step_of(size: usize, addresses: impl IntoIterator<Item = usize>) -> Option<isize> {
        let block = |address| NonNull::new(core::ptr::without_provenance_mut(address));
        let blocks: Vec<_> = addresses.into_iter().filter_map(block).collect();
        assert_eq!(fetch(&blocks, size), step(&blocks, size).is_some());
        step(&blocks, size)
    }

    const BASE: usize = 1 << 20;

    /// Neighbours that are freed upwards or downwards are noticed, if they are enough.
    #[test]
    fn the_order_of_frees_is_noticed() {
        for size in [16, 48, 200, 16 << 10] {
            let up = |count: usize| (0..count).map(move |nth| BASE + nth * size);
            for count in [9, 10, 32] {
                assert_eq!(step_of(size, up(count)), Some(size as isize));
                assert_eq!(step_of(size, up(count).rev()), Some(-(size as isize)));
            }
            assert!((0..9).all(|count| step_of(size, up(count)).is_none()));
        }
    }

    /// Blocks in no order have no step, nor equal ones, or those that are no neighbours.
    #[test]
    fn frees_in_no_order_have_no_step() {
        assert_eq!(step_of(48, (0..32).map(|nth| BASE + nth * 11 % 32 * 48)), None);
        assert_eq!(step_of(48, (0..32).map(|nth| BASE + nth * 96)), None);
        assert_eq!(step_of(48, [BASE; 32]), None);
    }

    /// A gap or two do not matter, half of the blocks do.
    #[test]
    fn most_blocks_decide() {
        let gaps =
            |gaps: usize| (0..33).map(move |nth| BASE + nth * 48 + nth.min(4 * gaps) / 4 * 96);
        assert!((0..=2).all(|count| step_of(48, gaps(count)).is_some()));
        let spread = |from: usize| {
            (0..33).map(move |nth: usize| BASE + 48 * (nth + nth.saturating_sub(from)))
        };
        assert_eq!(
            [32, 24, 16, 0].map(|from| step_of(48, spread(from)).is_some()),
            [true, true, false, false]
        );
    }

    /// The pace is that of many batches together, without the time spent on other things.
    #[test]
    fn the_pace_is_determined_over_many_batches() {
        let zero = || Cell::new(0);
        let pace =
            Pace { last: zero(), elapsed: zero(), blocks: zero(), is_slow: Cell::new(false) };
        let mut now = u32::MAX - 20;
        let mut batches = |each: u32, blocks| {
            let noted: Vec<_> = (0..4)
                .map(|_| {
                    now = now.wrapping_add(each);
                    pace.note(blocks, now)
                })
                .collect();
            noted
        };
        assert_eq!(batches(MEASURED + 1, 1), [false; 4]);
        assert_eq!(batches(4, 399_999), [false, false, false, true]);
        assert_eq!(batches(4, 400_000), [true, true, true, false]);
        assert_eq!(batches(MEASURED, 1), [true; 4]);
        assert_eq!(batches(MEASURED + 1, u32::MAX), [true; 4]);
        assert_eq!(batches(MEASURED, u32::MAX), [false; 4]);
    }
}
