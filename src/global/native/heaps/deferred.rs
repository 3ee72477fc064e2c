//! Holds blocks that were freed while another thread held their heap's lock. The next thread that
//! takes the lock puts them back, so freeing need not wait.
//!
//! ```text
//!               head            tail
//!  ring |   |   | b | b |   | b |   |   |   null before the tail: reserved, not yet written
//!  last ──▶ | link | … |  ──▶  | link | … |  ──▶  0        list through the blocks themselves
//! ```
//! Blocks wait in a ring beside the heap, outside of free memory, so that a write after free cannot
//! mislead the allocator. A thread that frees reserves entries by a compare-and-exchange of the
//! tail, and then writes them. The thread that holds the heap's lock takes entries in order, up to
//! the first that is not written yet. Each entry is written once and taken once.
//!
//! When the ring is full, a thread that frees waits for the lock after all. This bounds the blocks
//! that wait, and the work of the thread that puts them back. Only if the lock also [cannot be
//! waited for](crate::global::native::base::lock), which is rare, are blocks linked into a list
//! through their own memory; links are checked before they are followed.
//!
//! In the child of a fork, an entry may be reserved whose thread stayed behind. Its block stays in
//! use, like other blocks that such threads were about to free
//! ([`skip_lost`](Deferred::skip_lost)).

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::global::native::base::sync::{AtomicBool, AtomicPtr, AtomicU32};

/// Number of blocks that a heap's ring can hold.
const ROOM: usize = 1024;

/// The free blocks that wait for a heap; all zeros means none. Invariant: every block here belongs
/// to the heap, and nothing else uses it. `head` changes only under the heap's lock; entries
/// outside of `head..tail` are null, except where [`skip_lost`](Self::skip_lost) says.
#[derive(Debug)]
pub(in crate::global::native) struct Deferred<const N: usize = ROOM> {
    /// Whether blocks were added since they were last taken.
    has_new: AtomicBool,
    /// Number of entries reserved since the beginning; wraps around.
    tail: AtomicU32,
    /// Number of entries taken since the beginning; wraps around.
    head: AtomicU32,
    /// The block that was linked last; null if none is linked.
    last: AtomicPtr<u8>,
    /// The blocks; null where there is none, [`LOST`] where none will come.
    ring: [AtomicPtr<u8>; N],
}

/// Stands in the ring for a block that will never be written.
const LOST: *mut u8 = ptr::without_provenance_mut(1);

