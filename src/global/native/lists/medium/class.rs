//! The classes of medium blocks, and the marks of blocks that have a class.

use crate::global::native::base::sizes;
use crate::global::tuning::SMALL_MAX;

/// Sizes above this and up to [`MOST`] have classes.
pub(super) const ABOVE: usize = FIRST - STEP;

/// Up to this size a list has one class, above it one for each [`STEP`].
pub(super) const ROUNDED: usize = 128 << 10;

/// Bytes of the largest class.
pub(super) const MOST: usize = 1 << 20;

/// Bytes of the smallest class.
const FIRST: usize = 16 << 10;

/// Lists for each doubling above the smallest class.
const STEPS: usize = 8;

/// Bytes from the smallest class to the next.
pub(super) const STEP: usize = FIRST / STEPS;

/// Lists of a thread.
pub(super) const LISTS: usize = 1 + STEPS * (MOST / FIRST).ilog2() as usize;
const _: () = assert!(ABOVE == sizes::NEVER_MEDIUM);

/// Returns the largest request in bytes that a list serves.
pub(super) const fn most_of_list(list: usize) -> usize {
    match list.checked_sub(1) {
        Some(above) => (STEP << (above / STEPS)) * (STEPS + 1 + above % STEPS),
        None => FIRST,
    }
}

/// A class: the number of its list, and the size of its blocks; encoded as in a [mark].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) u32);

/// The class of each [`STEP`] of sizes; 0: none.
static CLASS: [u32; MOST / STEP] = {
    let mut of_step = [0; MOST / STEP];
    let mut list = LISTS;
    while list > 0 {
        list -= 1;
        let mut step = most_of_list(list) / STEP;
        while step > ABOVE / STEP {
            let steps = if step * STEP > ROUNDED { step } else { most_of_list(list) / STEP };
            step -= 1;
            of_step[step] = mark::class(list, steps);
        }
    }
    of_step
};

impl Class {
    /// Returns the class of `size` bytes, the least that is large enough; `None` if there is none.
    #[inline(always)]
    pub(super) fn of(size: usize) -> Option<Self> {
        let class = *CLASS.get(size.wrapping_sub(1) / STEP)?;
        (class > 0).then_some(Self(class))
    }

    /// Returns the class of `size` bytes, unless a quick list serves that size: a block that is
    /// freed with its size goes onto the quick list.
    pub(super) fn served(size: usize) -> Option<Self> {
        Self::of(size).filter(|_| size > SMALL_MAX || sizes::offset(size) == 0)
    }

    /// As [`served`](Self::served); `None` while all medium requests take the slow path.
    #[inline(always)]
    pub(super) fn served_at_once(size: usize) -> Option<Self> {
        if size > MOST || size <= sizes::most_small() {
            return None;
        }
        // SAFETY: the size is above 0, and at most that of the last step.
        Some(Self(unsafe { *CLASS.get_unchecked((size - 1) / STEP) }))
    }

    /// Returns the class of a list whose blocks have this many [`STEP`]s.
    pub(super) fn of_list(list: usize, steps: usize) -> Self {
        Self(mark::class(list, steps))
    }

    /// Returns the next larger class, if both have a list to themselves.
    pub(super) fn next(self) -> Option<Self> {
        Self::of(self.size() + 1).filter(|next| next.size() <= ROUNDED)
    }

    /// Returns the number of its list.
    #[inline(always)]
    pub(super) fn list(self) -> usize {
        mark::list(self.0)
    }

    /// Returns the bytes of its blocks.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        self.steps() * STEP
    }

    /// Returns the size of its blocks in [`STEP`]s.
    #[inline(always)]
    pub(super) fn steps(self) -> usize {
        mark::steps(self.0)
    }
}

/// A mark describes the block that starts in a granule; 0 if none that has a class does.
///
/// ```text
///  bit 31 … 18                 17      16     15 … 10  9 … 0
///  | start within its granule | known | kept | list   | steps of its size |
/// ```
pub(super) mod mark {
    use super::{LISTS, MOST, STEP};
    use crate::global::tuning::GRANULE;

    pub(in super::super) const NONE: u32 = 0;
    pub(in super::super) const KEPT: u32 = 1 << 16;
    const KNOWN: u32 = KEPT << 1;
    const PLACE: u32 = GRANULE.leading_zeros() + 1 + u32::BITS - usize::BITS;
    const LIST: u32 = 10;
    /// Where the [upper steps](upper_steps) begin.
    pub(in super::super) const STEPS_AT: u32 = u32::BITS - LIST;
    const _: () = assert!(MOST / STEP < 1 << LIST && (LISTS as u32) << LIST <= KEPT);
    const _: () = assert!(1 << PLACE > KNOWN);

    /// Returns the bits that the marks of all blocks of a class have in common.
    pub(super) const fn class(list: usize, steps: usize) -> u32 {
        (list as u32) << LIST | steps as u32
    }

    #[inline(always)]
    pub(super) fn list(class: u32) -> usize {
        (class >> LIST) as usize
    }

    /// Returns the steps in the upper bits of a word whose other bits are 0.
    #[inline(always)]
    pub(in super::super) fn upper_steps(class: u32) -> u32 {
        class << STEPS_AT
    }

    #[inline(always)]
    pub(super) fn steps(class: u32) -> usize {
        (class % (1 << LIST)) as usize
    }

    /// Returns the mark of a block in use with this class.
    #[inline(always)]
    pub(in super::super) fn in_use(block: *mut u8, class: u32) -> u32 {
        place(block) | KNOWN | class
    }

    /// Returns where in its granule a block starts. (Slots are aligned to granules.)
    #[inline(always)]
    fn place(block: *mut u8) -> u32 {
        (block.addr() as u32) << PLACE
    }

    /// Returns the class if `mark` describes this block, in use or kept.
    #[inline(always)]
    pub(in super::super) fn class_of(mark: u32, block: *mut u8) -> Option<u32> {
        class_in_use(mark & !KEPT, block)
    }

    /// Returns the class if `mark` describes this block, and it is in use.
    #[inline(always)]
    pub(in super::super) fn class_in_use(mark: u32, block: *mut u8) -> Option<u32> {
        // The bits that every mark of this block has cancel out; any other mark leaves more than a
        // class.
        let class = mark ^ in_use(block, 0);
        (class < KEPT).then_some(class)
    }
}
