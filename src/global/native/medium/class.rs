//! The classes of medium blocks, and the marks of those that have one.

use super::super::sizes;
use super::super::tuning::SMALL_MAX;

/// Sizes above this and up to [`MOST`] have classes.
pub(super) const ABOVE: usize = FIRST - STEP;
pub(super) const MOST: usize = 128 << 10;

/// The least class, bytes; classes of each doubling above it, and bytes between the first of them.
const FIRST: usize = 16 << 10;
const STEPS: usize = 8;
pub(super) const STEP: usize = FIRST / STEPS;
pub(super) const CLASSES: usize = 1 + STEPS * (MOST / FIRST).ilog2() as usize;

/// The size of a class's blocks: the most that is rounded up to it.
const fn size_of_class(class: usize) -> usize {
    match class.checked_sub(1) {
        Some(above) => (STEP << (above / STEPS)) * (STEPS + 1 + above % STEPS),
        None => FIRST,
    }
}

/// A class: its number and its size, as a [mark] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) u32);

/// The class of each step of sizes; 0: none.
static CLASS: [u32; MOST / STEP] = {
    let mut of_step = [0; MOST / STEP];
    let mut class = CLASSES;
    while class > 0 {
        class -= 1;
        let mut step = size_of_class(class) / STEP;
        while step > ABOVE / STEP {
            step -= 1;
            of_step[step] = mark::class(class, size_of_class(class));
        }
    }
    of_step
};

impl Class {
    /// The class of a size, if it has one.
    #[inline(always)]
    pub(super) fn of(size: usize) -> Option<Self> {
        let class = *CLASS.get(size.wrapping_sub(1) / STEP)?;
        (class > 0).then_some(Self(class))
    }

    /// The class of a size that has one, and no quick list: to that goes what a Rust program frees with its size.
    pub(super) fn served(size: usize) -> Option<Self> {
        Self::of(size).filter(|_| size > SMALL_MAX || sizes::offset(size) == 0)
    }

    /// As [`served`](Self::served), unless all blocks take the slow path.
    #[inline(always)]
    pub(super) fn served_at_once(size: usize) -> Option<Self> {
        if size > MOST || size <= sizes::most_small() {
            return None;
        }
        // SAFETY: the size is at least 1, and at most that of the last step.
        Some(Self(unsafe { *CLASS.get_unchecked((size - 1) / STEP) }))
    }

    #[inline(always)]
    pub(super) fn number(self) -> usize {
        mark::number(self.0)
    }

    /// Bytes of its blocks.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        self.steps() * STEP
    }

    /// Steps of its blocks.
    #[inline(always)]
    pub(super) fn steps(self) -> usize {
        mark::steps(self.0)
    }

    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..CLASSES).map(|class| Self(mark::class(class, size_of_class(class))))
    }
}

/// A mark: what is known of the block that starts in a granule; 0 if that is none that has a class.
///
/// ```text
///  bit 31 … 18                      13       12     11 … 7   6 … 0
///  | start within its granule | 0 | known | kept | class  | steps of its size |
/// ```
pub(super) mod mark {
    use super::super::super::tuning::GRANULE;
    use super::{CLASSES, MOST, STEP};

    pub(in super::super) const NONE: u32 = 0;
    pub(in super::super) const KEPT: u32 = 1 << 12;
    const KNOWN: u32 = 1 << 13;
    const PLACE: u32 = GRANULE.leading_zeros() + 1 + u32::BITS - usize::BITS;
    const CLASS: u32 = 7;
    const _: () = assert!(MOST / STEP < 1 << CLASS && (CLASSES as u32) << CLASS <= KEPT);
    const _: () = assert!(1 << PLACE > KNOWN);

    /// What the marks of all blocks of a class have in common.
    pub(super) const fn class(number: usize, size: usize) -> u32 {
        (number as u32) << CLASS | (size / STEP) as u32
    }

    #[inline(always)]
    pub(super) fn number(class: u32) -> usize {
        (class >> CLASS) as usize
    }

    #[inline(always)]
    pub(super) fn steps(class: u32) -> usize {
        (class % (1 << CLASS)) as usize
    }

    /// The mark of a block of a class, in use.
    #[inline(always)]
    pub(in super::super) fn in_use(block: *mut u8, class: u32) -> u32 {
        place(block) | KNOWN | class
    }

    /// Where in its granule a block starts. (Slots are aligned to granules.)
    #[inline(always)]
    fn place(block: *mut u8) -> u32 {
        (block.addr() as u32) << PLACE
    }

    /// The class that a mark tells of this block, whether it is kept or not, if it does.
    #[inline(always)]
    pub(in super::super) fn class_of(mark: u32, block: *mut u8) -> Option<u32> {
        class_in_use(mark & !KEPT, block)
    }

    /// The class that a mark tells of this block, if it is in use and has one.
    #[inline(always)]
    pub(in super::super) fn class_in_use(mark: u32, block: *mut u8) -> Option<u32> {
        // What is left without the bits that it must have.
        let class = mark ^ in_use(block, 0);
        (class < KEPT).then_some(class)
    }
}