impl<const N: usize> Deferred<N> {
    /// Makes an empty ring.
    #[cfg(any(test, pagewise_model))]
    pub(in crate::global::native) fn new() -> Self {
        Self {
            has_new: AtomicBool::new(false),
            tail: AtomicU32::new(0),
            head: AtomicU32::new(0),
            last: AtomicPtr::new(ptr::null_mut()),
            ring: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Returns whether there are no blocks, as far as is known without the lock.
    #[inline(always)]
    pub(in crate::global::native) fn is_empty(&self) -> bool {
        !self.has_new.load(Relaxed)
    }

    /// Returns the entry that was reserved as number `index` since the beginning.
    #[inline(always)]
    fn entry(&self, index: u32) -> &AtomicPtr<u8> {
        &self.ring[index as usize % N]
    }

    /// Adds blocks to the ring; does nothing and returns `false` if they do not fit.
    ///
    /// # Safety
    /// The blocks are in use, the caller's, and belong to this heap. The caller does not use them
    /// any more, unless this returns `false`.
    pub(in crate::global::native) unsafe fn push(&self, blocks: &[NonNull<u8>]) -> bool {
        let count = blocks.len() as u32;
        let mut tail = self.tail.load(Relaxed);
        loop {
            // A thread that sees an entry as taken must also see that it was cleared, before it
            // writes it.
            let waiting = tail.wrapping_sub(self.head.load(Acquire));
            if waiting.wrapping_add(count) as usize > N {
                return false;
            }
            let reserved = tail.wrapping_add(count);
            match self.tail.compare_exchange_weak(tail, reserved, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(other) => tail = other,
            }
        }
        for (index, block) in blocks.iter().enumerate() {
            // What the caller did with the block happens before what its next owner does.
            self.entry(tail.wrapping_add(index as u32)).store(block.as_ptr(), Release);
        }
        self.note_added();
        true
    }

    /// Notes that there are blocks. This is a swap, not a store, so that it continues the release
    /// sequence: a thread that sees the last note also sees the blocks of all earlier ones.
    fn note_added(&self) {
        self.has_new.swap(true, Release);
    }

    /// Notes that all blocks will be taken now. Call under the heap's lock, before
    /// [`take`](Self::take).
    pub(in crate::global::native) fn begin_taking(&self) {
        // Threads that add blocks from here on note it again.
        self.has_new.swap(false, Acquire);
    }

    /// Takes blocks out of the ring, at most as many as fit into `blocks`, and returns their
    /// number. Call under the heap's lock.
    pub(in crate::global::native) fn take(&self, blocks: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let mut head = self.head.load(Relaxed);
        let mut count = 0;
        while count < blocks.len() {
            let entry = self.entry(head);
            let Some(block) = NonNull::new(entry.load(Acquire)) else { break };
            entry.store(ptr::null_mut(), Relaxed);
            head = head.wrapping_add(1);
            if block.as_ptr() != LOST {
                blocks[count].write(block);
                count += 1;
            }
        }
        self.head.store(head, Release);
        count
    }

    /// In the child of a fork: gives up the entries that were reserved but not written, since their
    /// threads stayed behind. If the child's own thread was about to write one when a signal
    /// handler forked it, its block is taken later, or stays in use.
    pub(super) fn skip_lost(&self) {
        let (mut index, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
        while index != tail {
            let entry = self.entry(index);
            if entry.load(Relaxed).is_null() {
                entry.store(LOST, Relaxed);
            }
            index = index.wrapping_add(1);
        }
        self.has_new.store(true, Relaxed);
    }

    /// Links blocks into the list; for blocks that do not fit into the ring.
    ///
    /// # Safety
    /// As for [`push`](Self::push). Each block has room for a link.
    #[cold]
    pub(in crate::global::native) unsafe fn push_linked(&self, blocks: &[NonNull<u8>]) {
        for block in blocks {
            let link = block.cast::<*mut u8>();
            let mut last = self.last.load(Relaxed);
            loop {
                // SAFETY: the caller owns the block, which has room for a link at its start.
                unsafe { link.write_unaligned(last) };
                match self.last.compare_exchange_weak(last, block.as_ptr(), Release, Relaxed) {
                    Ok(_) => break,
                    Err(other) => last = other,
                }
            }
        }
        self.note_added();
    }

    /// Takes all linked blocks and calls `put_back` with each. Checks links with `is_own`, which
    /// says whether an address belongs to the heap; at a link that fails it stops and returns the
    /// block with that link. The blocks behind that one are lost.
    pub(super) fn take_linked(
        &self,
        is_own: impl Fn(*mut u8) -> bool,
        mut put_back: impl FnMut(NonNull<u8>),
    ) -> Option<*mut u8> {
        let mut last = ptr::null_mut();
        let mut next = self.last.swap(ptr::null_mut(), Acquire);
        while let Some(block) = NonNull::new(next) {
            if !is_own(next) {
                return Some(last);
            }
            last = next;
            // SAFETY: `push_linked` wrote the link, and only the list has the block.
            next = unsafe { block.cast::<*mut u8>().read_unaligned() };
            put_back(block);
        }
        None
    }
}

#[cfg(all(test, not(pagewise_model)))]
mod tests {
    use super::*;

    fn block(index: usize) -> NonNull<u8> {
        NonNull::new(ptr::without_provenance_mut(16 * (1 + index))).expect("it is not null")
    }

    fn take<const N: usize>(ring: &Deferred<N>, most: usize) -> Vec<NonNull<u8>> {
        let mut taken = vec![MaybeUninit::uninit(); most];
        let count = ring.take(&mut taken);
        // SAFETY: the first `count` were written.
        taken[..count].iter().map(|block| unsafe { block.assume_init() }).collect()
    }

    /// The ring takes blocks while it has room, gives them back in order, and wraps around.
    #[test]
    fn a_ring_gives_back_what_it_took() {
        let ring = Deferred::<8>::new();
        // The counters are about to wrap around.
        for counter in [&ring.tail, &ring.head] {
            counter.store(u32::MAX - 12, Relaxed);
        }
        let blocks: Vec<_> = (0..6).map(block).collect();
        for _ in 0..9 {
            // SAFETY: the blocks are never accessed.
            unsafe {
                assert!(ring.push(&blocks));
                assert!(!ring.push(&blocks[..3]), "there is room for two");
                assert!(ring.push(&blocks[..2]));
            }
            assert!(!ring.is_empty());
            ring.begin_taking();
            assert_eq!(take(&ring, 4), blocks[..4]);
            assert_eq!(take(&ring, 8), [&blocks[4..], &blocks[..2]].concat());
            assert!(ring.is_empty() && take(&ring, 8).is_empty());
        }
    }

    /// Linked blocks are taken once each, the last first, up to one whose link was overwritten.
    #[test]
    fn linked_blocks_are_taken_once() {
        let ring = Deferred::<8>::new();
        let mut memory = [[0_usize; 2]; 5];
        let blocks = memory.each_mut().map(|block| NonNull::from(block).cast::<u8>());
        let is_own = |block: *mut u8| blocks.iter().any(|own| own.as_ptr() == block);
        let taken = |ring: &Deferred<8>| {
            let mut taken = Vec::new();
            let overwritten = ring.take_linked(is_own, |block| taken.push(block));
            (taken, overwritten)
        };
        assert_eq!(taken(&ring), (vec![], None));
        for _ in 0..2 {
            ring.begin_taking();
            assert!(ring.is_empty());
            // SAFETY: nothing else uses the blocks, and each has room for a link.
            unsafe {
                ring.push_linked(&blocks[..3]);
                ring.push_linked(&blocks[3..]);
            }
            assert!(!ring.is_empty());
            let last_first: Vec<_> = blocks.iter().rev().copied().collect();
            assert_eq!(taken(&ring), (last_first, None));
            assert_eq!(taken(&ring), (vec![], None));
        }
        // SAFETY: as above; the memory is this test's own.
        unsafe {
            ring.push_linked(&blocks);
            blocks[2].cast::<usize>().write(0x0bad);
        }
        let until = vec![blocks[4], blocks[3], blocks[2]];
        assert_eq!(taken(&ring), (until, Some(blocks[2].as_ptr())));
        assert_eq!(taken(&ring), (vec![], None));
    }

    /// The child of a fork does not wait for an entry whose thread stayed behind.
    #[test]
    fn a_lost_entry_holds_up_nobody() {
        let ring = Deferred::<8>::new();
        let blocks: Vec<_> = (0..3).map(block).collect();
        // SAFETY: the blocks are never accessed.
        unsafe { ring.push(&blocks[..1]) };
        ring.tail.fetch_add(2, Relaxed);
        // SAFETY: as above.
        unsafe { ring.push(&blocks[1..]) };
        assert_eq!(take(&ring, 8), blocks[..1], "what is on its way is waited for");
        ring.skip_lost();
        assert_eq!(take(&ring, 8), blocks[1..]);
        // SAFETY: as above.
        assert!((0..8).all(|_| unsafe { ring.push(&blocks[..1]) }), "all of it is free again");
    }
}
