//! Blocks that are mappings of their own: the largest, and large ones that must be zeros.
//!
//! ```text
//!             base          block − 64   block                         base + len
//!  | (guard) | unused     | header     | contents … (fence)          | (guard) |
//! ```
//! The block lies at the first multiple of its alignment behind the header, but 64 bytes behind it
//! at least; one that is as large as a huge page at the start of one, where addresses allow. Growing is `mremap`: pages
//! are moved, not copied, and huge ones stay whole. In hardened mode there are guard pages on both
//! sides, and a fence behind the contents as there always is one before.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::apart::Apart;
use super::fault::{self, Fault};
use super::huge::{self, HUGE};
use super::kept;
use super::lock::Locked;
use super::mode;
use super::refused;
use super::space::SPACE;
use super::visit::Visit;
use crate::os;

/// What stands before the contents.
#[repr(C, align(64))]
struct Header {
    /// [`mark`] of the block: tells a block from any other address.
    mark: usize,
    base: *mut u8,
    len: usize,
    /// Bytes of each guard page; 0: there is none, nor a fence behind the contents.
    guard: usize,
    /// Bytes of the contents that were asked for last.
    size: usize,
    /// The mark again, up to the contents: who writes before a block's start writes here.
    fence: [usize; FENCE],
}

const HEADER: usize = size_of::<Header>();

/// Words of the fence.
const FENCE: usize = 64 / size_of::<usize>() - 5;

/// Bytes of the fence behind the contents.
const BEHIND: usize = size_of::<[usize; 2]>();

/// Writes the header of a block of `size` bytes, and the fence behind if there is one.
///
/// # Safety
/// The block lies in this mapping, [`HEADER`] bytes behind its start at least, and has room.
unsafe fn write_header(block: *mut u8, (base, len): (*mut u8, usize), guard: usize, size: usize) {
    let mark = mark(block);
    // SAFETY: the caller's promise.
    unsafe {
        header(block).write(Header { mark, base, len, guard, size, fence: [mark; FENCE] });
        if guard > 0 {
            block.add(size).cast::<[usize; 2]>().write_unaligned([mark; 2]);
        }
    }
}

/// Mappings in use: number, bytes, the most bytes there ever were, and the same with those that were kept.
struct InUse {
    count: AtomicUsize,
    bytes: AtomicUsize,
    most: AtomicUsize,
    peak: AtomicUsize,
}

static IN_USE: Apart<InUse> = Apart::new(InUse {
    count: AtomicUsize::new(0),
    bytes: AtomicUsize::new(0),
    most: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
});

fn mark(block: *mut u8) -> usize {
    block.addr() ^ 0x7061_6765_7769_7365_u64 as usize
}

/// Number of mappings in use, their bytes, and the most bytes there ever were, those kept among them.
pub(super) fn usage() -> (usize, usize, usize) {
    (IN_USE.count.load(Relaxed), IN_USE.bytes.load(Relaxed), IN_USE.peak.load(Relaxed))
}

/// Counts bytes of mappings in use. Of those kept, as many go back as are more with them than there ever were in use.
fn counted(added: usize, removed: usize) {
    let bytes = IN_USE.bytes.fetch_add(added.wrapping_sub(removed), Relaxed);
    let bytes = bytes.wrapping_add(added).wrapping_sub(removed);
    let most = IN_USE.most.fetch_max(bytes, Relaxed).max(bytes);
    let excess = bytes.saturating_add(kept::bytes()).saturating_sub(most);
    if added > removed && excess > 0 {
        kept::give_back(excess);
    }
    IN_USE.peak.fetch_max(bytes.saturating_add(kept::bytes()), Relaxed);
}

/// Whether blocks of such sizes lie at the start of a huge page: where the rest of a mapping can be given up.
fn starts_huge_page(size: usize) -> bool {
    size >= HUGE && !mode::has_guards() && !os::IN_RESERVATIONS && cfg!(not(miri))
}

/// A block of `size` bytes, zeros, at a multiple of `align`; `huge` is what the kernel is told of huge
/// pages, if anything. `None` if there is no memory, or no [`Layout`] of this size and alignment.
pub(super) fn allocate(size: usize, align: usize, huge: Option<bool>) -> Option<NonNull<u8>> {
    Layout::from_size_align(size, align).ok()?;
    // There may be too few addresses for that.
    let roomy = starts_huge_page(size).then(|| allocate_at(size, align.max(HUGE), huge)).flatten();
    let any = roomy.or_else(|| allocate_at(size, align, huge));
    any.or_else(|| {
        let any_kept = kept::give_back(usize::MAX);
        let again = refused::retry(&mut Visit::unbounded()) || any_kept;
        again.then(|| allocate_at(size, align, huge)).flatten()
    })
}

