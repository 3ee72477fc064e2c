//! What comes before a heap grows: the lists of the thread that wants memory make way.
//!
//! For its heap, a block on a list is in use. A few hundred of them, which a program freed here and
//! there, can keep megabytes of free memory apart: medium ones divide it into pieces that are
//! shorter than a page, and a small one keeps its page. So a program that turns from some sizes to
//! others would grow at each turn.
//!
//! Therefore a request first gets what the heap has. If that does not suffice, the thread's lists
//! put all their blocks back, and the heap tries once more before it grows. They stay as they are
//! where this would hardly help, or would take too much time:
//!
//! - free memory and the lists' blocks are at most 4 MiB, or a quarter of what is in use;
//! - the lists have less than 256 KiB, or than a sixteenth of that;
//! - since they last made way, the heap has been used fewer times than they needed to fill again,
//!   or since they stayed, a few times.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::{current, medium, quick};
use crate::global::native::base::lock::Wait;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::state::State;

/// Bytes that may be free in any case, and the part of those in use that may be.
const FREE: usize = 4 << 20;
const FREE_PART: usize = 4;

/// Fewest bytes that lists must have to make way, and the part of the free bytes.
const LISTED: usize = 256 << 10;
const LISTED_PART: usize = 16;

/// Small blocks that a list gets from its heap at a time, about.
const BATCH: usize = 16;

/// Uses of a heap for which a decision that lists stay holds good: they grow it by some pages.
const USES: usize = 32;

impl Heap {
    /// Runs `action`, which takes memory, as [`with_relief`](Self::with_relief). Before the heap
    /// grows for it, the calling thread's lists may make way. `action` may run several times, and
    /// must do nothing if it returns `None`.
    #[inline]
    pub(in crate::global::native) fn take_with<R>(
        &self,
        mut action: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let first = self.with_relief(|state| first_held(state, &mut action))?;
        first.or_make_way(|| self.with_relief(action).flatten())
    }

    /// Fills `blocks` with free blocks of a class for a quick list, and returns their number: maybe
    /// fewer than asked for where the heap would have to grow for more, none if memory is exhausted
    /// or `wait` forbids waiting for the lock. The lowest addresses come last, since a list pops
    /// from its end.
    pub(in crate::global::native) fn take(
        &self,
        wait: Wait,
        class: u32,
        list: u32,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        let mut take =
            |state: &mut State| Some(state.take(class, list, blocks)).filter(|&count| count > 0);
        let first = self.with_upkeep(Upkeep::IfDue, wait, |state| first_held(state, &mut take));
        let taken =
            first.and_then(|first| first.or_make_way(|| self.with_relief_if(wait, take).flatten()));
        taken.unwrap_or(0)
    }
}

/// What came of a request.
enum First<R> {
    /// It has its result.
    Done(Option<R>),
    /// It waits for the lists to make way.
    Waits,
}

impl<R> First<R> {
    /// Returns the result; if the lists must make way for it, that of `again`, after they did.
    #[inline]
    fn or_make_way(self, again: impl FnOnce() -> Option<R>) -> Option<R> {
        match self {
            Self::Done(result) => result,
            Self::Waits => {
                make_way();
                again()
            }
        }
    }
}

/// Runs `action` with the memory that the heap has. If that does not suffice, decides whether the
/// lists make way; if they do not, runs it again, and the heap may grow.
#[inline]
fn first_held<R>(state: &mut State, mut action: impl FnMut(&mut State) -> Option<R>) -> First<R> {
    if state.lists_rest() {
        return First::Done(action(state));
    }
    let (taken, is_refused) = state.without_growth(&mut action);
    if taken.is_some() || !is_refused {
        return First::Done(taken);
    }
    if decide(state) { First::Waits } else { First::Done(action(state)) }
}

/// Returns whether the calling thread's lists make way, and decides when this is asked again.
#[cold]
#[inline(never)]
fn decide(state: &mut State) -> bool {
    let (listed, batches) = listed();
    let usage = state.usage();
    let free = usage.held - usage.block + listed;
    let make_way = should_make_way(usage.block.saturating_sub(listed), free, listed);
    state.let_lists_rest(if make_way { batches } else { USES });
    make_way
}

