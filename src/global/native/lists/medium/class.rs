//! The classes of medium blocks, and the marks of blocks that have a class.

use crate::global::native::base::sizes;
use crate::global::tuning::SMALL_MAX;

/// Sizes above this and up to [`ROUNDED`] have classes, and so have those classes' sizes up to
/// [`MOST`].
pub(super) const ABOVE: usize = FIRST - STEP;
pub(super) const ROUNDED: usize = 128 << 10;
pub(super) const MOST: usize = 1 << 20;

/// Bytes of the smallest class; classes for each doubling above it; bytes from the smallest class
/// to the next.
const FIRST: usize = 16 << 10;
const STEPS: usize = 8;
pub(super) const STEP: usize = FIRST / STEPS;
pub(super) const CLASSES: usize = 1 + STEPS * (MOST / FIRST).ilog2() as usize;
const _: () = assert!(ABOVE == sizes::NEVER_MEDIUM);

/// Returns the size of a class's blocks in bytes: the largest request that is rounded up to it.
const fn size_of_class(class: usize) -> usize {
    match class.checked_sub(1) {
        Some(above) => (STEP << (above / STEPS)) * (STEPS + 1 + above % STEPS),
        None => FIRST,
    }
}

/// A class: its number and size, encoded as in a [mark].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) u32);

/// The class of each [`STEP`] of sizes; 0: none.
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
    /// Returns the class of `size` bytes, if there is one.
    #[inline(always)]
    pub(super) fn of(size: usize) -> Option<Self> {
        let class = *CLASS.get(size.wrapping_sub(1) / STEP)?;
        (class > 0 && Self(class).suits(size)).then_some(Self(class))
    }

    /// Checks whether a request is rounded up to this class, the least that is large enough.
    #[inline(always)]
    fn suits(self, size: usize) -> bool {
        size <= ROUNDED || size == self.size()
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
        let class = Self(unsafe { *CLASS.get_unchecked((size - 1) / STEP) });
        class.suits(size).then_some(class)
    }

    #[inline(always)]
    pub(super) fn number(self) -> usize {
        mark::number(self.0)
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

    /// Returns all classes, from the smallest up.
    pub(super) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..CLASSES).map(|class| Self(mark::class(class, size_of_class(class))))
    }
}

/// A mark describes the block that starts in a granule; 0 if none that has a class does.
///
/// ```text
///  bit 31 … 18                 17      16     15 … 10  9 … 0
///  | start within its granule | known | kept | class  | steps of its size |
/// ```
pub(super) mod mark {
    use super::{CLASSES, MOST, STEP};
    use crate::global::tuning::GRANULE;

    pub(in super::super) const NONE: u32 = 0;
    pub(in super::super) const KEPT: u32 = 1 << 16;
    const KNOWN: u32 = KEPT << 1;
    const PLACE: u32 = GRANULE.leading_zeros() + 1 + u32::BITS - usize::BITS;
    const CLASS: u32 = 10;
    const _: () = assert!(MOST / STEP < 1 << CLASS && (CLASSES as u32) << CLASS <= KEPT);
    const _: () = assert!(1 << PLACE > KNOWN);

    /// Returns the bits that the marks of all blocks of a class have in common.
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
