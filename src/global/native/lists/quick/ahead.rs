//! Fetching ahead of frees.
//!
//! A program that drops a large structure reads each block just before it frees it, mostly in the
//! order in which the blocks were allocated, which is that of their addresses. But it reads them
//! at several places of its code, or jumps ahead within a tree, so the processor does not notice
//! the order, and each read waits for memory. The list of the blocks' class does notice: while it
//! puts batches of neighbours back to their heap, it also stops after each [`GROUP`] of blocks, to
//! have the processor fetch the next ones. A list on which blocks come and go never stops, nor does
//! one whose thread frees so [fast](Pace) that it does not wait: it does not read the blocks.
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

/// Steps from one block to the next that are looked at.
const LOOKS: usize = 8;

/// How many of these must agree.
const AGREE: usize = 6;

/// How fast a thread frees while it puts back one batch after the other.
#[derive(Debug)]
pub(super) struct Pace {
    /// The thread's processor time in nanoseconds when the pace was last determined.
    since: Cell<u64>,
    /// Batches since then.
    batches: Cell<u32>,
    /// Blocks since then.
    blocks: Cell<u32>,
    /// Whether the pace is slow.
    is_slow: Cell<bool>,
}

/// Batches over which the pace is determined: reading the clock takes as long as dozens of frees.
const BATCHES: u32 = 8;

/// A fast pace becomes slow at this many nanoseconds for each block. Waiting for memory takes
/// dozens of them.
const SLOW: u64 = 16;

/// A slow pace becomes fast below this many: fetching ahead makes frees faster, and must not switch
/// itself off.
const STILL_SLOW: u64 = 8;

impl Pace {
    /// Notes that a batch of `blocks` blocks was put back; returns whether the pace is slow.
    /// `is_first`: it is the first of a streak. `clock` returns the thread's processor time in
    /// nanoseconds.
    pub(super) fn note(&self, blocks: u32, is_first: bool, clock: impl FnOnce() -> u64) -> bool {
        self.batches.set(self.batches.get() + 1);
        self.blocks.set(self.blocks.get().saturating_add(blocks));
        if is_first || self.batches.get() >= BATCHES {
            let (now, blocks) = (clock(), self.blocks.replace(0).max(1));
            let each = now.saturating_sub(self.since.replace(now)) / u64::from(blocks);
            let slow = if self.is_slow.get() { STILL_SLOW } else { SLOW };
            self.is_slow.set(!is_first && each >= slow);
            self.batches.set(0);
        }
        self.is_slow.get()
    }

    /// Sets the pace, for as long as the clock is not read again.
    #[cfg(test)]
    pub(super) fn set(&self, slow: bool) {
        self.batches.set(0);
        self.is_slow.set(slow);
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
            [32, 24, 20, 16, 0].map(|from| step_of(48, spread(from)).is_some()),
            [true, true, false, false, false]
        );
    }

    /// The pace is that of eight batches of a streak. It stays slow down to half of what made it
    /// so, and a new streak begins fast.
    #[test]
    fn the_pace_is_determined_over_several_batches() {
        let zero = || Cell::new(0);
        let pace = Pace {
            since: Cell::new(0),
            batches: zero(),
            blocks: zero(),
            is_slow: Cell::new(false),
        };
        let mut now = 0;
        let mut batches = |each: u64| {
            let mut noted = [false; 8];
            for noted in &mut noted {
                now += 100 * each;
                *noted = pace.note(100, false, || now);
            }
            noted
        };
        let becomes = |slow: bool| core::array::from_fn(|nth| slow == (nth == 7));
        assert!(!pace.note(7, true, || 0));
        assert_eq!(batches(SLOW - 1), [false; 8]);
        assert_eq!(batches(SLOW), becomes(true));
        assert_eq!(batches(STILL_SLOW), [true; 8]);
        assert_eq!(batches(STILL_SLOW - 1), becomes(false));
        assert_eq!(batches(STILL_SLOW), [false; 8]);
        assert_eq!(batches(SLOW), becomes(true));
        assert!(!pace.note(100, true, || 1 << 40));
        // A clock that stands still.
        assert!((0..20).all(|_| !pace.note(100, false, || 1 << 40)));
    }
}
