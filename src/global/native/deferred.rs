//! Blocks that wait for their heap: freed while somebody else held its lock, put back by whoever next has it. So
//! who frees waits for nobody.
//!
//! ```text
//!               head            tail
//!  ring |   |   | b | b |   | b |   |   |      an entry without a block before the tail: one on its way
//!  last ──▶ | link | … |  ──▶  | link | … |  ──▶  0        the blocks themselves
//! ```
//! Blocks wait in a ring beside the heap, outside of free memory, so that no write after a free can lead the
//! allocator astray. Entries are reserved by one exchange, written after, and taken in order by whoever has the
//! heap's lock, up to the first that is not written yet. Each block is written once and taken once.
//!
//! Where the ring is full, who frees waits for the lock after all: what waits is bounded, and so is the work of who
//! puts it back. Only where the lock [cannot be waited for](super::lock), which is rare, do further blocks make a
//! list through themselves; so its links are checked before they are followed.
//!
//! In the child of a fork an entry may be reserved whose thread stayed behind: its block stays in use, as others do
//! that were on their way ([`skip_lost`](Deferred::skip_lost)).

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sync::{AtomicBool, AtomicPtr, AtomicU32};

/// Blocks that may wait in a heap's ring.
const ROOM: usize = 1024;

/// The free blocks that wait for a heap; all zeros is none. Invariant: every block here belongs to the heap, and
/// nobody else uses it. `head` changes under the heap's lock; entries outside of `head..tail` hold no block.
#[derive(Debug)]
pub(super) struct Deferred<const N: usize = ROOM> {
    /// Whether somebody has added blocks since they were last taken.
    some: AtomicBool,
    /// Entries ever reserved, and ever taken.
    tail: AtomicU32,
    head: AtomicU32,
    last: AtomicPtr<u8>,
    ring: [AtomicPtr<u8>; N],
}

/// What stands in the place of a block that never comes.
const LOST: *mut u8 = ptr::without_provenance_mut(1);

impl<const N: usize> Deferred<N> {
    #[cfg(any(test, pagewise_model))]
    pub(super) fn new() -> Self {
        Self {
            some: AtomicBool::new(false),
            tail: AtomicU32::new(0),
            head: AtomicU32::new(0),
            last: AtomicPtr::new(ptr::null_mut()),
            ring: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Whether there are no blocks, as far as is known without a lock.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        !self.some.load(Relaxed)
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> &AtomicPtr<u8> {
        &self.ring[index as usize % N]
    }

    /// Adds blocks to the ring; `false`, and nothing is done, if it has no room.
    ///
    /// # Safety
    /// They are in use, the caller's, of the heap that this belongs to, and the caller uses them no longer, unless
    /// the answer is `false`.
    pub(super) unsafe fn push(&self, blocks: &[NonNull<u8>]) -> bool {
        let count = blocks.len() as u32;
        let mut tail = self.tail.load(Relaxed);
        loop {
            // Whoever sees that an entry was taken must not write it before it was cleared.
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
            // What the caller did with the block comes before what its next owner does.
            self.entry(tail.wrapping_add(index as u32)).store(block.as_ptr(), Release);
        }
        self.tell();
        true
    }

    /// Says that there are blocks. By an exchange: whoever sees what the last one to say so wrote must see what those
    /// before wrote, too, as they would not behind a plain store.
    fn tell(&self) {
        self.some.swap(true, Release);
    }

    /// Says that what there is will be taken now. To be called under the heap's lock, before [`take`](Self::take).
    pub(super) fn begin(&self) {
        // Whoever adds blocks from here on says so again.
        self.some.swap(false, Acquire);
    }

    /// Takes blocks out of the ring, as many as there is room for, and says how many. To be called under the heap's
    /// lock.
    pub(super) fn take(&self, blocks: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
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

    /// In the child of a fork: entries whose threads stayed behind before they had written them are not waited for.
    /// If the thread there is was about to write one itself, in the middle of which a handler forked, its block is
    /// taken later, or stays in use.
    pub(super) fn skip_lost(&self) {
        let (mut index, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
        while index != tail {
            let entry = self.entry(index);
            if entry.load(Relaxed).is_null() {
                entry.store(LOST, Relaxed);
            }
            index = index.wrapping_add(1);
        }
        self.some.store(true, Relaxed);
    }

    /// Adds blocks that nothing else has room for.
    ///
    /// # Safety
    /// As for [`push`](Self::push). Each has room for a link.
    #[cold]
    pub(super) unsafe fn push_linked(&self, blocks: &[NonNull<u8>]) {
        for block in blocks {
            let link = block.cast::<*mut u8>();
            let mut last = self.last.load(Relaxed);
            loop {
                // SAFETY: the block is the caller's, and has room for a link at its start.
                unsafe { link.write_unaligned(last) };
                match self.last.compare_exchange_weak(last, block.as_ptr(), Release, Relaxed) {
                    Ok(_) => break,
                    Err(other) => last = other,
                }
            }
        }
        self.tell();
    }

    /// Takes all blocks that are linked and calls `put_back` with each; the block whose link was overwritten, as far
    /// as `is_own` tells, if one was. The blocks behind that one are lost.
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
            // SAFETY: `push_linked` wrote the link, and the block is nobody's but the list's.
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
        // SAFETY: so many were written.
        taken[..count].iter().map(|block| unsafe { block.assume_init() }).collect()
    }

    /// The ring takes what it has room for, gives it back in order, and begins again behind its end.
    #[test]
    fn a_ring_gives_back_what_it_took() {
        let ring = Deferred::<8>::new();
        // A count that is about to begin anew.
        for counter in [&ring.tail, &ring.head] {
            counter.store(u32::MAX - 12, Relaxed);
        }
        let blocks: Vec<_> = (0..6).map(block).collect();
        for _ in 0..9 {
            // SAFETY: nobody uses them.
            unsafe {
                assert!(ring.push(&blocks));
                assert!(!ring.push(&blocks[..3]), "there is room for two");
                assert!(ring.push(&blocks[..2]));
            }
            assert!(!ring.is_empty());
            ring.begin();
            assert_eq!(take(&ring, 4), blocks[..4]);
            assert_eq!(take(&ring, 8), [&blocks[4..], &blocks[..2]].concat());
            assert!(ring.is_empty() && take(&ring, 8).is_empty());
        }
    }

    /// Linked blocks are taken once each, the last first, up to one whose link no longer leads to a block.
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
            ring.begin();
            assert!(ring.is_empty());
            // SAFETY: nobody uses them, and each has room for a link.
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
        // SAFETY: nobody uses them.
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
