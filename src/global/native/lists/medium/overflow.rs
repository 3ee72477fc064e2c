//! The overflow: blocks of one class that a thread's list of that class has no place for.
//!
//! ```text
//!              the oldest quarter, when the list is full
//!  list  | • • • | • • • • • • • • • |  ─────────────────▶  | • • • • • • …             |  overflow
//!                                       ◀─────────────────
//!                    the last ones, when the list is empty
//! ```
//! A program may allocate more buffers of one size than a list keeps, free them all, and begin
//! again. Without the overflow most of them pass through the heap, which joins each with the free
//! memory beside it, and then divides that memory again.
//!
//! It has the class of a list that [was full](super::list::List::overflown), and then ran dry. So
//! a thread that only frees what others allocate has none. The thread's [budget](super::budget)
//! bounds its bytes. If other sizes take memory of a heap that has less to spare than the overflow
//! has, it goes back. (When the heap grows it is too late: a program of several phases would grow a
//! little in each.)

use core::cmp::min;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::class::Class;

/// Blocks that the overflow holds at most: 12 MiB of the smallest class.
pub(super) const PLACES: usize = 768;

/// The overflow of a thread's lists. Its blocks are apart: see
/// [`places`](super::lists::Lists::places). Only the thread behind the lists' gate changes it.
///
/// Invariants: there are at most [`PLACES`] blocks; all are of the class, which changes only while
/// there are none; `low` is at most their number.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Overflow {
    /// The class; 0 if it has none.
    class: AtomicU32,
    /// The number of blocks.
    len: AtomicU32,
    /// The fewest blocks since the last visit: as many were not used.
    low: AtomicU32,
}

impl Overflow {
    /// Returns the number of blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Returns whether it has this class.
    #[inline]
    pub(super) fn is_of(&self, class: Class) -> bool {
        self.class.load(Relaxed) == class.0
    }

    /// Returns whether it has blocks of this class.
    #[inline]
    pub(super) fn has(&self, class: Class) -> bool {
        self.is_of(class) && self.len() > 0
    }

    /// Returns the class, if it has one.
    pub(super) fn class(&self) -> Option<Class> {
        Some(Class(self.class.load(Relaxed))).filter(|class| class.0 != 0)
    }

    /// Returns the number of blocks, and the size of each. (Another thread's may change meanwhile.)
    pub(super) fn blocks(&self) -> (usize, usize) {
        self.class().map_or((0, 0), |class| (self.len().min(PLACES), class.size()))
    }

    /// Returns the bytes of the blocks.
    pub(super) fn bytes(&self) -> usize {
        let (blocks, size) = self.blocks();
        blocks * size
    }

    /// Returns whether there is room for more blocks of this class.
    pub(super) fn takes(&self, class: Class, more: usize) -> bool {
        self.is_of(class) && self.len() + more <= PLACES
    }

    /// Gives it another class, or none, if there are no blocks. Call behind the gate.
    pub(super) fn turn_to(&self, class: Option<Class>) {
        if self.len() == 0 {
            self.class.store(class.map_or(0, |class| class.0), Relaxed);
        }
    }

    /// Sets the number of blocks.
    pub(super) fn set_len(&self, len: usize) {
        self.low.store(min(self.low.load(Relaxed), len as u32), Relaxed);
        self.len.store(len as u32, Relaxed);
    }

    /// Returns how many blocks were not used since the last visit, and begins to count anew.
    pub(super) fn take_low(&self) -> usize {
        self.low.swap(self.len.load(Relaxed), Relaxed) as usize
    }
}
