//! Blocks that are mappings of their own: the largest, and large ones that must be zeros.
//!
//! ```text
//!  base          block − 64   block                         base + len
//!   | unused     | header     | contents …                |
//! ```
//! The block lies at the first multiple of its alignment behind the header, but 64 bytes behind it
//! at least. Growing is `mremap`: pages are moved, not copied.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::fault::{self, Fault};
use super::huge;
use super::space::SPACE;
use crate::os;

/// What stands before the contents.
#[repr(C, align(64))]
struct Header {
    /// [`mark`] of the block: tells a block from any other address.
    mark: usize,
    base: *mut u8,
    len: usize,
    /// The mark again, up to the contents: who writes before a block's start writes here.
    fence: [usize; FENCE],
}

const HEADER: usize = size_of::<Header>();

/// Words of the fence.
const FENCE: usize = 64 / size_of::<usize>() - 3;

impl Header {
    fn new(block: *mut u8, base: *mut u8, len: usize) -> Self {
        Self { mark: mark(block), base, len, fence: [mark(block); FENCE] }
    }
}

/// Mappings in use: number, bytes, and the most bytes there ever were.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn mark(block: *mut u8) -> usize {
    block.addr() ^ 0x7061_6765_7769_7365_u64 as usize
}

/// Number of mappings in use, their bytes, and the most bytes there ever were.
pub(super) fn usage() -> (usize, usize, usize) {
    (COUNT.load(Relaxed), BYTES.load(Relaxed), PEAK.load(Relaxed))
}

fn counted(added: usize, removed: usize) {
    let bytes = BYTES.fetch_add(added.wrapping_sub(removed), Relaxed);
    PEAK.fetch_max(bytes.wrapping_add(added).wrapping_sub(removed), Relaxed);
}

/// A block of `size` bytes, zeros, at a multiple of `align`; `huge` is what the kernel is told of huge
/// pages, if anything. `None` if there is no memory, or no [`Layout`] of this size and alignment.
pub(super) fn allocate(size: usize, align: usize, huge: Option<bool>) -> Option<NonNull<u8>> {
    Layout::from_size_align(size, align).ok()?;
    let page = os::page_size();
    // The kernel aligns to an OS page; the rest is made by leaving memory out.
    let offset = HEADER.max(align);
    let spare = if align > page { align } else { 0 };
    let rounded = size.checked_add(offset)?.checked_next_multiple_of(page)?;
    let mapped = rounded.checked_add(spare)?;
    let memory = os::allocate(mapped)?;
    if SPACE.meets(memory, mapped) {
        // SAFETY: nobody uses what was mapped just now.
        unsafe { os::release(memory, mapped) };
        return None;
    }
    let block = memory.wrapping_add(HEADER + memory.wrapping_add(HEADER).align_offset(align));
    let base = memory.with_addr((block.addr() - HEADER) & !(page - 1));
    let end = memory.with_addr((block.addr() + size).next_multiple_of(page));
    let len = end.addr() - base.addr();
    // SAFETY: the pages before the header's and behind the contents are not used; the header's are
    // part of the mapping.
    unsafe {
        os::release(memory, base.addr() - memory.addr());
        os::release(end, memory.addr() + mapped - end.addr());
        if let Some(wanted) = huge {
            os::advise_huge_pages(base, len, wanted);
        }
        header(block).write(Header::new(block, base, len));
    }
    COUNT.fetch_add(1, Relaxed);
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
    if block.addr().is_multiple_of(HEADER) && os::is_mapped(header(block).cast()) {
        // SAFETY: a block has its header before it, and whatever is there can be read.
        let header = unsafe { &mut *header(block) };
        if header.mark == mark(block) {
            if header.fence != [mark(block); FENCE] {
                fault::stop(Fault::Damaged, block);
            }
            return header;
        }
    }
    fault::stop(Fault::NoBlock, block)
}

/// Bytes the block has.
///
/// # Safety
/// The block is a mapping in use.
pub(super) unsafe fn len_of(block: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    let header = unsafe { known(block) };
    header.base.addr() + header.len - block.addr()
}

/// Frees a block.
///
/// # Safety
/// The block is a mapping in use, and is not used any more.
pub(super) unsafe fn deallocate(block: *mut u8) {
    // SAFETY: the caller's promise; the header is read before its memory goes.
    unsafe {
        let &mut Header { base, len, .. } = known(block);
        (*header(block)).mark = 0;
        os::release(base, len);
        COUNT.fetch_sub(1, Relaxed);
        counted(0, len);
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
        let &mut Header { base, len, .. } = known(block);
        let offset = block.addr() - base.addr();
        let new_len = offset.checked_add(new_size)?.checked_next_multiple_of(page)?;
        // Unsigned arithmetic allows for more than a block may have.
        isize::try_from(new_len).ok()?;
        if new_len < len {
            // What cannot be cut off stays, as room.
            if os::release(base.wrapping_add(new_len), len - new_len) {
                (*header(block)).len = new_len;
                counted(new_len, len);
            }
        } else if new_len > len {
            let dense = follow && huge::is_dense(block, len - offset);
            let base = os::remap(base, len, new_len, align <= page)?;
            if dense {
                os::advise_huge_pages(base, new_len, true);
            }
            let block = base.wrapping_add(offset);
            header(block).write(Header::new(block, base, new_len));
            counted(new_len, len);
            return NonNull::new(block);
        }
        NonNull::new(block)
    }
}
