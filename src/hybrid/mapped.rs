//! Blocks outside the contiguous heap: a large block gets a mapping of its own, which goes back to
//! the system when the block is freed (§3.2).
//!
//! The source decides whether there are mappings ([`Source::map`]): over a fixed region there are
//! none, and the heap serves requests of any size.
//!
//! ```text
//!  | … the source's … | length of the block   …  [H]| contents …
//! ```
//! H is the header of a block of 0 cells, which no block of the heap has.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::error::AllocError;
use crate::source::{OWNERS, Source};
use crate::tags::header;

/// Maps a block, and returns it with its full length.
pub(super) fn map<S: Source>(source: &mut S, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let mapped = source.map(layout)?;
    let block = mapped.cast::<u8>();
    // SAFETY: the 16 bytes below a mapped block, which is aligned to as many at least, are ours.
    unsafe {
        block.sub(OWNERS).cast::<usize>().write(mapped.len());
        header::mark_foreign(block);
    }
    Ok(mapped)
}

/// Returns the length of a mapped block in bytes.
///
/// # Safety
/// [`map`] mapped the block, and it is in use.
pub(super) unsafe fn len(block: NonNull<u8>) -> usize {
    // SAFETY: `map` wrote it there.
    unsafe { block.sub(OWNERS).cast::<usize>().read() }
}

/// Returns the length of the mapped block at this address, if one is there. O(n) in the number of
/// mappings.
pub(super) fn find<S: Source>(source: &S, address: usize) -> Option<usize> {
    let mut found = None;
    source.mapped(&mut |mapping, block| {
        if block == address {
            found = Some(mapping.end - block);
        }
    });
    found
}
