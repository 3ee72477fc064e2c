//! The exchange of blocks between threads' lists and heaps, under the heap's lock.
//!
//! Each exchange is also an occasion to look after memory: if the heap grew, free memory of all
//! heaps [goes back](crate::global::native::heaps::relief); once in a while the thread checks
//! whether a purge is due.

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::Relaxed;

use super::{current, idle, medium, quick, sorting};
use crate::global::native::base::lock::Wait;
use crate::global::native::base::visit::{Upkeep, Visit};
use crate::global::native::base::{mode, sizes};
use crate::global::native::hardened::wiped;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::state::{Deallocated, State};
use crate::global::native::heaps::{background, kept, pool, relief};
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::purge::{Granularity, Plan};
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::UNIT;

impl Heap {
    /// Runs `action` as [`with`](Self::with). If the heap grew, gives back free memory of all
    /// heaps. If it has little to spare, the calling thread's medium lists [make
    /// way](medium::make_way).
    #[inline]
    pub(in crate::global::native) fn with_relief<R>(
        &self,
        action: impl FnOnce(&mut State) -> R,
    ) -> Option<R> {
        self.with_relief_if(Wait::Always, action)
    }

    /// As [`with_relief`](Self::with_relief), but waits for the lock only as `wait` says.
    #[inline]
    pub(in crate::global::native) fn with_relief_if<R>(
        &self,
        wait: Wait,
        action: impl FnOnce(&mut State) -> R,
    ) -> Option<R> {
        let (result, growth, spare) = self.with_if(wait, |state| {
            let result = action(state);
            (result, state.take_growth(), state.take_spare())
        })?;
        if let Some(spare) = spare
            && !mode::is_hardened()
        {
            medium::make_way(spare);
        }
        if let Some(growth) = growth {
            kept::give_back(growth);
            relief::give_back_for_growth(self, growth);
        }
        Some(result)
    }

    /// As [`with_relief_if`](Self::with_relief_if), and once in a while does the upkeep that is
    /// due.
    #[inline(always)]
    pub(super) fn with_upkeep<R>(
        &self,
        upkeep: Upkeep,
        wait: Wait,
        action: impl FnOnce(&mut State) -> R,
    ) -> Option<R> {
        let (result, is_time) = self.with_relief_if(wait, |state| {
            let result = action(state);
            (result, state.tick())
        })?;
        if is_time && upkeep == Upkeep::IfDue {
            self.maintain();
        }
        Some(result)
    }

    /// Returns small blocks to the heaps that own them; those of a busy heap wait beside it for its
    /// next user. Reorders `blocks`. Does the `upkeep` on this occasion.
    ///
    /// # Safety
    /// They were [taken](Self::take), are of one class, and are put back once.
    pub(in crate::global::native) unsafe fn put(blocks: &mut [NonNull<u8>], upkeep: Upkeep) {
        if mode::parts().zero() {
            // SAFETY: the caller puts them back, so they are free, and its own until then.
            unsafe { check_zeros(blocks) };
        }
        let Some(first) = blocks.first() else { return };
        let slot = SPACE.slot_of(first.as_ptr());
        // Mostly one heap owns all of them. To check that takes an instruction or two a block.
        if SPACE.slot_has(slot, blocks) {
            // SAFETY: the callee has the same contract; the heap of this slot owns the blocks.
            unsafe { Self::owner(slot, blocks).put_own(blocks, upkeep) }
        } else {
            // SAFETY: the callee has the same contract.
            unsafe { Self::put_mixed(blocks, upkeep) }
        }
    }

    /// As [`put`](Self::put), of blocks that several heaps own.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(never)]
    unsafe fn put_mixed(blocks: &mut [NonNull<u8>], upkeep: Upkeep) {
        // SAFETY: the callee has the same contract; the heap of this slot owns the blocks it gets.
        sorting::for_each_heap(blocks, &mut |slot, own| unsafe {
            Self::owner(slot, own).put_own(own, upkeep);
        });
    }

