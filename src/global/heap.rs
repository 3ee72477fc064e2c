//! A heap: an engine in a slot, behind a lock, with what returns its free memory to the system.
//!
//! There are as many heaps as the machine's CPUs ask for, whatever the number of threads: threads
//! beyond that share. A heap outlives its threads, so blocks do, too, and nothing has to be
//! adopted. Blocks cross the lock by the batch, from and to quick lists; a block freed by another
//! thread than allocated it is put back into its own heap under that heap's lock, so that there is
//! no second protocol for remote frees, and they keep no memory.
//!
//! # When memory goes back
//! A heap remembers the most bytes that were in use since its free memory was last returned. Once
//! that many less by an eighth (and [`SURPLUS`]) are in use, and still are after the purge delay,
//! the whole heap is walked and every free OS page that takes memory is given back, also within
//! partly used pages. In a steady state that never happens, so nothing is faulted in again.
//!
//! When the heap grows for a block of [`LARGE`] bytes or more, or one is mapped beside it, as much
//! goes back of the large free blocks, none of which could hold it: the tables that a growing
//! collection leaves behind are too small for the next, and would stay resident beside it. A heap
//! that has all it needs returns nothing, and what is faulted in again is never more than what was
//! taken from the system.
//!
//! The walk goes in steps, between which others get the lock. A thread that comes by does a few of
//! them and goes on with its own work; the next that comes by does the next. Whoever comes by looks
//! after one other heap in its turn, too, for there may be nobody left who uses that.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::lock::Locked;
use super::os;
use super::registry;
use super::space::{SPACE, Slot};
use super::tuning::{Tuning, UNIT};
use crate::page_heap::PageHeap;
use crate::source::Source;
use crate::strategy::{Strategy, Usage};

/// A heap, at the start of its slot.
#[derive(Debug)]
pub(super) struct Heap {
    state: Locked<State>,
    /// Threads whose blocks come from here.
    pub(super) threads: AtomicU32,
}

/// What a heap's lock protects.
#[derive(Debug)]
pub(super) struct State {
    engine: PageHeap<Slot>,
    /// The most bytes in use since the last purge.
    most: usize,
    /// Bytes of free memory given back since the beginning.
    purged: u64,
    /// When free memory goes back, if much is free; 0 if not much is. Milliseconds.
    due: u64,
    /// Batches and single blocks until that is looked at again.
    countdown: u32,
    /// The address up to which the purge under way has been, if one is.
    swept: Option<usize>,
    purge_delay: u32,
}

/// Free memory that is not worth returning, bytes.
const SURPLUS: usize = 1 << 20;

/// The least free block, and the least request, that large blocks are returned for, bytes.
const LARGE: usize = 1 << 20;

/// Batches between two looks at the clock.
const LOOK: u32 = 16;

/// What a purge does under the lock at one time: blocks and pages it meets, bytes of free memory it
/// asks the system about and gives back.
const STEP_BLOCKS: usize = 128;
const STEP_BYTES: usize = 1 << 20;

/// Steps of a purge that a thread does when it comes by.
const STEPS: u32 = 16;

