//! Blocks that are mappings of their own: the largest, large ones that grew or are in kept memory,
//! and those for which no heap has room.
//!
//! ```text
//!             base          block − 64   block                         base + len
//!  | (guard) | unused     | header     | contents … (fence)          | (guard) |
//! ```
//! The block is at the first multiple of its alignment that leaves 64 bytes for the header; one of
//! at least a huge page starts on one, if there are enough addresses. Growing is `mremap`: pages
//! are moved, not copied, and huge ones stay whole. In hardened mode there may be guard pages on
//! both sides, with a second fence behind the contents.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use super::kept;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::{outside, refused};
use crate::os::{self, OsPageRun};

mod assembly;
mod closed;
mod header;
mod in_use;
mod known;
mod lengthen;
mod resize;

use assembly::assemble;
pub(in crate::global::native) use closed::give_back as give_back_closed;
#[cfg(all(test, not(miri)))]
use header::header;
use header::{BEHIND, HEADER, Header, checked_header, starts_huge_page, take_mark, write_header};
use in_use::{IN_USE, count_bytes};
pub(in crate::global::native) use in_use::{after_fork_in_child, usage};
use lengthen::lengthen_whole;
pub(in crate::global::native) use resize::{resize, shorten};

/// Allocates `size` zero bytes aligned to `align`, and gives the kernel the advice `huge` on huge
/// pages, if any. `None` if there is no memory, or no [`Layout`] of this size and alignment.
pub(in crate::global::native) fn allocate(
    size: usize,
    align: usize,
    huge: Option<bool>,
) -> Option<NonNull<u8>> {
    Layout::from_size_align(size, align).ok()?;
    // There may be too few addresses for this alignment.
    let roomy = starts_huge_page(size).then(|| allocate_at(size, align.max(HUGE), huge)).flatten();
    let any = roomy.or_else(|| allocate_at(size, align, huge));
    any.or_else(|| {
        let any_kept = kept::give_back(usize::MAX) | closed::give_back();
        let again = refused::retry(&mut Visit::unbounded()) || any_kept;
        again.then(|| allocate_at(size, align, huge)).flatten()
    })
}

/// Whether memory may be added to a kept run that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Lengthen {
    No,
    /// Without advice.
    Plainly,
    /// With huge pages if the run was written all over.
    Adaptively,
    /// In the same way, but in one piece, so that the block can move when it grows.
    InOnePiece,
}

/// Allocates in kept memory, which may hold anything; `delay` is the purge delay in milliseconds.
/// `None` if no run serves.
pub(in crate::global::native) fn allocate_kept(
    size: usize,
    align: usize,
    delay: u32,
    lengthen: Lengthen,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    if align > HUGE || !starts_huge_page(size) {
        return None;
    }
    let len = size.checked_next_multiple_of(page)?.checked_add(page)?;
    // What another thread frees meanwhile is kept only if there is room for both.
    IN_USE.pending.fetch_add(len, Relaxed);
    let base = kept::take(len, delay).or_else(|| allocate_beyond_kept(len, lengthen));
    in_use::end_pending(len);
    let base = base?;
    let block = base.wrapping_add(page);
    // SAFETY: the pages were taken just now, so nobody else has them; the block is behind the
    // first, which has room for the header.
    unsafe { write_header(block, OsPageRun { start: base, len }, 0, size) };
    IN_USE.count.fetch_add(1, Relaxed);
    count_bytes(len, 0);
    NonNull::new(block)
}

/// Makes a mapping of `len` bytes that begins with kept memory, for a block that starts on a huge
/// page, an OS page behind the result.
fn allocate_beyond_kept(len: usize, lengthen: Lengthen) -> Option<*mut u8> {
    if lengthen == Lengthen::No {
        return None;
    }
    let page = os::page_size();
    let part = kept::take_part(len)?;
    if part.len == len {
        return Some(part.start);
    }
    let is_dense = huge::is_dense(part.start, part.len);
    // To move pages that were never written is dearer than to map new ones.
    let may_assemble = is_dense && lengthen != Lengthen::InOnePiece && os::MOVES;
    // SAFETY: the pages were taken just now, so nobody else has them; a block one OS page behind
    // their start is on a huge page, and they are longer than both.
    unsafe {
        let others_help = may_assemble && kept::bytes() >= kept::LEAST;
        let longer = (!others_help).then(|| lengthen_whole(part, page, HUGE, len));
        let base = match longer.flatten() {
            Some(base) => base,
            None if may_assemble => assemble(part, page, len)?,
            None => {
                kept::put_back(part.start, part.len);
                return None;
            }
        };
        if is_dense && lengthen != Lengthen::Plainly {
            os::advise_huge_pages(base, len, true);
        }
        Some(base)
    }
}

