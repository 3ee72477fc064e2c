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
//! - free memory, with the lists' blocks, is at most 4 MiB, or at most a quarter of what is in use;
//! - the lists keep less than 256 KiB from joining it, or less than a sixteenth of it. A medium
//!   block counts with its own bytes, a small one with the page that it may keep;
//! - they [rest](crate::global::native::heaps::rest), because they made way or were asked only
//!   just now.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::listed::Listed;
use super::{current, medium, quick};
use crate::global::native::base::lock::Wait;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::state::State;

/// Bytes that may be free in any case.
const FREE: usize = 4 << 20;

/// Divisor: a quarter of the bytes in use may be free.
const FREE_PART: usize = 4;

/// Lists that make way keep at least this many bytes of free memory from joining.
const APART: usize = 256 << 10;

/// Divisor: and at least a sixteenth of the free bytes.
const APART_PART: usize = 16;

/// Small blocks that go back and come again in about the time of a growth, most of which is spent
/// on page faults.
const SMALL_OF_GROWTH: usize = 512;

/// Medium blocks that do so in that time.
const MEDIUM_OF_GROWTH: usize = 16;

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
    if state.count_use_at_rest() {
        return First::Done(state.take_at_rest(action));
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
    let listed = own().map_or(OnLists::default(), OnLists::of);
    let free = state.free_bytes() + listed.bytes();
    let may_be_free = may_be_free(state.usage().block.saturating_sub(listed.bytes()));
    let make_way = should_make_way(may_be_free, free, listed.apart(state.page_size()));
    match make_way {
        true => state.let_lists_rest(listed.growths()),
        false => state.let_lists_stay(more_to_ask_again(may_be_free, free)),
    }
    make_way
}

/// Returns how many bytes more the heap must have free before lists that stay are asked again: half
/// of those that may still become free, since the lists may get as many meanwhile. If more are free
/// already, the lists keep too little apart, and are asked again after some uses of the heap.
fn more_to_ask_again(may_be_free: usize, free: usize) -> usize {
    may_be_free.checked_sub(free).map_or(usize::MAX, |missing| 1 + missing / 2)
}

/// Returns the bytes that may be free where `used` bytes are in use beside the lists' blocks.
fn may_be_free(used: usize) -> usize {
    FREE.max(used / FREE_PART)
}

/// Returns whether lists should make way that keep up to `apart` bytes apart, where `free` bytes
/// are not in use, theirs among them, and `may_be_free` bytes may be.
fn should_make_way(may_be_free: usize, free: usize, apart: usize) -> bool {
    free > may_be_free && apart >= APART.max(free / APART_PART)
}

/// What is on a thread's lists of small blocks, and on those of medium ones.
#[derive(Clone, Copy, Debug, Default)]
struct OnLists {
    small: Listed,
    medium: Listed,
}

impl OnLists {
    fn of(lists: *mut quick::Lists) -> Self {
        Self { small: quick::all_kept(lists), medium: medium::of(lists).kept() }
    }

    fn bytes(self) -> usize {
        self.small.bytes + self.medium.bytes
    }

    /// Returns the most bytes that the blocks may keep apart from other free memory.
    fn apart(self, page: usize) -> usize {
        self.small.blocks.saturating_mul(page).saturating_add(self.medium.bytes)
    }

    /// Returns the growths that take about as long as to put the blocks back and get them again.
    fn growths(self) -> usize {
        1 + self.small.blocks / SMALL_OF_GROWTH + self.medium.blocks / MEDIUM_OF_GROWTH
    }
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
    use core::alloc::Layout;

    use super::*;
    use crate::global::native::base::sizes;
    use crate::global::native::lists::registry;
    use crate::global::native::on_a_heap::on_a_heap;

    /// Lists make way if much is free together with their blocks, and they may keep a good part of
    /// it apart.
    #[test]
    fn lists_make_way_if_that_helps() {
        const MIB: usize = 1 << 20;
        let may_be = [0, 16, 20, 400].map(|used| may_be_free(used * MIB));
        assert_eq!(may_be, [4, 4, 5, 100].map(|mib| mib * MIB));
        for (may_be_free, free, apart, make_way) in [
            (4 * MIB, 4 * MIB, 4 * MIB, false),
            (4 * MIB, 4 * MIB + 1, MIB, true),
            (4 * MIB, 4 * MIB + 1, APART - 1, false),
            (MIB, 5 * MIB, 5 * MIB / 16, true),
            (MIB, 5 * MIB, 5 * MIB / 16 - 1, false),
            (100 * MIB, 90 * MIB, 80 * MIB, false),
        ] {
            let made = should_make_way(may_be_free, free, apart);
            assert_eq!(made, make_way, "{may_be_free} {free} {apart}");
        }
    }

    /// Lists that stay are asked again once half of what may still become free is free.
    #[test]
    fn lists_that_stay_are_asked_again_as_memory_becomes_free() {
        for (may_be_free, free, more) in
            [(1000, 0, 501), (1000, 600, 201), (1000, 999, 1), (1000, 1000, 1)]
        {
            assert_eq!(more_to_ask_again(may_be_free, free), more, "{free}");
        }
        assert_eq!(more_to_ask_again(1000, 1001), usize::MAX);
    }

    /// A small block may keep all of its page apart, and its way back takes less time than that of
    /// a medium one.
    #[test]
    fn what_lists_keep_apart_is_counted() {
        let small = Listed { blocks: 1_100, bytes: 90_000 };
        let medium = Listed { blocks: 40, bytes: 1 << 20 };
        let listed = OnLists { small, medium };
        assert_eq!(listed.bytes(), 90_000 + (1 << 20));
        assert_eq!(listed.apart(1 << 16), 1_100 * (1 << 16) + (1 << 20));
        assert_eq!(listed.growths(), 1 + 2 + 2);
        assert_eq!(OnLists::default().growths(), 1);
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

    /// Lists rest while the heap is used and grows, and for some uses if they stay.
    #[test]
    fn lists_rest() {
        on_a_heap(|state| {
            let rests = |state: &mut State| (0..).take_while(|_| state.count_use_at_rest()).count();
            assert_eq!(rests(state), 0);
            state.let_lists_rest(2);
            let layout = Layout::from_size_align(1 << 20, 16).expect("it is one");
            let growths = (0..9).take_while(|_| {
                let rest = state.count_use_at_rest();
                state.take_at_rest(|state| state.allocate(layout)).expect("there is memory");
                rest
            });
            assert_eq!(growths.count(), 2);
            assert!(!decide(state), "nothing is free");
            assert_eq!(rests(state), 32);
        });
    }
}