impl Heap {
    /// Makes the heap of a slot; `None` if there is no memory for it. Done once for each slot.
    pub(super) fn open(slot: usize, tuning: &Tuning) -> Option<&'static Self> {
        let start = SPACE.slot(slot);
        let len = SPACE.slot_len();
        let own = size_of::<Self>().next_multiple_of(os::page_size());
        // SAFETY: the slot lies in the reservation.
        if !SPACE.open_table(slot) || !unsafe { os::commit(start, own) } {
            return None;
        }
        if let Some(wanted) = tuning.huge_pages.advice() {
            // SAFETY: as above.
            unsafe { os::advise_huge_pages(start, len, wanted) };
        }
        // SAFETY: the slot is used by nobody else, and its memory behind `own` not yet accessible.
        let memory = unsafe { Slot::new(start.wrapping_add(own), len - own, tuning.huge_pages) };
        let mut state = State {
            engine: PageHeap::new(tuning.pages, memory, ()),
            most: 0,
            purged: 0,
            due: 0,
            countdown: LOOK,
            swept: None,
            purge_delay: tuning.purge_delay,
        };
        state.engine.open().ok()?;
        let heap = start.cast::<Self>();
        // SAFETY: the memory is accessible, large enough and aligned, and never given up.
        unsafe {
            heap.write(Self { state: Locked::new(state), threads: AtomicU32::new(0) });
            Some(&*heap)
        }
    }

    /// The heap of a slot that was opened.
    pub(super) fn of_slot(slot: usize) -> &'static Self {
        // SAFETY: an opened slot has its heap at its start, for ever.
        unsafe { &*SPACE.slot(slot).cast::<Self>() }
    }

    /// The heap a block lies in, of which is known that it lies in one.
    #[inline(always)]
    pub(super) fn of(block: *mut u8) -> &'static Self {
        Self::of_slot(SPACE.slot_of(block))
    }

    /// Runs `action` under the heap's lock.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        self.state.with(action)
    }

    /// Runs `action` as [`with`](Self::with), and looks now and then whether memory goes back.
    #[inline]
    fn work<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        let (result, look) = self.with(|state| {
            let result = action(state);
            (result, state.tick())
        });
        if look {
            self.maintain();
        }
        result
    }

    /// Looks whether memory goes back, of this heap and of another, and does some of it.
    #[cold]
    pub(super) fn maintain(&self) {
        self.purge_some();
        let other = registry::next_heap();
        if !ptr::eq(self, other) {
            other.purge_some();
        }
    }

    /// Does a few steps of a purge, if one is under way or due, while nobody waits.
    fn purge_some(&self) {
        if !self.state.try_with(State::look).unwrap_or(false) {
            return;
        }
        for _ in 0..STEPS {
            let (more, awaited) = self.step();
            if awaited || !more {
                return;
            }
        }
    }

    /// A step of a purge; whether there are more, and whether somebody waited for the lock.
    fn step(&self) -> (bool, bool) {
        self.with(|state| (state.step(), self.state.is_awaited()))
    }

    /// Gives every free OS page back to the system; returns the bytes. Others get the lock in
    /// between. O(what the heap holds).
    pub(super) fn purge(&self) -> u64 {
        let before = self.with(|state| {
            state.begin();
            state.purged
        });
        while let (true, awaited) = self.step() {
            if awaited {
                // Who waits was woken, but needs a moment to take the lock.
                os::pause();
            }
        }
        self.with(|state| state.purged) - before
    }

    /// Frees a block that is not small.
    ///
    /// # Safety
    /// It lies here, is not small, and is freed once.
    pub(super) unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: passed on.
        self.work(|state| unsafe { state.deallocate(block) });
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is.
    ///
    /// # Safety
    /// It lies here, is not small, and is in use.
    pub(super) unsafe fn resize_in_place(&self, block: NonNull<u8>, new_size: usize) -> bool {
        // SAFETY: passed on.
        self.work(|state| unsafe { state.resize_in_place(block, new_size) })
    }

    /// Takes the lock, before a fork.
    pub(super) fn lock(&self) {
        self.state.lock();
    }

    /// Lets go of the lock, after a fork.
    ///
    /// # Safety
    /// It was [taken](Self::lock) by this thread, or by the one that forked it.
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: passed on.
        unsafe { self.state.unlock() };
    }

    /// The number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.with(|state| state.engine.classes())
    }

    /// Block size of a class, bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.with(|state| state.engine.class_size(class))
    }

    /// Calls `visit` for each page with its class, the size of its blocks, its bytes and its blocks
    /// that are not free. O(pages), under the lock.
    pub(super) fn for_each_page(&self, visit: &mut dyn FnMut(u32, usize, usize, usize)) {
        self.with(|state| {
            let bytes = state.engine.config().page_size;
            state.engine.for_each_page(&mut |class, in_use| {
                visit(class, state.engine.class_size(class), bytes, in_use as usize);
            });
        });
    }

    /// Bytes of the heap's OS pages that take memory. O(OS pages), without the lock.
    pub(super) fn resident(&self) -> usize {
        let (extent, dedicated) = self.with(|state| {
            let source = state.engine.source();
            (source.extent(), source.dedicated())
        });
        let page = os::page_size();
        let start = ptr::from_ref(self).cast_mut().cast::<u8>();
        let mut resident = 0;
        for range in [start.addr()..extent.end, dedicated] {
            let (from, to) = (range.start & !(page - 1), range.end.next_multiple_of(page));
            os::for_each_resident(start.with_addr(from), to - from, &mut |_, len| resident += len);
        }
        resident
    }

    /// Takes blocks of a class for a quick list, and says how many there were. The lowest are to be
    /// used first, and come last.
    pub(super) fn take(
        &self,
        class: u32,
        list: u16,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        self.work(|state| {
            let page_size = state.engine.config().page_size;
            state.engine.take_batch(class, blocks, |page| {
                SPACE.set_list_of_page(page, page_size, list);
            })
        })
    }

    /// Puts small blocks back to the heaps they lie in. Their order changes.
    ///
    /// # Safety
    /// They were [taken](Self::take), and are put back once.
    pub(super) unsafe fn put(mut blocks: &mut [NonNull<u8>]) {
        while !blocks.is_empty() {
            let (slot, own) = first_heaps(blocks);
            let (ours, others) = blocks.split_at_mut(own);
            Self::of_slot(slot).work(|state| {
                // SAFETY: the caller's promise; they lie in this heap.
                if unsafe { state.engine.free_batch(ours) }.is_err() {
                    os::stop(b"pagewise: a block was freed twice\n");
                }
            });
            blocks = others;
        }
    }
}

