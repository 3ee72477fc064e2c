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
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::kept;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::memory::fault::{self, Fault};
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::refused;
use crate::global::native::memory::space::SPACE;
use crate::os;

mod assembly;
mod known;
mod outside;

use assembly::assemble;

/// The header before the contents.
#[repr(C, align(64))]
struct Header {
    /// The [`mark`] of the block: tells a block from any other address.
    mark: usize,
    base: *mut u8,
    len: usize,
    /// Bytes of each guard page; 0 if there are no guard pages and no fence behind the contents.
    guard: usize,
    /// Bytes of the contents, as last requested.
    size: usize,
    /// The mark, repeated up to the contents: a write before the block's start changes it.
    fence: [usize; FENCE],
}

const HEADER: usize = size_of::<Header>();

/// Words of the fence before the contents.
const FENCE: usize = 64 / size_of::<usize>() - 5;

/// Bytes of the fence behind the contents.
const BEHIND: usize = size_of::<[usize; 2]>();

/// Writes the header of a block of `size` bytes, and the fence behind if there are guard pages.
///
/// # Safety
/// The block is in this mapping, at least [`HEADER`] bytes behind its start, and has room.
unsafe fn write_header(block: *mut u8, (base, len): (*mut u8, usize), guard: usize, size: usize) {
    let mark = mark(block);
    // SAFETY: the caller guarantees that both are in the mapping.
    unsafe {
        header(block).write(Header { mark, base, len, guard, size, fence: [mark; FENCE] });
        if guard > 0 {
            block.add(size).cast::<[usize; 2]>().write_unaligned([mark; 2]);
        }
    }
    known::note(block);
}

/// Mappings in use: number, bytes, bytes of those being made of kept memory, most bytes ever, and
/// most bytes ever with those kept.
struct InUse {
    count: AtomicUsize,
    bytes: AtomicUsize,
    coming: AtomicUsize,
    most: AtomicUsize,
    peak: AtomicUsize,
}

static IN_USE: Apart<InUse> = Apart::new(InUse {
    count: AtomicUsize::new(0),
    bytes: AtomicUsize::new(0),
    coming: AtomicUsize::new(0),
    most: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
});

fn mark(block: *mut u8) -> usize {
    block.addr() ^ 0x7061_6765_7769_7365_u64 as usize
}

/// Returns the number of mappings in use, their bytes, and the most bytes ever, kept ones included.
pub(in crate::global::native) fn usage() -> (usize, usize, usize) {
    (IN_USE.count.load(Relaxed), IN_USE.bytes.load(Relaxed), IN_USE.peak.load(Relaxed))
}

/// Counts bytes of mappings in use. Gives back kept ones as far as both together exceed the most
/// ever in use.
fn count_bytes(added: usize, removed: usize) {
    let bytes = IN_USE.bytes.fetch_add(added.wrapping_sub(removed), Relaxed);
    let bytes = bytes.wrapping_add(added).wrapping_sub(removed);
    let most = IN_USE.most.fetch_max(bytes, Relaxed).max(bytes);
    let coming = IN_USE.coming.load(Relaxed);
    let excess = bytes.saturating_add(coming).saturating_add(kept::bytes()).saturating_sub(most);
    if excess != 0 {
        kept::give_back(excess);
    }
    IN_USE.peak.fetch_max(bytes.saturating_add(kept::bytes()), Relaxed);
}

/// Forgets the mappings that threads were making which are not in this child of a fork.
pub(in crate::global::native) fn after_fork_in_child() {
    IN_USE.coming.store(0, Relaxed);
}

