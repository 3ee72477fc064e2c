//! What a heap's lock protects: the engine, what goes back of its free memory, and what is known of
//! that. Each call leaves the three in agreement.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::huge::{self, HUGE};
use super::mode;
use super::purge::{self, Look, Parts, Purge};
use super::space::{SPACE, Slot};
use super::tuning::{Tuning, UNIT};
use super::visit::Visit;
use super::zero::{Known, Zeros};
use crate::Usage;
use crate::os;
use crate::pages::PageHeap;
use crate::source::Source;
use crate::strategy::Strategy;

/// The state of a heap.
#[derive(Debug)]
pub(super) struct State {
    engine: PageHeap<Slot>,
    purge: Purge,
    zeros: Zeros,
}

/// Whether a block is small.
#[inline(always)]
fn is_small(block: NonNull<u8>) -> bool {
    SPACE.list_of(block.as_ptr()) != Some(0)
}

impl State {
    /// An engine in this memory; `None`, and the memory is given up, if there is not enough for its
    /// bookkeeping.
    pub(super) fn open(memory: Slot, tuning: &Tuning) -> Option<Self> {
        let mut state = Self {
            zeros: Zeros::new(memory.extent().start),
            engine: PageHeap::new(tuning.pages, memory, ()),
            purge: Purge::new(tuning.purge_delay),
        };
        state.engine.vet_all();
        if mode::pins() {
            state.engine.pin_pages();
        }
        if state.engine.open().is_err() {
            // SAFETY: nothing of it is used.
            unsafe { state.engine.source().give_up() };
            return None;
        }
        Some(state)
    }