impl State {
    /// A block that is not small.
    pub(super) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.growing(layout.size(), |state| state.engine.allocate(layout)).ok()?.cast();
        SPACE.set_list(block.as_ptr(), 0);
        Some(block)
    }

    /// Frees a block that is not small.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and is freed once.
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        if unsafe { self.engine.free_tagged(block) }.is_err() {
            os::stop(b"pagewise: a block was freed twice, or is none\n");
        }
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and not freed.
    unsafe fn resize_in_place(&mut self, block: NonNull<u8>, new_size: usize) -> bool {
        // SAFETY: the caller's promise.
        self.growing(new_size, |state| unsafe {
            let layout = state.layout_of(block);
            state.engine.resize_in_place(block, layout, new_size).is_some()
        })
    }

    /// A layout that a block in use could have been allocated for: all of it.
    ///
    /// # Safety
    /// The block is in use.
    unsafe fn layout_of(&self, block: NonNull<u8>) -> Layout {
        // SAFETY: the caller's promise; blocks are far smaller than `isize::MAX`.
        unsafe { Layout::from_size_align_unchecked(self.len_of(block), UNIT) }
    }

    /// Bytes of a block.
    ///
    /// # Safety
    /// The block is in use.
    pub(super) unsafe fn len_of(&self, block: NonNull<u8>) -> usize {
        if !self.engine.is_tagged_in_use(block) {
            os::stop(b"pagewise: a block was resized or measured that is free, or is none\n");
        }
        // SAFETY: passed on.
        unsafe { self.engine.block_size(block) }
    }

    pub(super) fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// Bytes of free memory given back to the system since the beginning.
    pub(super) fn purged(&self) -> u64 {
        self.purged
    }

    #[inline]
    fn grown(&mut self) {
        self.most = self.most.max(self.engine.usage().block);
    }

    /// Notes what is in use; whether it is time to [look](Self::look).
    #[inline]
    fn tick(&mut self) -> bool {
        self.grown();
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = LOOK;
        }
        self.countdown == LOOK
    }

    /// Runs `action`, which needs `size` bytes; as many go back as the heap has grown by for them.
    #[inline]
    fn growing<R>(&mut self, size: usize, action: impl FnOnce(&mut Self) -> R) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        self.grown();
        if size >= LARGE && self.engine.usage().held > held {
            self.purge_large(self.engine.usage().held - held);
        }
        result
    }

    /// Returns about so many bytes of large free blocks: the heap has grown by as many, or as many
    /// were mapped beside it.
    #[cold]
    pub(super) fn purge_large(&mut self, wanted: usize) {
        /// Bytes looked at, at most, for each byte wanted: many blocks may have gone back before.
        const LOOKED_AT: usize = 8;
        if self.purge_delay == u32::MAX {
            return;
        }
        let (mut purged, mut left) = (0, wanted.saturating_mul(LOOKED_AT));
        self.engine.for_each_large_free(LARGE, &mut |free| {
            if purged < wanted && left > 0 {
                purged += discard(free.start + TAGS, free.end().saturating_sub(TAGS));
                left = left.saturating_sub(free.len);
            }
        });
        self.purged += purged as u64;
    }

    /// Whether a purge is under way; it begins here if its time has come.
    fn look(&mut self) -> bool {
        if self.swept.is_some() {
            self.countdown = 1;
            return true;
        }
        let free = self.most - self.engine.usage().block;
        if free < SURPLUS.max(self.most / 8) || self.purge_delay == u32::MAX {
            self.due = 0;
            return false;
        }
        let now = os::now();
        if self.due == 0 {
            self.due = now + u64::from(self.purge_delay);
        }
        if now >= self.due {
            self.begin();
        }
        self.swept.is_some()
    }

    /// Begins a purge, from the heap's beginning.
    fn begin(&mut self) {
        self.engine.walk_free_again();
        self.swept = Some(0);
        self.most = self.engine.usage().block;
        self.due = 0;
    }

    /// A step of the purge under way; whether there are more.
    #[cold]
    fn step(&mut self) -> bool {
        let Some(mut swept) = self.swept else { return false };
        let page = os::page_size();
        let mut left = STEP_BYTES;
        let mut purged = 0;
        let more = self.engine.walk_free(page, STEP_BLOCKS, &mut |free| {
            let start = free.start.max(swept).next_multiple_of(page);
            let end = (free.end & !(page - 1)).min(start + left);
            if start < end {
                purged += discard(start, end);
                left -= end - start;
                swept = end;
            }
            left > 0
        });
        self.purged += purged as u64;
        self.swept = more.then_some(swept);
        more
    }
}