/// A block as [`allocate`] has it, in memory that is kept, which may hold anything, or begins there; `None` if there is none.
/// `lengthen`: whether memory may be added to what is kept, which is to be of huge pages where that was written all over.
pub(super) fn allocate_kept(
    size: usize,
    align: usize,
    delay: u32,
    lengthen: Option<bool>,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    if align > HUGE || !starts_huge_page(size) {
        return None;
    }
    let len = size.checked_next_multiple_of(page)?.checked_add(page)?;
    let base = kept::take(len, delay).or_else(|| allocate_beyond_kept(len, lengthen?))?;
    let block = base.wrapping_add(page);
    // SAFETY: the pages are nobody else's.
    unsafe { write_header(block, (base, len), 0, size) };
    IN_USE.count.fetch_add(1, Relaxed);
    counted(len, 0);
    NonNull::new(block)
}

/// A mapping of `len` bytes for a block at the start of a huge page, an OS page behind its base, that begins with memory that
/// is kept.
fn allocate_beyond_kept(len: usize, follow: bool) -> Option<*mut u8> {
    let page = os::page_size();
    let (start, part) = kept::take_part(len)?;
    if part == len {
        return Some(start);
    }
    let dense = follow && huge::is_dense(start, part);
    // SAFETY: the pages are nobody else's; a block at the start of a huge page needs no more to be moved.
    unsafe {
        let Some(base) = lengthen_whole((start, part), page, len) else {
            kept::put_back(start, part);
            return None;
        };
        if dense {
            os::advise_huge_pages(base, len, true);
        }
        Some(base)
    }
}

/// As [`allocate`], of a size and an alignment that make a [`Layout`], or an alignment to [`HUGE`].
fn allocate_at(size: usize, align: usize, huge: Option<bool>) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // The kernel aligns to an OS page; the rest is made by leaving memory out.
    let offset = HEADER.max(align);
    let (guard, behind) = if mode::has_guards() { (page, BEHIND) } else { (0, 0) };
    let spare = if align > page { align } else { 0 };
    let rounded = size.checked_add(offset + behind)?.checked_next_multiple_of(page)?;
    let mapped = rounded.checked_add(spare + 2 * guard)?;
    let memory = os::allocate(mapped)?;
    if SPACE.meets(memory, mapped) {
        // SAFETY: nobody uses what was mapped just now.
        unsafe { refused::release(memory, mapped) };
        return None;
    }
    let first = memory.wrapping_add(guard + HEADER);
    let block = first.wrapping_add(first.align_offset(align));
    let base = memory.with_addr((block.addr() - HEADER) & !(page - 1));
    let end = memory.with_addr((block.addr() + size + behind).next_multiple_of(page));
    let len = end.addr() - base.addr();
    // SAFETY: the pages before the header's and behind the contents are not used; the header's are
    // part of the mapping.
    unsafe {
        refused::release(memory, base.addr() - guard - memory.addr());
        refused::release(end.add(guard), memory.addr() + mapped - guard - end.addr());
        if guard > 0 {
            os::guard(base.sub(guard), guard);
            os::guard(end, guard);
        }
        if let Some(wanted) = huge {
            os::advise_huge_pages(base, len, wanted);
        }
        write_header(block, (base, len), guard, size);
    }
    IN_USE.count.fetch_add(1, Relaxed);
    counted(len, 0);
    NonNull::new(block)
}

fn header(block: *mut u8) -> *mut Header {
    block.wrapping_sub(HEADER).cast()
}

/// The header of a block that lies in no slot. Stops the process if it is
/// none of ours.
///
/// # Safety
/// The address is a block of this allocator; a best effort is made to notice that it is not.
unsafe fn known(block: *mut u8) -> &'static mut Header {
    let is_readable = || {
        // A block is measured, too, and that has no error to tell of.
        let _errno = os::KeepErrno::new();
        os::is_readable(header(block).cast())
    };
    if block.addr().is_multiple_of(HEADER) && is_readable() {
        // SAFETY: a block has its header before it, and whatever is there can be read.
        let header = unsafe { &mut *header(block) };
        if header.mark == mark(block) {
            if header.fence != [mark(block); FENCE] {
                fault::stop(Fault::Underflow, block);
            }
            // SAFETY: the fence lies behind the contents.
            let behind = || unsafe { block.add(header.size).cast::<[usize; 2]>().read_unaligned() };
            if header.guard > 0 && behind() != [mark(block); 2] {
                fault::stop(Fault::Overflow, block);
            }
            return header;
        }
    }
    fault::stop(Fault::NoBlock, block)
}

