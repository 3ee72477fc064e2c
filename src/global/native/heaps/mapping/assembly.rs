//! A mapping for a long block, put together from kept memory that lies in several places. The
//! system moves pages to other addresses, so nothing is copied, and nothing touched anew.
//!
//! ```text
//!   kept:        | OS page, huge pages … |    | huge pages … |  … | OS pages |  …
//!   the mapping: | OS page, huge pages … | huge pages … | … | OS pages | … | new memory |
//!                           block
//! ```
//! To the system such a mapping is several, which it can make longer in place, but not move as one.

use super::super::kept;
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::{outside, refused};
use crate::os::{self, OsPageRun};

/// The most pieces of a mapping. Each takes some system calls.
pub(super) const PIECES: usize = 32;

/// The part of a mapping that is there.
///
/// Invariant: the `len` bytes from `base` on are kept memory that was taken, and a reservation
/// follows up to `end`; nobody else uses either.
struct Assembly {
    /// Where the mapping begins.
    base: *mut u8,
    /// Bytes that are there.
    len: usize,
    /// Where the reservation ends.
    end: *mut u8,
}

/// Makes a mapping of `len` bytes that begins with these pages, for a block that starts on a huge
/// page, `before` bytes behind the result. Pages that are not used are kept again, all of them if
/// there is no memory.
///
/// # Safety
/// The pages were kept, and are the caller's; a huge page follows `before` bytes behind their
/// start. They are at least that, and fewer than `len`.
pub(super) unsafe fn assemble(pages: OsPageRun, before: usize, len: usize) -> Option<*mut u8> {
    let OsPageRun { start, len: part } = pages;
    // What comes behind whole huge pages can be huge pages.
    let is_nearly_all = len - part < HUGE;
    let first = if is_nearly_all { part } else { before + ((part - before) & !(HUGE - 1)) };
    // SAFETY: the caller guarantees that the pages are its own; those that are put back are not
    // used.
    unsafe {
        kept::put_back(start.add(first), part - first);
        let Some(mut made) = Assembly::new(start, len) else {
            kept::put_back(start, first);
            return None;
        };
        let (mut piece, mut pieces) = (Some(OsPageRun { start, len: first }), 0);
        while let Some(pages) = piece {
            pieces += 1;
            let goes_on = made.add(pages)? && made.len < len && pieces < PIECES;
            piece = goes_on.then(|| kept::take_more(len - made.len)).flatten();
        }
        made.finish(len)
    }
}

impl Assembly {
    /// Reserves addresses for `len` bytes, as far behind a huge page as `start` is.
    fn new(start: *mut u8, len: usize) -> Option<Self> {
        // An OS page more than is needed, to move all of it.
        let reserved = len.checked_add(HUGE + os::page_size())?;
        let memory = outside::reserve(reserved)?;
        let end = memory.wrapping_add(reserved);
        let skipped = start.addr().wrapping_sub(memory.addr()) % HUGE;
        // SAFETY: the addresses were just reserved, and nobody uses them.
        unsafe { refused::release(memory, skipped) };
        Some(Self { base: memory.wrapping_add(skipped), len: 0, end })
    }

    /// Moves these pages here, and puts back those that cannot move. Returns whether any moved, or
    /// `None` if the system refused a move: then all that was here is put back.
    ///
    /// # Safety
    /// The pages are kept memory that was taken, and fit.
    unsafe fn add(&mut self, pages: OsPageRun) -> Option<bool> {
        let (end, before) = (pages.end(), self.len);
        let mut from = pages.start;
        while from < end {
            let left = end.addr() - from.addr();
            let to = self.base.wrapping_add(self.len);
            // SAFETY: the caller guarantees that the pages are its own, and by the invariant the
            // reservation is.
            unsafe {
                let moved = os::movable(from, kept::until_seam(from, left));
                if moved == 0 {
                    kept::put_back(from, left);
                    break;
                }
                let part = OsPageRun { start: from, len: moved };
                let rest = OsPageRun { start: to, len: self.end.addr() - to.addr() };
                if !os::move_into(part, rest, to, moved) {
                    kept::put_back(from, left);
                    kept::put_back(self.base, self.len);
                    return None;
                }
                kept::note_seam(to);
                self.len += moved;
                from = from.wrapping_add(moved);
            }
        }
        Some(self.len > before)
    }

    /// Adds new memory up to `len` bytes. Returns the start, or `None` if there is no memory: then
    /// all that was here is put back.
    fn finish(self, len: usize) -> Option<*mut u8> {
        // SAFETY: by the invariant, the pages and the reservation are nobody else's.
        unsafe {
            if self.len < len && !self.add_new(len - self.len) {
                kept::put_back(self.base, self.len);
                return None;
            }
            let end = self.base.wrapping_add(len);
            refused::release(end, self.end.addr() - end.addr());
        }
        Some(self.base)
    }

    /// Adds `missing` bytes of new memory behind what is here. Returns whether it did; if not, or
    /// if nothing is here, the reservation is released.
    ///
    /// # Safety
    /// The invariant holds; if the result is `false`, the reservation is not used any more.
    unsafe fn add_new(&self, missing: usize) -> bool {
        let new = self.base.wrapping_add(self.len);
        let left = OsPageRun { start: new, len: self.end.addr() - new.addr() };
        // The system would make the reservation itself accessible whatever its length: it does not
        // count reservations as memory.
        let fresh = if self.len > 0 { os::allocate(missing) } else { None };
        // SAFETY: the fresh pages are nobody else's, and by the invariant neither is the
        // reservation.
        unsafe {
            let Some(start) = fresh else {
                refused::release(left.start, left.len);
                return false;
            };
            let is_moved = os::move_into(OsPageRun { start, len: missing }, left, new, missing);
            if is_moved {
                kept::note_seam(new);
            } else {
                refused::release(start, missing);
            }
            is_moved
        }
    }
}