/// Bytes at both ends of a large free block that may hold links and sizes.
const TAGS: usize = 16;

/// Gives the OS pages between two addresses back that take memory; returns their bytes.
fn discard(start: usize, end: usize) -> usize {
    let page = os::page_size();
    let (start, end) = (start.next_multiple_of(page), end & !(page - 1));
    if start >= end {
        return 0;
    }
    let mut discarded = 0;
    let address = SPACE.slot(0).with_addr(start);
    os::for_each_resident(address, end - start, &mut |run, len| {
        // SAFETY: the pages lie within free memory, in which the engine keeps nothing.
        unsafe { os::discard(run, len) };
        discarded += len;
    });
    discarded
}

/// The slot of the first block, and how many of the blocks lie in it: those are moved to the front.
#[inline(always)]
fn first_heaps(blocks: &mut [NonNull<u8>]) -> (usize, usize) {
    let slot = SPACE.slot_of(blocks[0].as_ptr());
    // Mostly all do, and to see just that takes an instruction or two a block.
    if SPACE.slot_has(slot, blocks) {
        return (slot, blocks.len());
    }
    let mut own = 0;
    for index in 0..blocks.len() {
        if SPACE.slot_of(blocks[index].as_ptr()) == slot {
            blocks.swap(own, index);
            own += 1;
        }
    }
    (slot, own)
}

/// Of the heaps of the first slots, that which the fewest threads use; the lowest of those.
pub(super) fn least_used(heaps: usize) -> &'static Heap {
    let used = |slot: &usize| Heap::of_slot(*slot).threads.load(Relaxed);
    Heap::of_slot((0..heaps).min_by_key(used).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::Heap;
    use crate::global::Pagewise;

    /// Microseconds of processor time of the calling thread.
    fn processor_time() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes the time.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    }

    /// How long a purge holds the lock at one time: of a heap of 1 GiB, blocks of 48 to 143 bytes,
    /// of which one in 50 stays; then of all of it. `cargo test --release --lib steps_of_a_purge --
    /// --ignored --nocapture` prints the figures that `docs/global.md` quotes.
    #[test]
    #[ignore = "a measurement"]
    fn steps_of_a_purge() {
        const PAGEWISE: Pagewise = Pagewise::new();
        let blocks: Vec<*mut u8> = (0..11_000_000_usize)
            .map(|at| {
                let block = PAGEWISE.allocate(48 + at % 96);
                // SAFETY: the block has this byte.
                unsafe { block.write(1) };
                block
            })
            .collect();
        let heap = Heap::of(blocks[0]);
        for freed in [true, false] {
            for (at, &block) in blocks.iter().enumerate() {
                if (at * 7 % 50 > 0) == freed {
                    // SAFETY: each is freed once.
                    unsafe { PAGEWISE.free(block) };
                }
            }
            let before = heap.with(|state| state.purged);
            heap.with(super::State::begin);
            let (mut steps, mut total, mut longest) = (0, 0.0, 0.0_f64);
            loop {
                let start = processor_time();
                let (more, _) = heap.step();
                let took = processor_time() - start;
                (steps, total, longest) = (steps + 1, total + took, longest.max(took));
                if !more {
                    break;
                }
            }
            let purged = heap.with(|state| state.purged) - before;
            println!(
                "{} MiB in {steps} steps, {:.0} ms in all, {:.0} us the longest",
                purged >> 20,
                total / 1e3,
                longest
            );
        }
    }
}