/// Allocates as [`allocate`]. Size and alignment are a [`Layout`]'s, or the alignment is [`HUGE`].
fn allocate_at(size: usize, align: usize, huge: Option<bool>) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // The kernel aligns to an OS page. The block starts at most this far behind it, and the surplus
    // is unmapped.
    let offset = HEADER.max(align);
    let (guard, behind) = if mode::has_guards() { (page, BEHIND) } else { (0, 0) };
    let rounded = size.checked_add(offset + behind)?.checked_next_multiple_of(page)?;
    let mapped = rounded.checked_add(2 * guard)?;
    let memory = outside::allocate(mapped)?;
    let first = memory.wrapping_add(guard + HEADER);
    let block = first.wrapping_add(first.align_offset(align));
    let base = memory.with_addr((block.addr() - HEADER) & !(page - 1));
    let end = memory.with_addr((block.addr() + size + behind).next_multiple_of(page));
    let len = end.addr() - base.addr();
    // SAFETY: the pages before the header and behind the contents are unused; the header is mapped.
    unsafe {
        refused::release(memory, base.addr() - guard - memory.addr());
        refused::release(end.add(guard), memory.addr() + mapped - guard - end.addr());
        if guard != 0 {
            os::guard(base.sub(guard), guard);
            os::guard(end, guard);
        }
        if let Some(wanted) = huge {
            os::advise_huge_pages(base, len, wanted);
        }
        write_header(block, OsPageRun { start: base, len }, guard, size);
    }
    IN_USE.count.fetch_add(1, Relaxed);
    count_bytes(len, 0);
    NonNull::new(block)
}

/// Returns the usable bytes: as requested if a fence follows, else up to the mapping's end.
///
/// # Safety
/// The block is a mapping in use.
pub(in crate::global::native) unsafe fn len_of(block: *mut u8) -> usize {
    // SAFETY: the caller guarantees that it is in use.
    let &mut Header { base, len, guard, size, .. } = unsafe { checked_header(block) };
    if guard > 0 { size } else { base.addr() + len - block.addr() }
}

/// Returns the bytes that were last requested.
///
/// # Safety
/// The block is a mapping in use.
pub(in crate::global::native) unsafe fn requested(block: *mut u8) -> usize {
    // SAFETY: the caller guarantees that it is in use.
    unsafe { checked_header(block) }.size
}

/// Advises the kernel to use huge pages for the first `most` bytes of a block, or for all it has.
///
/// # Safety
/// The block is a mapping in use.
pub(in crate::global::native) unsafe fn advise_huge_pages(block: *mut u8, most: usize) {
    // SAFETY: the caller guarantees that it is in use.
    unsafe {
        let &mut Header { base, len, .. } = checked_header(block);
        let end = (block.addr() - base.addr()).saturating_add(most).min(len);
        os::advise_huge_pages(base, end.next_multiple_of(os::page_size()), true);
    }
}

/// Frees a block. Returns whether its memory is [kept], for about `delay` milliseconds.
///
/// # Safety
/// The block is a mapping in use, and is not used any more.
pub(in crate::global::native) unsafe fn deallocate(block: *mut u8, delay: u32) -> bool {
    // SAFETY: the caller guarantees that it is in use; the header is read before its memory goes.
    unsafe {
        let &mut Header { base, len, guard, .. } = checked_header(block);
        // Of two threads that free the block at the same moment, one is stopped.
        if !take_mark(block) {
            misuse::stop(Misuse::FreedTwice, block);
        }
        known::forget(block);
        IN_USE.count.fetch_sub(1, Relaxed);
        count_bytes(0, len);
        if guard > 0 {
            closed::keep(base.sub(guard), len + 2 * guard);
            return false;
        }
        let may_keep =
            block.addr().is_multiple_of(HUGE) && starts_huge_page(len) && !mode::is_hardened();
        let balance = || {
            let in_use = IN_USE.bytes.load(Relaxed).saturating_add(IN_USE.pending.load(Relaxed));
            kept::Balance { in_use, most_kept: IN_USE.most.load(Relaxed).saturating_sub(in_use) }
        };
        let is_kept = if may_keep {
            kept::keep(base, len, balance, delay)
        } else {
            kept::forget_sample(base, len);
            false
        };
        if !is_kept {
            refused::release(base, len);
        }
        is_kept
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