/// Returns whether lists that have `listed` bytes should make way where `used` bytes are in use
/// beside theirs, and `free` bytes, with theirs, are not.
fn should_make_way(used: usize, free: usize, listed: usize) -> bool {
    free > FREE.max(used / FREE_PART) && listed >= LISTED.max(free / LISTED_PART)
}

/// Returns the bytes on the calling thread's lists, and in about how many batches their blocks come
/// from the heap.
fn listed() -> (usize, usize) {
    own().map_or((0, 0), |lists| {
        let (small, small_bytes) = quick::all_kept(lists);
        let (medium, medium_bytes) = medium::of(lists).kept();
        (small_bytes + medium_bytes, small / BATCH + medium)
    })
}

/// Puts the blocks on the calling thread's lists back to their heaps.
#[cold]
#[inline(never)]
fn make_way() {
    if let Some(lists) = own() {
        // SAFETY: the lists are the calling thread's.
        unsafe { quick::put_all_back(lists) };
        medium::of(lists).put_back_all();
    }
}

/// Returns the calling thread's lists, if it has any. In hardened mode they stay: which blocks they
/// have is left to chance.
fn own() -> Option<*mut quick::Lists> {
    let lists = current::lists();
    (!mode::is_hardened() && !quick::is_none(lists)).then_some(lists)
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::global::native::base::sizes;
    use crate::global::native::lists::registry;
    use crate::global::native::on_a_heap::on_a_heap;

    /// Lists make way if much is free together with their blocks, and they have a good part of it.
    #[test]
    fn lists_make_way_if_that_helps() {
        const MIB: usize = 1 << 20;
        for (used, free, listed, make_way) in [
            (0, 4 * MIB, 4 * MIB, false),
            (0, 4 * MIB + 1, MIB, true),
            (20 * MIB, 5 * MIB, 4 * MIB, false),
            (20 * MIB, 5 * MIB + 1, 4 * MIB, true),
            (MIB, 5 * MIB, LISTED, false),
            (MIB, 5 * MIB, 5 * MIB / 16, true),
            (MIB, 4 * MIB + 1, LISTED - 1, false),
            (400 * MIB, 90 * MIB, 18 * MIB, false),
        ] {
            assert_eq!(should_make_way(used, free, listed), make_way, "{used} {free} {listed}");
        }
    }

    /// A heap that has some blocks of a class grows only for a batch of which it has none, unless
    /// lists rest.
    #[test]
    fn a_heap_does_not_grow_for_the_rest_of_a_batch() {
        const BLOCKS: usize = 700;
        let heap = registry::heap_for_test();
        let list = sizes::offset(64);
        let mut blocks = [MaybeUninit::uninit(); BLOCKS];
        let with = |action: &mut dyn FnMut(&mut State)| {
            while heap.with(&mut *action).is_none() {}
        };
        let held = || {
            let mut held = 0;
            with(&mut |state| held = state.usage().held);
            held
        };
        let mut shorter_batches = |rest| {
            let mut shorter = 0;
            for _ in 0..20 {
                with(&mut |state| state.let_lists_rest(rest));
                let before = held();
                let taken = heap.take(Wait::Always, sizes::class(list), list, &mut blocks);
                // None if another test forks.
                if (1..BLOCKS).contains(&taken) {
                    shorter += 1;
                    assert_eq!(held(), before);
                }
            }
            shorter
        };
        assert_eq!(shorter_batches(1), 0);
        assert!(shorter_batches(0) > 2);
    }

    /// Lists stay for as many uses of the heap as they should rest, and as was decided if they
    /// hardly have anything.
    #[test]
    fn lists_rest() {
        on_a_heap(|state| {
            let rests = |state: &mut State| (0..).take_while(|_| state.lists_rest()).count();
            assert_eq!(rests(state), 0);
            state.let_lists_rest(3);
            assert_eq!(rests(state), 3);
            assert!(!decide(state), "nothing is free");
            assert_eq!(rests(state), USES);
        });
    }
}