    /// A block that is not small.
    pub(super) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.allocate_with(layout, |_, _| ())
    }

    /// A block that is not small; tells `known`, which knows nothing, what is known of its memory.
    pub(super) fn allocate_known(
        &mut self,
        layout: Layout,
        known: &mut Known,
    ) -> Option<NonNull<u8>> {
        self.allocate_with(layout, |zeros, block| {
            zeros.tell(block.addr().get()..block.addr().get() + layout.size(), known);
        })
    }

    /// A block that is not small, of which `ask` is told before it is in use.
    #[inline(always)]
    fn allocate_with(
        &mut self,
        layout: Layout,
        ask: impl FnOnce(&Zeros, NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let held = self.engine.usage().held;
        let allocated = self.growing(layout.size(), |state| state.engine.allocate(layout));
        let end = self.engine.source().extent().end;
        let Ok(allocated) = allocated else {
            self.zeros.forget(end);
            return None;
        };
        let block = allocated.cast::<u8>();
        self.zeros.extended(self.engine.first_block(), end);
        ask(&self.zeros, block);
        let start = block.addr().get();
        let is_extended = self.engine.usage().held > held;
        if layout.size() >= purge::LARGE && !is_extended {
            self.taken_again(start..start + layout.size());
        }
        self.zeros.used(start..start + allocated.len());
        SPACE.set_list(block.as_ptr(), 0);
        if layout.size() >= purge::LARGE {
            match is_extended {
                true => self.engine.source().huge().enter(block.as_ptr(), layout.size()),
                false => self.engine.source().huge().enter_again(block.as_ptr(), layout.size()),
            }
        }
        Some(block)
    }

    /// A large block gets this memory, which was free: tells the purge if that had gone back.
    #[cold]
    fn taken_again(&mut self, memory: Range<usize>) {
        let (page, middle) = (os::page_size(), memory.start.midpoint(memory.end));
        let middle = middle & !(page - 1);
        if self.zeros.skip(middle..middle + page) > middle {
            self.purge.taken_again();
        }
    }

    /// Frees a block that is not small; its bytes, and how many bytes of free memory go back at once.
    /// `None` if it is not in use.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and is freed once.
    pub(super) unsafe fn deallocate(&mut self, block: NonNull<u8>) -> Option<(usize, usize)> {
        // SAFETY: passed on.
        let bytes = unsafe { self.release(block)? };
        Some((bytes, self.purge.freed(&self.engine, bytes)))
    }

    /// Frees a block that is not small, and no more than that; its bytes, `None` if it is not in use.
    ///
    /// # Safety
    /// As for [`deallocate`](Self::deallocate).
    unsafe fn release(&mut self, block: NonNull<u8>) -> Option<usize> {
        let before = self.engine.usage().block;
        // SAFETY: the caller's promise.
        unsafe { self.engine.free_tagged(block) }.ok()?;
        Some(before - self.engine.usage().block)
    }

    /// Takes blocks of a class for a quick list, and says how many there were. The lowest are to be
    /// used first, and come last.
    #[inline]
    pub(super) fn take(
        &mut self,
        class: u32,
        list: u32,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        let Self { engine, zeros, .. } = self;
        let page_size = engine.config().page_size;
        // Pages of small blocks are written densely.
        engine.source().huge().allow(engine.page_bytes());
        let taken = engine.take_batch(class, blocks, |page, whole| {
            // A page that has blocks in use has its class; those of a profile may have shadows in its entries.
            if whole {
                SPACE.forget_states(page, page_size);
                SPACE.set_list_of_page(page, page_size, list);
            }
            zeros.used(page.addr()..page.addr() + page_size);
        });
        engine.source().huge().allow(0);
        if taken == blocks.len() {
            zeros.extended_unknown(engine.source().extent().end);
        } else {
            // A page may have been made and given up.
            zeros.forget(engine.source().extent().end);
        }
        taken
    }

    /// Puts back small blocks of this heap.
    ///
    /// # Errors
    /// The first of them that is free, or where no block starts.
    ///
    /// # Safety
    /// They were [taken](Self::take), and are put back once.
    #[inline]
    pub(super) unsafe fn put(&mut self, blocks: &[NonNull<u8>]) -> Result<(), NonNull<u8>> {
        // SAFETY: passed on.
        unsafe { self.engine.free_batch(blocks) }
    }

    /// Puts back a block of any size.
    ///
    /// # Errors
    /// The block, if it is not in use.
    ///
    /// # Safety
    /// It was allocated here, and is freed once.
    pub(super) unsafe fn put_back(&mut self, block: NonNull<u8>) -> Result<(), NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe {
            match SPACE.list_of(block.as_ptr()) {
                Some(0) => self.release(block).map(|_| ()).ok_or(block),
                _ => self.put(&[block]),
            }
        }
    }

    /// Puts back blocks of any sizes.
    ///
    /// # Errors
    /// One of them that is not in use.
    ///
    /// # Safety
    /// They were allocated here, and are freed once.
    pub(super) unsafe fn put_any(&mut self, blocks: &[NonNull<u8>]) -> Result<(), NonNull<u8>> {
        // They come by batches of small ones, or of others.
        blocks.chunk_by(|a, b| is_small(*a) && is_small(*b)).try_for_each(|blocks| match blocks {
            // SAFETY: passed on.
            &[block] => unsafe { self.put_back(block) },
            // SAFETY: passed on.
            _ => unsafe { self.put(blocks) },
        })
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is; `None` if it is
    /// not in use.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and not freed.
    pub(super) unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        new_size: usize,
    ) -> Option<bool> {
        let len = self.len_of(block)?;
        // SAFETY: the caller's promise.
        if !unsafe { self.engine.is_tagged_sound(block) } {
            return Some(false);
        }
        let more = new_size.saturating_sub(len);
        let huge = self.engine.source().huge();
        let concerned =
            more >= HUGE / 2 && huge.concerns(block.addr().get().wrapping_add(new_size));
        if concerned && huge::is_dense(block.as_ptr(), len) {
            // A part added to a block that was written will be written, too.
            huge.allow(huge.advised() + more);
        }
        // SAFETY: the caller's promise; blocks are far smaller than `isize::MAX`, and one in use could
        // have been allocated for all of its length.
        let resized = self.growing(new_size, |state| unsafe {
            let layout = Layout::from_size_align_unchecked(len, UNIT);
            state.engine.resize_in_place(block, layout, new_size).is_some()
        });
        self.engine.source().huge().allow(0);
        self.zeros.extended(self.engine.first_block(), self.engine.source().extent().end);
        let start = block.addr().get();
        // SAFETY: the block is in use.
        let new_len = unsafe { self.engine.block_size(block) };
        self.zeros.used(start..start + len.max(new_len));
        Some(resized)
    }

    /// Bytes of a block that is not small; `None` if it is not in use.
    pub(super) fn len_of(&self, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the block was allocated here; its size is asked for if it is in use.
        unsafe { self.engine.is_tagged_in_use(block).then(|| self.engine.block_size(block)) }
    }

    /// A block near which the heap's own words were overwritten, if that was noticed.
    #[inline]
    pub(super) fn damaged(&self) -> Option<*mut u8> {
        self.engine.damaged()
    }

    #[inline]
    pub(super) fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// The number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.engine.classes()
    }

    /// Block size of a class, bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.engine.class_size(class)
    }

    /// Calls `visit` for each page with its class, the size of its blocks, its bytes and its blocks
    /// that are not free. O(pages).
    pub(super) fn for_each_page(&self, visit: &mut dyn FnMut(u32, usize, usize, usize)) {
        let bytes = self.engine.config().page_size;
        self.engine.for_each_page(&mut |class, in_use| {
            visit(class, self.engine.class_size(class), bytes, in_use as usize);
        });
    }

    /// Where the heap's memory lies: its extent, and what is dedicated to its bookkeeping.
    pub(super) fn memory(&self) -> (Range<usize>, Range<usize>) {
        let source = self.engine.source();
        (source.extent(), source.dedicated())
    }

    /// Bytes of free memory given back to the system since the beginning.
    pub(super) fn purged(&self) -> u64 {
        self.purge.purged()
    }

    /// Bytes that may take memory.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.purge.most(self.engine.usage().block)
    }

    /// Notes what is in use; bytes that the heap has grown by since that was last told, if they are
    /// enough to tell.
    #[inline]
    pub(super) fn grown(&mut self) -> Option<usize> {
        self.purge.grown(&self.engine);
        self.purge.growth()
    }

    /// Counts a use; whether it is time to look if memory goes back.
    #[inline]
    pub(super) fn tick(&mut self) -> bool {
        self.purge.tick(&self.engine)
    }

    /// What is to go back, and when.
    pub(super) fn look(&mut self) -> Look {
        self.purge.look(&self.engine)
    }

    /// Whether memory is going back.
    pub(super) fn is_purging(&self) -> bool {
        self.purge.is_under_way()
    }

    /// Whether a purge that is to begin may be put off to the next visit.
    pub(super) fn puts_off_purge(&mut self) -> bool {
        self.purge.puts_off()
    }

    /// Not all of the memory that was to go back at a free did.
    pub(super) fn owes(&mut self) {
        self.purge.owes();
    }

    /// Bytes that go back now of those owed.
    pub(super) fn pays(&mut self) -> usize {
        self.purge.pays(&self.engine)
    }

    /// Milliseconds until memory is to go back; `None` if none is as things are.
    pub(super) fn purge_due_in(&self) -> Option<u64> {
        self.purge.next()
    }

    /// Begins a purge of all there is; returns the bytes given back before.
    pub(super) fn begin_purge(&mut self) -> u64 {
        self.purge.begin(&mut self.engine);
        self.purge.purged()
    }

    /// A step of the purge under way; whether there are more.
    pub(super) fn purge_step(&mut self, visit: &mut Visit) -> bool {
        self.purge.step(&mut self.engine, &mut self.zeros, visit)
    }

    /// A step of a purge of some free memory, these parts of it; its bytes, and whether there is more.
    pub(super) fn purge_some(&mut self, visit: &mut Visit, parts: Parts) -> (usize, bool) {
        self.purge.some(&mut self.engine, &mut self.zeros, visit, parts)
    }

    /// Whether what threads keep is to be put back, after which [`collect`](Self::collect) is called.
    pub(super) fn takes_trim(&mut self) -> bool {
        self.purge.takes_trim()
    }

    /// Makes pages without blocks free memory.
    pub(super) fn collect(&mut self) {
        self.engine.release_empty_pages();
    }

    /// Returns about `wanted` bytes of large free blocks: as many were mapped beside the heap. Whether that is
    /// [worth while](Purge::large).
    pub(super) fn purge_large(&mut self, wanted: usize) -> bool {
        self.purge.large(&self.engine, &mut self.zeros, wanted)
    }

    /// More went back, as so many bytes were mapped beside the heap.
    pub(super) fn went_back_for(&mut self, wanted: usize) {
        self.purge.went_back_for(wanted);
    }

    /// The engine and what is known of its memory, for a purge of a test's own.
    #[cfg(all(test, not(miri), target_pointer_width = "64"))]
    pub(super) fn parts(&mut self) -> (&mut PageHeap<Slot>, &mut Zeros) {
        (&mut self.engine, &mut self.zeros)
    }

    /// Runs `action`, which needs `size` bytes; as many go back as the heap has grown by for them.
    #[inline]
    fn growing<R>(&mut self, size: usize, action: impl FnOnce(&mut Self) -> R) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        self.purge.grown(&self.engine);
        if size >= purge::LARGE && self.engine.usage().held > held {
            self.purge_large(self.engine.usage().held - held);
        }
        result
    }
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests {
    use core::mem::MaybeUninit;

    use super::super::on_a_heap::on_a_heap;
    use super::super::sizes;
    use super::*;

    /// What did not go back goes back with the next, once.
    #[test]
    fn what_is_owed_is_paid_once() {
        on_a_heap(|state| {
            let layout = Layout::from_size_align(6 << 20, UNIT).expect("it is one");
            let block = state.allocate(layout).expect("there is memory");
            state.grown();
            // SAFETY: the block is freed once.
            unsafe { state.deallocate(block) }.expect("it is in use");
            assert_eq!(state.pays(), 0);
            state.owes();
            state.owes();
            assert!(state.pays() >= layout.size());
            assert_eq!(state.pays(), 0);
        });
    }

    /// Small blocks and others are put back in any order, and each once.
    #[test]
    fn blocks_of_any_sizes_are_put_back() {
        on_a_heap(|state| {
            let before = state.usage().blocks;
            let list = sizes::offset(64);
            let mut small = [const { MaybeUninit::uninit() }; 4];
            assert_eq!(state.take(sizes::class(list), list, &mut small), small.len());
            // SAFETY: they were all taken.
            let [a, b, c, d] = small.map(|block| unsafe { block.assume_init() });
            let layout = Layout::from_size_align(40 << 10, UNIT).expect("it is one");
            let medium = [(); 5].map(|()| state.allocate(layout).expect("there is memory"));
            assert_eq!(state.usage().blocks, before + 9);
            let [m, n, o, p, q] = medium;
            // SAFETY: each is freed once; that one is not in use any more is noticed.
            unsafe {
                assert_eq!(state.put_any(&[m, n, a, b, o, c, p, q, d]), Ok(()));
                assert_eq!(state.usage().blocks, before);
                assert!(medium.iter().all(|&block| state.len_of(block).is_none()));
                assert_eq!(state.put_any(&[o]), Err(o));
            }
        });
    }
}