    /// Returns the heap of the slot that these blocks are in. Stops the process if there is none: a
    /// free with a size puts any pointer on a list.
    #[inline(always)]
    fn owner(slot: usize, blocks: &[NonNull<u8>]) -> &'static Self {
        if !SPACE.has_heap(slot) {
            misuse::stop(Misuse::NoBlock, blocks[0].as_ptr());
        }
        Self::of_slot(slot)
    }

    /// Takes back small blocks of this heap; if the heap is busy, they wait beside it.
    ///
    /// # Safety
    /// As for [`put`](Self::put), and this heap owns them.
    #[inline(always)]
    unsafe fn put_own(&self, blocks: &[NonNull<u8>], upkeep: Upkeep) {
        // SAFETY: the caller guarantees that the blocks were taken from this heap and are put back
        // once.
        match self.with_upkeep(upkeep, Wait::Never, |state| unsafe { state.put(blocks) }) {
            Some(Ok(())) => {}
            Some(Err(block)) => misuse::stop(Misuse::FreedTwice, block.as_ptr()),
            // SAFETY: the callee has the same contract, and `put` did not run.
            None => unsafe { self.defer(blocks, upkeep) },
        }
    }

    /// Leaves blocks of this busy heap to its next user.
    ///
    /// # Safety
    /// As for [`put_own`](Self::put_own).
    #[cold]
    unsafe fn defer(&self, blocks: &[NonNull<u8>], upkeep: Upkeep) {
        // SAFETY: the caller guarantees that this heap owns the blocks, and does not use them any
        // more.
        if unsafe { self.deferred.push(blocks) } {
            // The holder may have unlocked before the push, and the heap may have no other user for
            // long.
            let _ = self.with_if(Wait::Never, |_| ());
            return;
        }
        // SAFETY: the caller guarantees that the blocks were allocated here and are freed once.
        match self.with_upkeep(upkeep, Wait::Always, |state| unsafe { state.put_any(blocks) }) {
            Some(Ok(())) => {}
            Some(Err(block)) => misuse::stop(Misuse::FreedTwice, block.as_ptr()),
            None => {
                // A block with a link in it is no longer all zeros.
                blocks.iter().for_each(|block| SPACE.forget_states(block.as_ptr(), UNIT));
                // SAFETY: as for `push`; every block has room for a link.
                unsafe { self.deferred.push_linked(blocks) };
            }
        }
    }

    /// As [`put`](Self::put), of blocks from medium lists. Keeps their order.
    ///
    /// # Safety
    /// The blocks were freed once each, and are on no list.
    pub(super) unsafe fn put_medium(blocks: &[NonNull<u8>], upkeep: Upkeep) {
        let Some(first) = blocks.first() else { return };
        let slot = SPACE.slot_of(first.as_ptr());
        if SPACE.slot_has(slot, blocks) {
            // SAFETY: the callee has the same contract; the heap of this slot owns the blocks.
            return unsafe { Self::of_slot(slot).put_own_medium(blocks, upkeep) };
        }
        for block in blocks {
            // SAFETY: the callee has the same contract; this heap owns the block.
            unsafe { Self::of(block.as_ptr()).put_own_medium(slice::from_ref(block), upkeep) };
        }
    }

    /// As [`put_medium`](Self::put_medium), of blocks of this heap.
    ///
    /// # Safety
    /// As for [`put_medium`](Self::put_medium), and this heap owns them.
    unsafe fn put_own_medium(&self, blocks: &[NonNull<u8>], upkeep: Upkeep) {
        let put = |state: &mut State| {
            // SAFETY: the caller guarantees that the blocks are of this heap and freed once.
            let freed = unsafe { state.deallocate_all(blocks) };
            if freed.is_ok_and(|wanted| wanted != 0) {
                state.note_remainder();
            }
            freed
        };
        match self.with_upkeep(upkeep, Wait::Never, put) {
            Some(Ok(_)) => {}
            Some(Err(block)) => misuse::stop(Misuse::FreedTwice, block.as_ptr()),
            // SAFETY: the callee has the same contract, and `put` did not run.
            None => unsafe { self.defer(blocks, upkeep) },
        }
    }

    /// Frees a block that is not small, and returns its bytes; 0 if the block waits beside the
    /// heap.
    ///
    /// # Safety
    /// This heap owns the block, which is not small and is freed once.
    pub(in crate::global::native) unsafe fn deallocate(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is of this heap and freed once.
        let deallocate = |state: &mut State| unsafe { state.deallocate(block) };
        match self.with_upkeep(Upkeep::IfDue, Wait::Always, deallocate) {
            Some(Some(Deallocated { bytes, surplus })) => {
                if surplus != 0 {
                    self.give_back_freed(surplus, &mut Visit::for_bytes(4 * bytes));
                }
                bytes
            }
            Some(None) => misuse::stop(Misuse::FreedTwice, block.as_ptr()),
            None => {
                // SAFETY: the block is of this heap, is freed once, and has room for a link.
                unsafe { self.deferred.push_linked(&[block]) };
                0
            }
        }
    }

    /// After larger blocks were freed: gives back about `wanted` bytes of free huge pages. The next
    /// visits continue if this one is too short.
    #[cold]
    fn give_back_freed(&self, wanted: usize, visit: &mut Visit) {
        let given = self.give_back(wanted, visit, Granularity::HugePages);
        if given < wanted && visit.is_over() {
            let _ = self.with(State::note_remainder);
        }
    }

    /// After a large block was freed: calls `flush_lists`, which flushes the calling thread's
    /// lists, and collects the pages that are then empty. At most once in 128 uses of the heap.
    pub(in crate::global::native) fn trim(&self, flush_lists: impl FnOnce()) {
        if self.with(|state| state.start_trim_if_due()) == Some(true) {
            flush_lists();
            let _ = self.with(State::collect);
        }
    }

    /// Resizes a block that is not small, if it can stay where it is; returns whether it could.
    ///
    /// # Safety
    /// This heap owns the block, which is not small and is in use.
    pub(in crate::global::native) unsafe fn resize_in_place(
        &self,
        block: NonNull<u8>,
        new_size: usize,
    ) -> bool {
        // SAFETY: the caller guarantees that the block is of this heap and in use.
        let resize = |state: &mut State| unsafe { state.resize_in_place(block, new_size) };
        match self.with_upkeep(Upkeep::IfDue, Wait::Always, resize) {
            Some(Some(resized)) => resized,
            Some(None) => misuse::stop(Misuse::NotInUse, block.as_ptr()),
            None => false,
        }
    }

    /// Does some of the purges that are due, of this heap and of one other, within a visit. Returns
    /// whether there is more to do. Does nothing while a thread ends, since another may wait to
    /// join it.
    #[cold]
    pub(in crate::global::native) fn maintain(&self) -> bool {
        if current::lists() == quick::gone() {
            return false;
        }
        let mut visit = Visit::in_passing();
        idle::continue_round(&mut visit);
        self.do_due_purge(&mut visit);
        let other = pool::next_to_purge(self);
        if !ptr::eq(self, other) {
            other.do_due_purge(&mut visit);
        }
        self.purging.load(Relaxed) || other.purging.load(Relaxed)
    }

    /// Returns medium blocks to their heaps that were on threads' lists for long. Returns the
    /// milliseconds until more may be due; `None` if the lists are empty.
    pub(in crate::global::native) fn maintain_lists(visit: &mut Visit) -> Option<u64> {
        idle::continue_round(visit);
        idle::due_in()
    }

    /// Does steps of a purge that is under way or due, until the visit is over or another thread
    /// waits for the lock.
    pub(in crate::global::native) fn do_due_purge(&self, visit: &mut Visit) {
        let Some(plan) = self.with_if(Wait::Never, State::plan_purge) else { return };
        if plan != Plan::Nothing {
            background::note_due();
        }
        match plan {
            Plan::Nothing | Plan::Due => return idle::end_search(self),
            Plan::Begin => {
                // Blocks on lists keep free memory beside them from going back.
                let all = idle::put_back_of(self, visit);
                if !all && self.with(State::try_put_off_purge) == Some(true) {
                    return;
                }
                idle::end_search(self);
                self.begin_purge();
            }
            Plan::Remainder => {
                let wanted = self.with(State::take_remainder).unwrap_or(0);
                return self.give_back_freed(wanted, visit);
            }
            Plan::Continue => {}
        }
        while !visit.is_over() {
            let step = self.step(visit);
            if step.awaited || !step.more {
                return;
            }
        }
    }
}