/// Returns whether a block of `size` bytes starts on a huge page: where the surplus can be
/// unmapped.
fn starts_huge_page(size: usize) -> bool {
    size >= HUGE && !mode::has_guards() && !os::NEEDS_RESERVATION && cfg!(not(miri))
}

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
        let any_kept = kept::give_back(usize::MAX);
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
    IN_USE.coming.fetch_add(len, Relaxed);
    let base = kept::take(len, delay).or_else(|| allocate_beyond_kept(len, lengthen));
    IN_USE.coming.fetch_sub(len, Relaxed);
    let base = base?;
    let block = base.wrapping_add(page);
    // SAFETY: the pages are nobody else's.
    unsafe { write_header(block, (base, len), 0, size) };
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
    let (start, part) = kept::take_part(len)?;
    if part == len {
        return Some(start);
    }
    let is_dense = huge::is_dense(start, part);
    // To move pages that were never written is dearer than to map new ones.
    let may_assemble = is_dense && lengthen != Lengthen::InOnePiece && os::MOVES;
    // SAFETY: the pages are nobody else's; a block one OS page behind their start is on a huge
    // page, and they are longer than both.
    unsafe {
        let others_help = may_assemble && kept::bytes() >= kept::LEAST;
        let longer = (!others_help).then(|| lengthen_whole((start, part), page, HUGE, len));
        let base = match longer.flatten() {
            Some(base) => base,
            None if may_assemble => assemble((start, part), page, len)?,
            None => {
                kept::put_back(start, part);
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
        write_header(block, (base, len), guard, size);
    }
    IN_USE.count.fetch_add(1, Relaxed);
    count_bytes(len, 0);
    NonNull::new(block)
}

fn header(block: *mut u8) -> *mut Header {
    block.wrapping_sub(HEADER).cast()
}

/// Returns the header of a block in no slot. Stops the process if the block is none of ours.
///
/// # Safety
/// The address is a block of this allocator; a best effort is made to notice otherwise.
unsafe fn checked_header(block: *mut u8) -> &'static mut Header {
    let is_readable = || {
        // Measuring a block must not change errno.
        let _errno = os::KeepErrno::new();
        os::is_readable(header(block).cast())
    };
    let is_known = known::has(block);
    if is_known || block.addr().is_multiple_of(HEADER) && is_readable() {
        // SAFETY: a block has its header before it, and these bytes are readable in any case.
        let header = unsafe { &mut *header(block) };
        if header.mark == mark(block) {
            if header.fence != [mark(block); FENCE] {
                fault::stop(Fault::Underflow, block);
            }
            // SAFETY: the fence is behind the contents.
            let behind = || unsafe { block.add(header.size).cast::<[usize; 2]>().read_unaligned() };
            if header.guard > 0 && behind() != [mark(block); 2] {
                fault::stop(Fault::Overflow, block);
            }
            if !is_known {
                known::note(block);
            }
            return header;
        }
    }
    fault::stop(Fault::NoBlock, block)
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
        known::forget(block);
        (*header(block)).mark = 0;
        IN_USE.count.fetch_sub(1, Relaxed);
        count_bytes(0, len);
        if guard > 0 {
            keep_closed(base.sub(guard), len + 2 * guard);
            return false;
        }
        let is_whole = block.addr().is_multiple_of(HUGE) && starts_huge_page(len);
        let in_use = || {
            let others = IN_USE.bytes.load(Relaxed).saturating_add(IN_USE.coming.load(Relaxed));
            (others, IN_USE.most.load(Relaxed).saturating_sub(others))
        };
        let is_kept = is_whole && !mode::is_hardened() && kept::keep(base, len, in_use, delay);
        if !is_kept {
            refused::release(base, len);
        }
        is_kept
    }
}

/// The last freed mappings, whose addresses stay taken: a dangling pointer there faults instead of
/// reaching another block.
struct Closed {
    mappings: [(usize, usize); 64],
    turn: usize,
}

static CLOSED: Apart<Locked<Closed>> =
    Apart::new(Locked::new(Closed { mappings: [(0, 0); 64], turn: 0 }));

/// Gives the memory of a mapping back, and its addresses once 64 others were freed.
///
/// # Safety
/// The pages were mapped here and are not used any more.
unsafe fn keep_closed(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are unused.
    let closed = unsafe { os::close(start, len) };
    // Does not wait: in a fork's child the lock may be lost.
    let oldest = closed.then(|| {
        CLOSED.try_with(|closed| {
            let turn = closed.turn % closed.mappings.len();
            closed.turn += 1;
            core::mem::replace(&mut closed.mappings[turn], (start.addr(), len))
        })
    });
    let (address, bytes) = oldest.flatten().unwrap_or((start.addr(), len));
    if bytes != 0 {
        // SAFETY: the pages were mapped here, are not used, and nobody else knows them.
        unsafe { refused::release(start.with_addr(address), bytes) };
    }
}