/// Bytes the block has: with a fence behind them what was asked for, else what there is.
///
/// # Safety
/// The block is a mapping in use.
pub(super) unsafe fn len_of(block: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    let &mut Header { base, len, guard, size, .. } = unsafe { known(block) };
    if guard > 0 { size } else { base.addr() + len - block.addr() }
}

/// Bytes that were asked for last.
///
/// # Safety
/// The block is a mapping in use.
pub(super) unsafe fn requested(block: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { known(block) }.size
}

/// Has the kernel use huge pages for a block.
///
/// # Safety
/// The block is a mapping in use.
pub(super) unsafe fn advise_huge_pages(block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let &mut Header { base, len, .. } = known(block);
        os::advise_huge_pages(base, len, true);
    }
}

/// Frees a block; whether its memory is [kept](kept), for about so many milliseconds.
///
/// # Safety
/// The block is a mapping in use, and is not used any more.
pub(super) unsafe fn deallocate(block: *mut u8, delay: u32) -> bool {
    // SAFETY: the caller's promise; the header is read before its memory goes.
    unsafe {
        let &mut Header { base, len, guard, .. } = known(block);
        (*header(block)).mark = 0;
        IN_USE.count.fetch_sub(1, Relaxed);
        counted(0, len);
        if guard > 0 {
            keep_closed(base.sub(guard), len + 2 * guard);
            return false;
        }
        let is_whole = block.addr().is_multiple_of(HUGE) && starts_huge_page(len);
        let most = IN_USE.most.load(Relaxed).saturating_sub(IN_USE.bytes.load(Relaxed));
        let is_kept = is_whole && !mode::is_hardened() && kept::keep(base, len, most, delay);
        if !is_kept {
            refused::release(base, len);
        }
        is_kept
    }
}

/// Freed mappings whose addresses stay taken, by turns: whoever still has a pointer there meets nothing rather
/// than another block.
struct Closed {
    mappings: [(usize, usize); 64],
    turn: usize,
}

static CLOSED: Apart<Locked<Closed>> =
    Apart::new(Locked::new(Closed { mappings: [(0, 0); 64], turn: 0 }));

/// Gives the memory of a mapping back, and its addresses once some others were freed.
///
/// # Safety
/// The pages were mapped here and are not used any more.
unsafe fn keep_closed(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    let closed = unsafe { os::close(start, len) };
    // Nobody waits here: a fork may have lost the lock.
    let oldest = closed.then(|| {
        CLOSED.try_with(|closed| {
            let turn = closed.turn % closed.mappings.len();
            closed.turn += 1;
            core::mem::replace(&mut closed.mappings[turn], (start.addr(), len))
        })
    });
    let (address, bytes) = oldest.flatten().unwrap_or((start.addr(), len));
    if bytes > 0 {
        // SAFETY: the pages were mapped here, are not used, and known by nobody else any more.
        unsafe { refused::release(start.with_addr(address), bytes) };
    }
}

/// Makes a block longer or shorter; it may move if its alignment allows.
///
/// # Safety
/// The block is a mapping in use, at a multiple of `align`; if this succeeds only the block
/// returned is used.
/// `follow`: what is added to a block that was written all over is to be of huge pages.
pub(super) unsafe fn resize(
    block: *mut u8,
    align: usize,
    new_size: usize,
    follow: bool,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // SAFETY: the caller's promise; a mapping that moves keeps its contents, the header among them.
    unsafe {
        let &mut Header { base, len, guard, ref mut size, .. } = known(block);
        let offset = block.addr() - base.addr();
        let behind = if guard > 0 { BEHIND } else { 0 };
        let new_len = offset.checked_add(new_size)?.checked_add(behind)?;
        let new_len = new_len.checked_next_multiple_of(page)?;
        // Unsigned arithmetic allows for more than a block may have.
        isize::try_from(new_len).ok()?;
        if guard > 0 {
            if new_len > len {
                // What grows once mostly grows again: with room for that it stays, and room untouched
                // takes no memory.
                let roomy = new_len.saturating_add(new_len / 8) & !(page - 1);
                let moves = align <= page;
                return moves.then(|| move_guarded(block, offset, roomy, new_size)).flatten();
            }
            if new_len < len / 2 {
                return None;
            }
            write_header(block, (base, len), guard, new_size);
        } else if new_len <= len {
            *size = new_size;
            // What cannot be cut off stays, as room.
            if new_len < len && os::release(base.wrapping_add(new_len), len - new_len) {
                write_header(block, (base, new_len), guard, new_size);
                counted(new_len, len);
            }
        } else {
            // What was asked for already holds for what is added to the last huge page.
            let reaches = new_len / HUGE > len / HUGE;
            let dense = follow && reaches && huge::is_dense(block, len - offset);
            let stays = kept::extends(base.add(len), new_len - len).then_some(base);
            let base = stays
                .or_else(|| lengthen_whole((base, len), offset, new_len))
                .or_else(|| lengthen((base, len), new_len, align <= page))?;
            if dense {
                os::advise_huge_pages(base, new_len, true);
            }
            let block = base.wrapping_add(offset);
            write_header(block, (base, new_len), guard, new_size);
            counted(new_len, len);
            return NonNull::new(block);
        }
        NonNull::new(block)
    }
}