/// Stops the process if one of these small blocks, all of one class, was zeroed when it was freed
/// and is not zero now: it was written after its free.
///
/// # Safety
/// The blocks are free, and the caller's alone.
#[cold]
unsafe fn check_zeros(blocks: &[NonNull<u8>]) {
    let Some(first) = blocks.first() else { return };
    let size = sizes::class_size(SPACE.list_of(first.as_ptr()).unwrap_or(0));
    // The size is matched once for all blocks.
    // SAFETY: the blocks have this size; the caller guarantees that they are free and its own.
    unsafe {
        match size {
            0..=32 => stop_unless(blocks, |block| wiped::are_ends_zero::<1>(block, size)),
            33..=64 => stop_unless(blocks, |block| wiped::are_ends_zero::<2>(block, size)),
            65..=wiped::SHORT => {
                stop_unless(blocks, |block| wiped::are_ends_zero::<4>(block, size))
            }
            _ => stop_unless(blocks, |block| wiped::is_longer_zero(block, size)),
        }
    }
}

/// As [`check_zeros`]; `is_zero` checks one block.
#[inline(always)]
fn stop_unless(blocks: &[NonNull<u8>], is_zero: impl Fn(NonNull<u8>) -> bool) {
    for &block in blocks {
        if SPACE.was_zeroed(block.as_ptr()) && !is_zero(block) {
            misuse::stop(Misuse::UsedAfterFree, block.as_ptr());
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use core::mem::MaybeUninit;
    use std::alloc::Layout;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::global::native::lists::registry;
    #[cfg(unix)]
    use crate::os::alone;

    /// Repeats `action` until it returns something: a heap refuses its lock while another test
    /// forks.
    fn patiently<R>(action: impl FnMut() -> Option<R>) -> R {
        core::iter::repeat_with(action).find_map(|result| result).expect("it goes on until then")
    }

    /// Takes blocks of 64 bytes or a little more from a heap.
    fn take(heap: &Heap, count: usize) -> Vec<NonNull<u8>> {
        let list = sizes::offset(64);
        let mut blocks = vec![MaybeUninit::uninit(); count];
        let mut taken = 0;
        patiently(|| {
            taken += heap.take(Wait::Always, sizes::class(list), list, &mut blocks[taken..]);
            (taken == count).then_some(())
        });
        // SAFETY: all were taken.
        blocks.into_iter().map(|block| unsafe { block.assume_init() }).collect()
    }

    fn in_use(heap: &Heap) -> usize {
        patiently(|| heap.with(|state| state.usage().blocks))
    }

    /// Blocks that one thread takes and another frees.
    struct Sent(Vec<NonNull<u8>>);
    // SAFETY: the blocks are owned.
    unsafe impl Send for Sent {}

    /// While a thread holds a heap's lock, others free its blocks without waiting, up to a bound;
    /// the heap's next user takes them back.
    #[test]
    fn freeing_threads_do_not_wait_for_the_lock() {
        let heap = registry::heap_for_test();
        let mut blocks = Some(Sent(take(heap, 900)));
        let (done, is_done) = mpsc::channel();
        let hold = |state: &mut State| {
            let Sent(blocks) = blocks.take().expect("it is held once");
            let (blocks, done) = (Sent(blocks), done.clone());
            let freeing = std::thread::spawn(move || {
                let Sent(mut blocks) = { blocks };
                for blocks in blocks.chunks_mut(90) {
                    // SAFETY: they were taken above, and are freed once.
                    unsafe { Heap::put(blocks, Upkeep::IfDue) };
                }
                done.send(()).expect("the test waits");
            });
            is_done.recv_timeout(Duration::from_secs(60)).expect("it does not wait for the lock");
            assert_eq!(state.usage().blocks, 900, "they wait");
            freeing.join().expect("it ends");
        };
        let mut hold = Some(hold);
        patiently(|| heap.with(|state| hold.take().expect("it is held once")(state)));
        assert_eq!(in_use(heap), 0);
    }

    /// Threads free each other's blocks of several heaps, more at a time than may wait: none is
    /// lost, and none is freed twice, which would stop the process.
    #[test]
    fn nothing_is_lost_between_threads() {
        let heaps: [&Heap; 3] = core::array::from_fn(|_| registry::heap_for_test());
        std::thread::scope(|scope| {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::channel()).unzip();
            for (own, receiver) in receivers.into_iter().enumerate() {
                let senders = senders.clone();
                scope.spawn(move || {
                    for round in 0..100 {
                        let mut blocks: Vec<_> =
                            heaps.iter().flat_map(|heap| take(heap, 60)).collect();
                        // Mixes the blocks of the heaps.
                        blocks
                            .sort_by_key(|block| block.addr().get().wrapping_mul(0x9e37_79b9) >> 5);
                        let to = (own + 1 + round % 3) % 4;
                        senders[to].send(Sent(blocks)).expect("it is received");
                    }
                    drop(senders);
                    for Sent(mut blocks) in receiver {
                        // SAFETY: they were taken above, and are freed once.
                        unsafe { Heap::put(&mut blocks, Upkeep::IfDue) };
                    }
                });
            }
            drop(senders);
        });
        assert_eq!(heaps.map(in_use), [0; 3]);
    }

    /// A heap that should have given more memory back is marked as purging, so that visits prefer
    /// it, until the remainder went back.
    #[test]
    fn a_heap_purges_until_its_remainder_went_back() {
        const MIB: usize = 1 << 20;
        let heap = registry::heap_for_test();
        let layout = Layout::from_size_align(MIB, UNIT).expect("it is one");
        let block = |_| {
            patiently(|| heap.with_relief(|state| state.allocate(layout))).expect("there is memory")
        };
        // With 32 bits a heap has room for fewer.
        let count = if cfg!(target_pointer_width = "64") { 100 } else { 20 };
        let blocks: Vec<_> = (0..count).map(block).collect();
        for block in blocks {
            // SAFETY: they were allocated above, and are freed once.
            unsafe { heap.deallocate(block) };
        }
        // Repeated, since a visit may be short, and fails while another test forks.
        let give_back_remainder = || {
            let until = Instant::now() + Duration::from_secs(60);
            while heap.purging.load(Relaxed) {
                assert!(Instant::now() < until, "a remainder stays");
                heap.do_due_purge(&mut Visit::in_passing());
            }
        };
        // Where the system is slow to take memory back, the heap has a remainder already.
        give_back_remainder();
        let mut visit = Visit::in_passing();
        while !visit.is_over() {}
        patiently(|| {
            heap.give_back_freed(8 * MIB, &mut visit);
            heap.purging.load(Relaxed).then_some(())
        });
        give_back_remainder();
        // Nothing is left of nothing. (Repeated, since another test may begin a purge.)
        assert!((0..20).any(|_| {
            give_back_remainder();
            heap.give_back_freed(0, &mut visit);
            !heap.purging.load(Relaxed)
        }));
    }

    /// A block that was written after it was zeroed stops the process when it goes back to its
    /// heap.
    #[cfg(unix)]
    #[test]
    fn a_write_to_a_zeroed_block_is_noticed() {
        alone::passes("global::native::lists::exchange::tests::zeroed");
        let ended = alone::run("global::native::lists::exchange::tests::written");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains("after it was freed"), "{said}");
    }

    /// Puts zeroed blocks back, after this byte was written to the start of one of them.
    #[cfg(unix)]
    fn put_zeroed(byte: u8) {
        use crate::global::{Hardening, Pagewise, Tuning};
        let hardening = Hardening::CHECKS.zero(true);
        let pagewise = Pagewise { tuning: Tuning::new().hardening(hardening) };
        assert!(!pagewise.allocate(1).is_null());
        let heap = registry::heap_for_test();
        let mut blocks = take(heap, 4);
        // SAFETY: they were taken above, have as many bytes, and are put back once.
        unsafe {
            for block in &blocks {
                block.write_bytes(0, 64);
                SPACE
                    .state_of(block.as_ptr())
                    .store(crate::global::native::memory::space::ZEROED, Relaxed);
            }
            blocks[2].write(byte);
            Heap::put(&mut blocks, Upkeep::Never);
        }
        assert_eq!(in_use(heap), 0);
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn zeroed() {
        put_zeroed(0);
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own, which it stops"]
    fn written() {
        put_zeroed(1);
    }

    /// The blocks that wait beside a heap when the process forks are taken back in the child and in
    /// the parent. In a process of its own, since other tests wait for no lock while one forks.
    #[cfg(unix)]
    #[test]
    fn deferred_blocks_are_taken_back_in_the_child_of_a_fork() {
        alone::passes("global::native::lists::exchange::tests::forks");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn forks() {
        let heap = registry::heap_for_test();
        let blocks = take(heap, 100);
        // SAFETY: they were taken above, and are freed once.
        assert!(unsafe { heap.deferred.push(&blocks) });
        assert!(alone::in_child(|| in_use(heap) == 0));
        assert_eq!(in_use(heap), 0);
    }
}