/// Makes a block longer or shorter; it may move if its alignment allows. With `is_adaptive`, what
/// is added gets huge pages if the block was written all over.
///
/// # Safety
/// The block is a mapping in use, aligned to `align`. If this succeeds, only the returned block is
/// used from then on.
pub(in crate::global::native) unsafe fn resize(
    block: *mut u8,
    align: usize,
    new_size: usize,
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    // SAFETY: the caller guarantees that it is in use; the callees have the same contract.
    unsafe {
        let &mut Header { base, len, guard, .. } = checked_header(block);
        let behind = if guard > 0 { BEHIND } else { 0 };
        let new_len = (block.addr() - base.addr()).checked_add(new_size)?.checked_add(behind)?;
        let new_len = new_len.checked_next_multiple_of(os::page_size())?;
        // Unsigned sums may exceed the largest size of a block.
        isize::try_from(new_len).ok()?;
        if guard > 0 {
            resize_guarded(block, align, (new_len, new_size), is_adaptive)
        } else if new_len > len {
            grow((base, len), block, align, (new_len, new_size), is_adaptive)
        } else {
            shorten((base, len), block, (new_len, new_size));
            NonNull::new(block)
        }
    }
}

/// As [`resize`], for a block with guard pages that needs `new_len` bytes from its base on.
///
/// # Safety
/// As for [`resize`]; the block has guard pages, and its header was checked.
unsafe fn resize_guarded(
    block: *mut u8,
    align: usize,
    (new_len, new_size): (usize, usize),
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // SAFETY: the caller guarantees that it is in use, and has checked its header; one that moves
    // keeps its header and contents.
    unsafe {
        let Header { base, len, guard, size, .. } = *header(block);
        if new_len > len {
            if align > page {
                return None;
            }
            // A block that grows mostly grows again: with room it then stays. Untouched room takes
            // no memory.
            let roomy = new_len.saturating_add(new_len / 8) & !(page - 1);
            let wants_huge = is_adaptive && size >= HUGE / 2 && huge::is_dense(block, size);
            return move_guarded(block, (roomy, new_size), wants_huge);
        }
        if new_len < len / 2 {
            return None;
        }
        write_header(block, (base, len), guard, new_size);
    }
    NonNull::new(block)
}

/// Makes a block without guard pages shorter, and unmaps the pages behind its `new_len` bytes from
/// the base on.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has at least
/// `new_len` bytes.
unsafe fn shorten(
    (base, len): (*mut u8, usize),
    block: *mut u8,
    (new_len, new_size): (usize, usize),
) {
    // SAFETY: the caller guarantees that it is in use, and that the end is not used any more.
    unsafe {
        (*header(block)).size = new_size;
        // An end that cannot be unmapped stays as room.
        if new_len < len && os::release(base.wrapping_add(new_len), len - new_len) {
            write_header(block, (base, new_len), 0, new_size);
            count_bytes(new_len, len);
        }
    }
}

/// Makes a block without guard pages longer, with `new_len` bytes from its base on.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has less than
/// `new_len` bytes.
unsafe fn grow(
    (base, len): (*mut u8, usize),
    block: *mut u8,
    align: usize,
    (new_len, new_size): (usize, usize),
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    // SAFETY: the caller guarantees that it is in use; one that moves keeps its header and
    // contents.
    unsafe {
        let offset = block.addr() - base.addr();
        // Memory added within the last huge page follows the advice given earlier.
        let reaches = new_len / HUGE > len / HUGE;
        let dense = is_adaptive && reaches && huge::is_dense(block, len - offset);
        if is_adaptive && kept::forget_sample(base, len) {
            // With one advice the mapping is one for the system, which can lengthen it.
            os::advise_huge_pages(base, len, dense);
        }
        // It may move, and then nothing is there any more.
        known::forget(block);
        let stays = kept::take_at(base.add(len), new_len - len).then_some(base);
        let base = stays
            .or_else(|| lengthen_whole((base, len), offset, align.max(HUGE), new_len))
            .or_else(|| lengthen((base, len), new_len, align <= os::page_size()));
        let Some(base) = base else {
            known::note(block);
            return None;
        };
        if dense {
            os::advise_huge_pages(base, new_len, true);
        }
        let block = base.wrapping_add(offset);
        write_header(block, (base, new_len), 0, new_size);
        count_bytes(new_len, len);
        NonNull::new(block)
    }
}

