//! One list of medium blocks, and the words that mark a block on it as free.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, compiler_fence};

use super::class::{Class, mark};
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::space::SPACE;

/// Blocks that a list holds at most.
pub(super) const ROOM: usize = 63;

/// A list, in the order of freeing, the last block at the end. The lowest bit of an entry is set if
/// the block was there at the [last visit](super::lists::Lists::put_back_at_visit), or was the last
/// one at a [request for another class](List::note_other).
///
/// Invariants: the number of blocks and `room` are at most [`ROOM`]; all blocks are of the list's
/// class, which changes only while there are none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct List {
    /// The number of blocks, and the steps of their class in the upper bits, 0 at first.
    count: AtomicU32,
    /// Number of blocks that the list takes at present.
    pub(super) room: AtomicU16,
    /// Blocks that went back to their heaps because the list was full, less those wanted since.
    pub(super) overflown: AtomicU16,
    pub(super) entries: [AtomicPtr<u8>; ROOM],
}

/// Returns the block of an entry.
#[inline(always)]
pub(super) fn block_of(entry: *mut u8) -> *mut u8 {
    entry.map_addr(|address| address & !1)
}

/// Returns the two words at the start of a block on a list, by which a write after free is noticed
/// when it leaves the list. The complement of the block's address is no address that a program can
/// have.
#[inline(always)]
pub(super) fn fence(block: *mut u8) -> [usize; 2] {
    [!block.addr(); 2]
}

impl List {
    /// Returns the number of blocks on the list.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Relaxed) % (1 << mark::STEPS_AT)) as usize
    }

    /// Returns the number of blocks if the list has this class; if it has another, more than
    /// [`ROOM`]. The class must be one that the list may have.
    #[inline(always)]
    pub(super) fn len_of(&self, class: Class) -> usize {
        self.count.load(Relaxed).wrapping_sub(mark::upper_steps(class.0)) as usize
    }

    /// Sets the list's class, one that it may have, and the number of its blocks.
    #[inline(always)]
    pub(super) fn set_len_of(&self, class: Class, len: usize) {
        self.count.store(mark::upper_steps(class.0) + len as u32, Relaxed);
    }

    /// Returns whether the list takes no more blocks, and could have more room.
    #[inline(always)]
    pub(super) fn has_no_room(&self) -> bool {
        let room = self.room.load(Relaxed) as usize;
        self.len() >= room && room < ROOM
    }

    /// Notes a request for another class; returns whether the last block was put on the list since
    /// the last such request, or visit. Call behind the gate.
    pub(super) fn note_other(&self) -> bool {
        let last = self.len().checked_sub(1).and_then(|last| self.entries.get(last));
        last.is_some_and(|entry| {
            let found = entry.load(Relaxed);
            entry.store(found.map_addr(|address| address | 1), Relaxed);
            block_of(found) == found
        })
    }

    /// Returns whether the list has this class, which is one that it may have.
    #[inline(always)]
    pub(super) fn is_of(&self, class: Class) -> bool {
        self.len_of(class) <= ROOM
    }

    /// Returns the steps of the list's class; 0 if it has none as yet.
    pub(super) fn steps(&self) -> usize {
        (self.count.load(Relaxed) >> mark::STEPS_AT) as usize
    }

    /// Takes the blocks, which are of this class, for which `wants`, given their index and entry,
    /// returns true, and keeps the others. Call behind the gate.
    pub(super) fn take(
        &self,
        class: Class,
        mut wants: impl FnMut(usize, &AtomicPtr<u8>) -> bool,
    ) -> Taken {
        let mut taken = Taken::new();
        let entries = self.entries.get(..self.len()).unwrap_or(&self.entries);
        // The list is empty meanwhile: the child of a fork must not find a block that is in its
        // heap already.
        self.set_len_of(class, 0);
        compiler_fence(Release);
        let mut left = 0;
        for (number, entry) in entries.iter().enumerate() {
            if wants(number, entry) {
                taken.add(block_of(entry.load(Relaxed)), class);
            } else {
                self.entries[left].store(entry.load(Relaxed), Relaxed);
                left += 1;
            }
        }
        compiler_fence(Release);
        self.set_len_of(class, left);
        taken
    }
}

/// Marks a block that was taken off the list of a class as in use.
///
/// # Safety
/// As for [`check_fence`].
#[inline(always)]
pub(super) unsafe fn mark_in_use(block: NonNull<u8>, class: Class) {
    // Stored whole: clearing the bit in memory would wait for the store before it.
    let block_mark = mark::in_use(block.as_ptr(), class.0);
    SPACE.mark_of(block.as_ptr()).store(block_mark, Relaxed);
    // SAFETY: the caller guarantees what it requires.
    unsafe { check_fence(block) };
}

/// Stops the process if the program wrote to a block while it was on a list.
///
/// # Safety
/// The block was taken off a list, and is the caller's alone.
#[inline(always)]
unsafe fn check_fence(block: NonNull<u8>) {
    // SAFETY: the caller guarantees that the block was on a list: these words were written then.
    let [first, second] = unsafe { block.cast::<[usize; 2]>().read() };
    let [known, also] = fence(block.as_ptr());
    if first != known || second != also {
        misuse::stop(Misuse::Damaged, block.as_ptr());
    }
}

/// Blocks that were taken off a list and go back to their heaps.
pub(super) struct Taken {
    blocks: [MaybeUninit<NonNull<u8>>; ROOM],
    pub(super) count: usize,
}

impl Taken {
    pub(super) fn new() -> Self {
        Self { blocks: [const { MaybeUninit::uninit() }; ROOM], count: 0 }
    }

    /// Adds a block that was on the list of `class`. Skips it if its mark says otherwise.
    pub(super) fn add(&mut self, block: *mut u8, class: Class) {
        let kept = mark::in_use(block, class.0) | mark::KEPT;
        if let Some(known) = NonNull::new(block)
            && SPACE.mark_of(block).load(Relaxed) == kept
        {
            // SAFETY: the block was just taken off a list, as its mark says.
            unsafe { check_fence(known) };
            SPACE.mark_of(block).store(mark::NONE, Relaxed);
            self.blocks[self.count].write(known);
            self.count += 1;
        }
    }

    /// Puts the blocks back to their heaps; `upkeep` as for [`Heap::put_medium`].
    pub(super) fn put_back(self, upkeep: Upkeep) {
        // SAFETY: the first `count` blocks were written; each was freed, and nothing else has taken
        // it.
        unsafe {
            let blocks = slice::from_raw_parts(self.blocks.as_ptr().cast(), self.count);
            Heap::put_medium(blocks, upkeep);
        }
    }
}