/// Makes a mapping longer whose block lies at the start of a huge page, `offset` bytes behind its base, so that it does
/// still, and its huge pages stay whole; `None` if that cannot be done.
///
/// # Safety
/// As for [`resize`]; `new_len` is more than the mapping's length.
unsafe fn lengthen_whole(
    (base, len): (*mut u8, usize),
    offset: usize,
    new_len: usize,
) -> Option<*mut u8> {
    if !base.addr().wrapping_add(offset).is_multiple_of(HUGE) || !starts_huge_page(new_len) {
        return None;
    }
    // SAFETY: the caller's promise; the pages that are moved to are ours, and hold nothing.
    unsafe {
        if let Some(base) = lengthen((base, len), new_len, false) {
            return Some(base);
        }
        if !os::MOVES {
            return None;
        }
        // What grows mostly grows again: with addresses left free behind it, it can stay then.
        let room = new_len.checked_add(new_len / 2)? & !(os::page_size() - 1);
        let reserved = room.checked_add(HUGE)?;
        let memory = os::reserve(reserved)?;
        let skipped = base.addr().wrapping_sub(memory.addr()) % HUGE;
        let to = memory.add(skipped);
        if SPACE.meets(memory, reserved) {
            refused::release(memory, reserved);
            return None;
        }
        if !os::move_into((base, len), (memory, reserved), to, new_len) {
            return None;
        }
        refused::release(memory, skipped);
        refused::release(to.add(new_len), reserved - skipped - new_len);
        Some(to)
    }
}

/// Makes a mapping longer where it is, or moves it if it may, but not to where heaps lie: what is freed there would be
/// taken for a heap's.
///
/// # Safety
/// As for [`resize`]; `new_len` is more than the mapping's length.
unsafe fn lengthen(
    (base, len): (*mut u8, usize),
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    // SAFETY: the caller's promise; what the kernel moved is known to nobody yet.
    unsafe {
        let moved = os::remap(base, len, new_len, may_move)?;
        if !SPACE.meets(moved, new_len) {
            return Some(moved);
        }
        if moved == base {
            refused::release(base.add(len), new_len - len);
            return None;
        }
        // It moves on, or else back to where it was.
        let there = os::allocate(new_len).filter(|&there| {
            let meets = SPACE.meets(there, new_len);
            if meets {
                refused::release(there, new_len);
            }
            !meets
        });
        let Some(to) = there.or_else(|| os::map_at(base, len).then_some(base)) else {
            os::abort();
        };
        to.copy_from_nonoverlapping(moved, len);
        refused::release(moved, new_len);
        there
    }
}

/// Moves a block between other guard pages, where it has more room.
///
/// # Safety
/// As for [`resize`]; the block lies between guard pages, `offset` bytes behind its base, and needs
/// `new_len` bytes from there, more than it has.
unsafe fn move_guarded(
    block: *mut u8,
    offset: usize,
    new_len: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    if !os::MOVES {
        return None;
    }
    // SAFETY: the caller's promise; the pages that are moved to are ours, and hold nothing.
    unsafe {
        let &mut Header { base, len, guard, .. } = known(block);
        let reserved = new_len.checked_add(2 * guard)?;
        let memory = os::reserve(reserved)?;
        if SPACE.meets(memory, reserved) {
            refused::release(memory, reserved);
            return None;
        }
        let new_base = memory.add(guard);
        if !os::move_into((base, len), (memory, reserved), new_base, new_len) {
            return None;
        }
        refused::release(base.sub(guard), guard);
        refused::release(base.add(len), guard);
        let block = new_base.add(offset);
        write_header(block, (new_base, new_len), guard, new_size);
        counted(new_len, len);
        NonNull::new(block)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