/// Lengthens a mapping so that its block, `offset` bytes behind the base, still starts at a
/// multiple of `align`, at least a huge page, and its huge pages stay whole. Returns the base, or
/// `None` if that cannot be done.
///
/// # Safety
/// As for [`resize`]; `new_len` is more than the mapping's length.
unsafe fn lengthen_whole(
    (base, len): (*mut u8, usize),
    offset: usize,
    align: usize,
    new_len: usize,
) -> Option<*mut u8> {
    let is_aligned = base.addr().wrapping_add(offset).is_multiple_of(align);
    if !is_aligned || !starts_huge_page(new_len) {
        return None;
    }
    // SAFETY: the caller guarantees that it is in use; the target pages are ours, and hold nothing.
    unsafe {
        if let Some(base) = lengthen((base, len), new_len, false) {
            return Some(base);
        }
        if !os::MOVES {
            return None;
        }
        // A block that grows mostly grows again: with free addresses behind it, it then stays.
        let room = new_len.checked_add(new_len / 2)? & !(os::page_size() - 1);
        let reserved = room.checked_add(align)?;
        let memory = outside::reserve(reserved)?;
        let skipped = base.addr().wrapping_sub(memory.addr()) % align;
        let to = memory.add(skipped);
        if !os::move_into((base, len), (memory, reserved), to, new_len) {
            return None;
        }
        refused::release(memory, skipped);
        refused::release(to.add(new_len), reserved - skipped - new_len);
        Some(to)
    }
}

/// Lengthens a mapping where it is, or moves it if it may, but not to the slots of heaps: a free
/// there would go to a heap.
///
/// # Safety
/// As for [`resize`]; `new_len` is more than the mapping's length.
unsafe fn lengthen(
    (base, len): (*mut u8, usize),
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    // SAFETY: the caller guarantees that it is in use; nobody knows yet where the kernel moved it.
    unsafe {
        let moved = os::remap(base, len, new_len, may_move)?;
        if !SPACE.overlaps(moved, new_len) {
            return Some(moved);
        }
        if moved == base {
            refused::release(base.add(len), new_len - len);
            return None;
        }
        // It is in the slots: copy it to other addresses, or else back.
        let there = outside::allocate(new_len);
        let Some(to) = there.or_else(|| os::map_at(base, len).then_some(base)) else {
            os::abort();
        };
        to.copy_from_nonoverlapping(moved, len);
        refused::release(moved, new_len);
        there
    }
}

/// Moves a block with guard pages to a longer mapping of `new_len` bytes; to one of huge pages if
/// they are `wanted`.
///
/// # Safety
/// As for [`resize_guarded`]; `new_len` is more than the mapping's length.
unsafe fn move_guarded(
    block: *mut u8,
    (new_len, new_size): (usize, usize),
    wanted: bool,
) -> Option<NonNull<u8>> {
    if !os::MOVES {
        return None;
    }
    // SAFETY: the caller guarantees that it is in use; the target pages are ours, and hold nothing.
    unsafe {
        let Header { base, len, guard, .. } = *header(block);
        let offset = block.addr() - base.addr();
        let align = if wanted { HUGE } else { guard };
        let reserved = new_len.checked_add(guard + align)?;
        let memory = outside::reserve(reserved)?;
        // An OS page before a huge one: then the fence behind contents that fill huge pages is not
        // the first word of the next, which would so be no huge page.
        let new_base =
            memory.with_addr((memory.addr() + 2 * guard).next_multiple_of(align) - guard);
        known::forget(block);
        if !os::move_into((base, len), (memory, reserved), new_base, new_len) {
            known::note(block);
            return None;
        }
        let (start, end) = (new_base.sub(guard), new_base.add(new_len + guard));
        refused::release(memory, start.addr() - memory.addr());
        refused::release(end, memory.addr() + reserved - end.addr());
        refused::release(base.sub(guard), guard);
        refused::release(base.add(len), guard);
        if wanted {
            os::advise_huge_pages(new_base, new_len, true);
        }
        let block = new_base.add(offset);
        write_header(block, (new_base, new_len), guard, new_size);
        count_bytes(new_len, len);
        NonNull::new(block)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
