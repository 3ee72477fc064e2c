//! A header: a size and two flags, and which flags are legal where.
//!
//! | header of | size | IN_USE | PREV_IN_USE |
//! |---|---|---|---|
//! | a block in use | its cells | 1 | whether the block below is in use |
//! | a free block | its cells | 0 | the same; always 1 in a heap that joins free neighbours |
//! | a *withheld* block | its cells | 0 | 1, as in the header above it |
//! | the end of the blocks | 0 | 1 | whether the block below is in use |
//! | contents that start above their block's start | cells in between | 1 | 0 |
//! | contents that lie in no cells | 0 | 1 | 0 |
//!
//! A withheld block is not in use, but is marked as in use for its neighbours, so that nothing
//! joins it. The last two rows are headers that no walk of the blocks meets: a checked free
//! recognises them by the missing PREV_IN_USE, or by the address.

use core::ptr::NonNull;
#[cfg(all(
    feature = "os",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bitflags::bitflags;

use super::layout::HEADER;

/// Bits of a header below the size.
const SIZE_SHIFT: u32 = 2;

/// The most cells of a heap. A block has fewer.
pub(crate) const MAX_CELLS: u32 = 1 << (u32::BITS - SIZE_SHIFT);

bitflags! {
    /// The flags of a header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flags: u32 {
        /// The block is in use.
        const IN_USE = 1 << 0;
        /// The block below is in use, or there is none; else its footer can be read.
        const PREV_IN_USE = 1 << 1;
    }
}

/// A header: size and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u32);

impl Tag {
    pub(super) fn new(len: u32, flags: Flags) -> Self {
        debug_assert!(len < MAX_CELLS, "a size fits its bits");
        Self(len << SIZE_SHIFT | flags.bits())
    }

    pub(super) fn len(self) -> u32 {
        self.0 >> SIZE_SHIFT
    }

    pub(super) fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0)
    }
}

/// Returns the length in cells of a block in use, in any heap's cells; 0 if it is in no cells and
/// has a header written by [`mark_foreign`].
///
/// # Safety
/// The contents of such a block start there.
#[inline(always)]
pub(crate) unsafe fn len_at(contents: NonNull<u8>) -> u32 {
    // SAFETY: the word before a block's contents is its header.
    Tag(unsafe { contents.byte_offset(HEADER).cast::<u32>().read() }).len()
}

/// Returns whether a block is in use and has a given number of cells, according to its own header.
/// Other threads may change the header's other bits meanwhile.
///
/// # Safety
/// The contents of a block start there, and its length does not change meanwhile.
#[cfg(all(
    feature = "os",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
#[inline(always)]
pub(crate) unsafe fn is_in_use_of(contents: NonNull<u8>, cells: u32) -> bool {
    // SAFETY: the word before a block's contents is its header, which is written as an atomic one.
    let header = unsafe { AtomicU32::from_ptr(contents.byte_offset(HEADER).cast().as_ptr()) };
    let tag = Tag(header.load(Relaxed));
    Tag(tag.0 & !Flags::PREV_IN_USE.bits()) == Tag::new(cells, Flags::IN_USE)
}

/// Writes a word of the cells. A block's owner may [read](is_in_use_of) its header at the same time
/// as the heap changes it.
///
/// # Safety
/// The word may be written, and is aligned.
#[inline(always)]
pub(super) unsafe fn write_word(at: *mut u32, word: u32) {
    #[cfg(all(
        feature = "os",
        any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
        not(pagewise_forwarding)
    ))]
    // SAFETY: the caller guarantees that the word may be written, and is aligned.
    unsafe {
        AtomicU32::from_ptr(at).store(word, Relaxed);
    }
    #[cfg(not(all(
        feature = "os",
        any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
        not(pagewise_forwarding)
    )))]
    // SAFETY: the caller guarantees that the word may be written, and is aligned.
    unsafe {
        at.write(word);
    }
}

/// Writes a header before contents that are in no cells.
///
/// # Safety
/// The word before the contents is the block's, and aligned.
pub(crate) unsafe fn mark_foreign(contents: NonNull<u8>) {
    // SAFETY: the caller guarantees that the word is the block's, and aligned.
    unsafe { contents.byte_offset(HEADER).cast::<u32>().write(Tag::new(0, Flags::IN_USE).0) };
}
