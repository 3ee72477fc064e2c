//! The heaps of a process: which slots have one, and which of them serves whom.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::apart::Apart;
use super::heap::Heap;
use super::mode;
use super::space::SPACE;
use super::tuning::Tuning;
use crate::os;

/// Which heaps there are. Written when one is opened.
#[derive(Debug)]
struct Heaps {
    /// How many slots there are, how many have a heap, and over how many heaps threads are spread.
    slots: AtomicUsize,
    opened: AtomicUsize,
    shared: AtomicUsize,
    /// The slot of the heap that no fork locks; [`NO_SLOT`]: there is none.
    spare: AtomicUsize,
}

const NO_SLOT: usize = usize::MAX;

static HEAPS: Apart<Heaps> = Apart::new(Heaps {
    slots: AtomicUsize::new(0),
    opened: AtomicUsize::new(0),
    shared: AtomicUsize::new(0),
    spare: AtomicUsize::new(NO_SLOT),
});

/// Opened heaps, in address order.
pub(super) fn all() -> impl Iterator<Item = &'static Heap> {
    (0..HEAPS.opened.load(Acquire)).map(Heap::of_slot)
}

/// Another opened heap at each call for the same heap, in turn, itself among them.
pub(super) fn next_after(heap: &Heap) -> &'static Heap {
    // Where two threads are at it, one heap may have two turns, or another none this time.
    let turn = heap.turn.load(Relaxed).wrapping_add(1);
    heap.turn.store(turn, Relaxed);
    Heap::of_slot(turn % HEAPS.opened.load(Acquire))
}

/// Whether this is the heap that no fork locks.
pub(super) fn is_spare(heap: &Heap) -> bool {
    heap.slot() == HEAPS.spare.load(Relaxed)
}

/// There is no such heap any more: another thread held its lock when the process forked.
pub(super) fn lose_spare() {
    HEAPS.spare.store(NO_SLOT, Relaxed);
}

/// The right to open heaps: the registry has it, behind its lock.
#[derive(Debug)]
pub(super) struct Opener(());

impl Opener {
    /// To be made once.
    pub(super) const fn new() -> Self {
        Self(())
    }

    /// Finds the space for the heaps, as many as the CPUs ask for. `None` if there is none.
    pub(super) fn open_space(&mut self, tuning: &Tuning) -> Option<()> {
        if HEAPS.slots.load(Relaxed) == 0 {
            let wanted = (os::cpus() * tuning.heaps_per_cpu as usize).min(256);
            // One more is the spare heap.
            let slots = SPACE.open(wanted + 1)?;
            HEAPS.shared.store(wanted.min(slots), Relaxed);
            HEAPS.slots.store(slots, Relaxed);
        }
        Some(())
    }

    /// One more heap, if there is a slot and memory for it.
    pub(super) fn open(&mut self, tuning: &Tuning) -> Option<&'static Heap> {
        let slot = HEAPS.opened.load(Relaxed);
        if slot == HEAPS.slots.load(Relaxed) {
            return None;
        }
        if mode::has_guards() && !SPACE.unseal() {
            return None;
        }
        let heap = Heap::open(slot, tuning);
        if heap.is_some() {
            SPACE.have_heaps(slot + 1);
        }
        if mode::has_guards() && slot > 0 {
            SPACE.seal();
        }
        let heap = heap?;
        HEAPS.opened.store(slot + 1, Release);
        Some(heap)
    }

    /// One more heap, if an empty one could serve a request: while the newest is empty, another would
    /// not either.
    pub(super) fn open_unless_empty(&mut self, tuning: &Tuning) -> Option<&'static Heap> {
        let empty = all().last()?.with(|state| state.usage().blocks == 0);
        if empty == Some(true) { None } else { self.open(tuning) }
    }

    /// Opens the spare heap, where there is none.
    pub(super) fn open_spare(&mut self, tuning: &Tuning) {
        if HEAPS.spare.load(Relaxed) == NO_SLOT
            && let Some(heap) = self.open(tuning)
        {
            HEAPS.spare.store(heap.slot(), Relaxed);
        }
    }

    /// The heap with the fewest threads, the lowest of those; a new one while all have some and there
    /// may be more.
    pub(super) fn heap_for_thread(&mut self, tuning: &Tuning) -> Option<&'static Heap> {
        let shared = || all().filter(|heap| !is_spare(heap));
        let least = shared().min_by_key(|heap| heap.threads.load(Relaxed));
        let busy = least.is_none_or(|heap| heap.threads.load(Relaxed) > 0);
        if busy && shared().count() < HEAPS.shared.load(Relaxed) {
            self.open(tuning).or(least)
        } else {
            least
        }
    }
}
