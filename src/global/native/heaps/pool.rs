//! The heaps of a process: which slots have one, and which heap serves which thread.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use super::heap::Heap;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::sync;
use crate::global::native::memory::huge;
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::Tuning;
use crate::os::{self, CpuSet};

/// The heaps there are. Written when one is opened.
#[derive(Debug)]
struct Heaps {
    /// Number of slots.
    slots: AtomicUsize,
    /// Number of slots with a heap; these come first.
    opened: AtomicUsize,
    /// Number of heaps that threads are spread over.
    shared: AtomicUsize,
    /// The slot of the spare heap, which no fork locks; [`NO_SLOT`] if there is none.
    spare: AtomicUsize,
    /// Whether the machine may have several NUMA nodes.
    nodes: AtomicBool,
}

/// The slot of the spare heap while there is none.
const NO_SLOT: usize = usize::MAX;

/// The heaps of this process.
static HEAPS: Apart<Heaps> = Apart::new(Heaps {
    slots: AtomicUsize::new(0),
    opened: AtomicUsize::new(0),
    shared: AtomicUsize::new(0),
    spare: AtomicUsize::new(NO_SLOT),
    nodes: AtomicBool::new(false),
});

/// The most heaps that threads are spread over.
const MOST: usize = 4096;

/// Bits of a word.
const BITS: usize = usize::BITS as usize;

/// One bit per heap without threads, as far as is known, for the start of a thread to find one. If
/// a heap gets a thread another way, its bit stays until a search checks it.
static IDLE: Apart<[AtomicUsize; MOST / BITS]> =
    Apart::new([const { AtomicUsize::new(0) }; MOST / BITS]);

/// Returns the number of heaps that threads are spread over.
pub(in crate::global::native) fn shared() -> usize {
    HEAPS.shared.load(Relaxed)
}

/// Notes that a heap may have no threads.
pub(in crate::global::native) fn mark_idle(heap: &Heap) {
    let slot = heap.slot();
    if let Some(word) = IDLE.get(slot / BITS) {
        word.fetch_or(1 << (slot % BITS), Relaxed);
    }
}

/// Notes that one thread less takes its blocks from a heap.
pub(in crate::global::native) fn remove_thread(heap: &Heap) {
    // In a child, a heap that the thread was about to leave may count no threads.
    let less = |threads: u32| threads.checked_sub(1);
    if heap.threads.fetch_update(Relaxed, Relaxed, less) == Ok(1) {
        mark_idle(heap);
    }
}

/// Returns whether any thread takes its blocks from a heap. O(heaps).
pub(in crate::global::native) fn have_threads() -> bool {
    all().any(|heap| heap.threads.load(Relaxed) > 0)
}

/// Returns the lowest heap without threads, of `node` if that is given.
fn find_idle(node: Option<u32>) -> Option<&'static Heap> {
    let words = HEAPS.opened.load(Acquire).div_ceil(BITS);
    IDLE.iter().take(words).enumerate().find_map(|(index, word)| {
        let mut bits = word.load(Relaxed);
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let heap = Heap::of_slot(index * BITS + bit as usize);
            if node.is_some_and(|node| !is_on_node(heap, node)) {
                continue;
            }
            word.fetch_and(!(1 << bit), Relaxed);
            if heap.threads.load(Relaxed) == 0 && !is_spare(heap) && !heap.is_lost() {
                return Some(heap);
            }
        }
        None
    })
}

/// Returns the NUMA node that the calling thread is on now; `None` where all count as the same.
pub(in crate::global::native) fn node() -> Option<u32> {
    HEAPS.nodes.load(Relaxed).then(os::node)
}

/// Pretends that the machine may have several nodes.
#[cfg(all(test, target_pointer_width = "64"))]
pub(in crate::global::native) fn pretend_nodes() {
    HEAPS.nodes.store(true, Relaxed);
}

/// Returns whether a heap's memory is of `node`, as far as is known.
pub(in crate::global::native) fn is_on_node(heap: &Heap, node: u32) -> bool {
    heap.node.load(Relaxed) == node
}

/// Returns another heap for a thread whose heap is busy: one of the next two, if it is of the same
/// node, and would still have fewer threads than the busy one after this thread joined it. Where
/// threads are spread evenly, they stay: a thread that moves leaves memory that goes back, and
/// grows the other heap by as much.
pub(in crate::global::native) fn alternative_to(busy: &Heap) -> Option<&'static Heap> {
    let threads = busy.threads.load(Relaxed);
    if threads < 2 {
        // The only thread of its heap stays: another one is just freeing a few blocks there.
        return None;
    }
    let others = [next_after(busy), next_after(busy)];
    let node = busy.node.load(Relaxed);
    let serves = |other: &&Heap| {
        other.threads.load(Relaxed) + 1 < threads && is_on_node(other, node) && !is_spare(other)
    };
    others.into_iter().filter(|other| !ptr::eq(*other, busy)).find(serves)
}

/// Returns a heap for the calling thread, which has no lists and so no heap; not the same for all
/// threads. `None` if there are no heaps.
#[cold]
#[inline(never)]
pub(in crate::global::native) fn for_thread_without_lists() -> Option<&'static Heap> {
    let opened = HEAPS.opened.load(Acquire);
    let mixed = (sync::token() >> 2).wrapping_mul(0x9e37_79b9) >> 16;
    let heap = Heap::of_slot((mixed as usize).checked_rem(opened)?);
    if is_for_threads(heap) { Some(heap) } else { all().next() }
}

/// Yields the opened heaps, in address order.
pub(in crate::global::native) fn all() -> impl ExactSizeIterator<Item = &'static Heap> {
    (0..HEAPS.opened.load(Acquire)).map(Heap::of_slot)
}

/// Returns the next opened heap at each call for the same `heap`, which is one of them.
pub(super) fn next_after(heap: &Heap) -> &'static Heap {
    // With two threads at a time, one heap may get two turns, or another none.
    let turn = heap.turn.load(Relaxed).wrapping_add(1);
    heap.turn.store(turn, Relaxed);
    Heap::of_slot(turn % HEAPS.opened.load(Acquire))
}

/// Yields the next few heaps, of the same node, in which threads allocate.
pub(in crate::global::native) fn near(heap: &Heap) -> impl Iterator<Item = &'static Heap> {
    let node = heap.node.load(Relaxed);
    let next = next_few(heap.slot(), HEAPS.opened.load(Acquire)).skip(1).map(Heap::of_slot);
    next.filter(move |other| serves_node(other, node))
}

/// Returns whether threads of `heap` may allocate in `other`.
pub(in crate::global::native) fn is_near(other: &Heap, heap: &Heap) -> bool {
    serves_node(other, heap.node.load(Relaxed))
}

/// Returns whether threads on `node` may allocate in this heap.
fn serves_node(heap: &Heap, node: u32) -> bool {
    is_on_node(heap, node) && is_for_threads(heap)
}

/// Returns another heap to give memory back: of the next few the first being purged, else the next.
pub(in crate::global::native) fn next_to_purge(heap: &Heap) -> &'static Heap {
    // The turn moves on by one, however many are looked at: else some heaps would never have
    // theirs.
    let next = next_after(heap).slot();
    let opened = HEAPS.opened.load(Acquire);
    Heap::of_slot(first_such(next, opened, |slot| Heap::of_slot(slot).purging.load(Relaxed)))
}

/// Returns the first of the next few slots from `next` on for which `is_such` holds, else `next`.
fn first_such(next: usize, opened: usize, is_such: impl Fn(usize) -> bool) -> usize {
    next_few(next, opened).find(|&slot| is_such(slot)).unwrap_or(next)
}

/// Yields the slots of a few heaps, from `slot` on; after the last of `opened`, the first follows.
fn next_few(slot: usize, opened: usize) -> impl Iterator<Item = usize> {
    /// Number of heaps to look at.
    const FEW: usize = 8;
    (0..FEW.min(opened)).map(move |ahead| (slot + ahead) % opened)
}

/// Returns whether this is the spare heap, which no fork locks.
pub(in crate::global::native) fn is_spare(heap: &Heap) -> bool {
    heap.slot() == HEAPS.spare.load(Relaxed)
}

/// Threads of a unit test's own heap: more than there are, while the sum over all heaps has 32
/// bits.
#[cfg(test)]
pub(in crate::global::native) const CROWD: u32 = 1 << 20;

/// Returns whether threads may be given this heap: not the spare one, nor one that is lost, nor a
/// unit test's own.
fn is_for_threads(heap: &Heap) -> bool {
    #[cfg(test)]
    if heap.threads.load(Relaxed) >= CROWD {
        return false;
    }
    !is_spare(heap) && !heap.is_lost()
}

/// Notes that the spare heap is lost: another thread held its lock when the process forked.
pub(in crate::global::native) fn lose_spare() {
    HEAPS.spare.store(NO_SLOT, Relaxed);
}

/// The right to open heaps. The registry has it, behind its lock.
#[derive(Debug)]
pub(in crate::global::native) struct Opener {
    /// Number of threads that started while no heap was idle.
    turn: usize,
    /// CPUs that the control group leaves to the process.
    quota: usize,
    /// CPUs that threads were seen to be allowed on when they needed heaps. A thread may be bound
    /// to one of them.
    seen: CpuSet,
    /// The most CPUs known so far.
    cpus: usize,
}

impl Opener {
    /// Creates the right to open heaps. Call it once.
    pub(in crate::global::native) const fn new() -> Self {
        Self { turn: 0, quota: usize::MAX, seen: os::NO_CPUS, cpus: 0 }
    }

    /// Adds the CPUs that the calling thread may run on to those known.
    fn see_cpus(&mut self) {
        self.cpus = self.cpus.max(os::cpus(&mut self.seen));
    }

    /// Returns the number of heaps for the CPUs known so far.
    fn wanted(&self, tuning: &Tuning) -> usize {
        (self.cpus.min(self.quota) * tuning.heaps_per_cpu as usize).min(MOST)
    }

    /// Finds the space for as many heaps as the CPUs call for. `None` if there is none.
    pub(in crate::global::native) fn open_space(&mut self, tuning: &Tuning) -> Option<()> {
        if HEAPS.slots.load(Relaxed) == 0 {
            /// Up to this many CPUs, heaps are few, so the quota is not asked for, and one node is
            /// assumed.
            const FEW: usize = 8;
            self.see_cpus();
            if self.cpus > FEW {
                self.quota = os::cpu_quota().unwrap_or(usize::MAX);
                HEAPS.nodes.store(true, Relaxed);
            }
            huge::ask_system(tuning.huge_pages);
            let wanted = self.wanted(tuning);
            /// The spare heap, and the unit tests' own; fewer with 32 bits.
            const MORE: usize = match (cfg!(test), cfg!(target_pointer_width = "64")) {
                (true, true) => 100,
                (true, false) => 48,
                (false, _) => 1,
            };
            let slots = SPACE.open(wanted + MORE)?;
            HEAPS.shared.store(wanted.min(slots), Relaxed);
            HEAPS.slots.store(slots, Relaxed);
        }
        Some(())
    }

    /// Opens one more heap, of the calling thread's node, if there is a slot and memory for it.
    pub(in crate::global::native) fn open(&mut self, tuning: &Tuning) -> Option<&'static Heap> {
        self.open_on(tuning, node().unwrap_or(0))
    }

    /// Opens one more heap as [`open`](Self::open) does, of `node`.
    fn open_on(&mut self, tuning: &Tuning, node: u32) -> Option<&'static Heap> {
        let slot = HEAPS.opened.load(Relaxed);
        if slot == HEAPS.slots.load(Relaxed) {
            return None;
        }
        let open = || Heap::open(slot, tuning).inspect(|_| SPACE.publish_heaps(slot + 1));
        let heap = SPACE.change(open)??;
        heap.node.store(node, Relaxed);
        HEAPS.opened.store(slot + 1, Release);
        mark_idle(heap);
        Some(heap)
    }

    /// Opens one more heap, unless the newest is empty: another could not serve a request either.
    pub(in crate::global::native) fn open_unless_empty(
        &mut self,
        tuning: &Tuning,
    ) -> Option<&'static Heap> {
        // Not under its lock: the registry's is held, and a heap may report a fault.
        let newest = all().last()?;
        let is_empty = newest.used.load(Relaxed) == 0 && !newest.is_lost();
        if is_empty { None } else { self.open(tuning) }
    }

    /// Opens the spare heap, if there is none.
    pub(in crate::global::native) fn open_spare(&mut self, tuning: &Tuning) {
        if HEAPS.spare.load(Relaxed) == NO_SLOT
            && let Some(heap) = self.open(tuning)
        {
            HEAPS.spare.store(heap.slot(), Relaxed);
        }
    }

    /// Returns a heap for a thread on `node`: `before`, the heap of its blocks, if that is of the
    /// node and has no threads.
    pub(in crate::global::native) fn heap_for_thread(
        &mut self,
        tuning: &Tuning,
        node: u32,
        before: Option<&'static Heap>,
    ) -> Option<&'static Heap> {
        before.filter(|heap| is_free_on(heap, node)).or_else(|| self.heap_of_node(tuning, node))
    }

    /// Returns a heap for a thread on `node`, by the first of these rules that finds one:
    /// 1. the lowest heap of the node without threads;
    /// 2. a new heap, if there may be more;
    /// 3. a heap of another node without threads, which becomes one of this node: its old memory
    ///    goes back over time, and its new memory is near;
    /// 4. of two heaps in turn, the one of this node, or with fewer threads (Azar et al. 1994,
    ///    *Balanced allocations*).
    ///
    /// O(1), plus a look at one bit per heap.
    pub(in crate::global::native) fn heap_of_node(
        &mut self,
        tuning: &Tuning,
        node: u32,
    ) -> Option<&'static Heap> {
        if let Some(heap) = find_idle(Some(node)) {
            return Some(heap);
        }
        if let Some(heap) = self.open_for_cpus(tuning, node) {
            return Some(heap);
        }
        if let Some(heap) = find_idle(None) {
            heap.node.store(node, Relaxed);
            return Some(heap);
        }
        self.turn = self.turn.wrapping_add(1);
        choose_shared(node, self.turn).or_else(|| all().next())
    }

    /// Opens one more heap, of `node`, if there are fewer than the CPUs call for. Threads may have
    /// been given other CPUs since the last call, or the process may have.
    pub(in crate::global::native) fn open_for_cpus(
        &mut self,
        tuning: &Tuning,
        node: u32,
    ) -> Option<&'static Heap> {
        let spare = usize::from(HEAPS.spare.load(Relaxed) != NO_SLOT);
        let opened = HEAPS.opened.load(Relaxed) - spare;
        if opened >= HEAPS.shared.load(Relaxed) {
            self.see_cpus();
            let slots = HEAPS.slots.load(Relaxed);
            HEAPS.shared.store(self.wanted(tuning).min(slots), Relaxed);
        }
        if opened < HEAPS.shared.load(Relaxed) { self.open_on(tuning, node) } else { None }
    }
}

/// Returns whether a heap is of `node` and has no threads.
fn is_free_on(heap: &Heap, node: u32) -> bool {
    heap.threads.load(Relaxed) == 0 && is_on_node(heap, node) && !is_spare(heap)
}

/// Returns one of two heaps, others at each turn: the one of `node`, else the one with fewer
/// threads. `None` if both are for no thread.
fn choose_shared(node: u32, turn: usize) -> Option<&'static Heap> {
    let opened = HEAPS.opened.load(Relaxed);
    let near = |slot| is_on_node(Heap::of_slot(slot), node);
    let two = two_of(opened, turn).map(|slot| Heap::of_slot(first_such(slot, opened, near)));
    let shared = two.into_iter().filter(|heap| is_for_threads(heap));
    shared.min_by_key(|heap| (!is_on_node(heap, node), heap.threads.load(Relaxed)))
}

/// Returns two of `count` slots that are far apart, others at each turn.
fn two_of(count: usize, turn: usize) -> [usize; 2] {
    let first = turn % count;
    [first, (first + count / 2) % count]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::native::lists::registry;

    /// Every heap has its turn, which it would not if turns moved on by as many as were looked at.
    #[test]
    fn every_heap_has_its_turn_to_be_purged() {
        for opened in 1..40 {
            let asked = std::cell::Cell::new(0);
            for next in 0..opened {
                let none = |_| {
                    asked.set(asked.get() + 1);
                    false
                };
                assert_eq!(first_such(next, opened, none), next);
                for ahead in 0..opened.min(8) {
                    let purging = (next + ahead) % opened;
                    assert_eq!(first_such(next, opened, |slot| slot == purging), purging);
                }
            }
            assert_eq!(asked.get(), opened * opened.min(8), "a few are looked at");
        }
    }

    /// Each has its turn in both places, beside another one.
    #[test]
    fn two_are_not_the_same() {
        for count in 2..40 {
            let mut turns = vec![[0; 2]; count];
            for turn in 0..count {
                let two @ [first, second] = two_of(count, 7 * count + turn);
                assert!(first != second, "{count}: {two:?}");
                turns[first][0] += 1;
                turns[second][1] += 1;
            }
            assert!(turns.iter().all(|&turns| turns == [1, 1]), "{count}: {turns:?}");
        }
        assert_eq!(two_of(1, 5), [0, 0]);
    }

    /// Only a thread that shares its heap moves, and never to the same heap.
    #[test]
    fn a_thread_alone_on_its_heap_keeps_it() {
        let heap = registry::heap_for_test();
        for _ in 0..100 {
            let other = alternative_to(heap);
            assert!(other.is_none_or(|other| !ptr::eq(other, heap) && !is_spare(other)));
        }
        heap.threads.store(1, Relaxed);
        assert!(alternative_to(heap).is_none());
        heap.threads.store(CROWD, Relaxed);
    }

    /// A thread moves to a heap of its node that has fewer threads even with it, and to no other.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_thread_moves_to_where_fewer_are() {
        const NODE: u32 = 12;
        let [busy, other] = [(); 2].map(|()| registry::heap_for_test());
        busy.node.store(NODE, Relaxed);
        // Under the registry's lock no other thread is given a heap.
        let moves = |threads: u32, beside: u32, node: u32| {
            registry::with_opener(|_| {
                busy.threads.store(threads, Relaxed);
                other.threads.store(beside, Relaxed);
                other.node.store(node, Relaxed);
                let moves = (0..HEAPS.opened.load(Relaxed)).filter_map(|_| alternative_to(busy));
                let moves = moves.inspect(|heap| assert!(ptr::eq(*heap, other))).count() > 0;
                [busy, other].iter().for_each(|heap| heap.threads.store(CROWD, Relaxed));
                moves
            })
        };
        for threads in 0..5 {
            for beside in 0..5 {
                let expected = threads > beside + 1;
                assert_eq!(moves(threads, beside, NODE), expected, "{threads}, {beside}");
            }
        }
        assert!(!moves(4, 0, NODE + 1));
        [busy, other].iter().for_each(|heap| heap.node.store(0, Relaxed));
    }

    /// The node is asked for where there may be several. In a process of its own: the threads of
    /// other tests would follow their nodes, too.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_knows_its_node() {
        crate::os::alone::passes("global::native::heaps::pool::tests::knows");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn knows() {
        pretend_nodes();
        // The thread may be moved in between.
        assert!((0..1000).any(|_| node() == Some(os::node())));
    }

    /// A thread that is about to end, and so has no lists, still has a heap once there is one; not
    /// the spare heap.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_without_lists_has_a_heap() {
        crate::os::alone::passes("global::native::heaps::pool::tests::serves");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn serves() {
        assert!(for_thread_without_lists().is_none());
        registry::heap_for_test();
        let heap = for_thread_without_lists().expect("there are heaps");
        assert!(all().any(|other| ptr::eq(heap, other)) && is_for_threads(heap));
        registry::with_opener(|opener| opener.open_spare(&Tuning::new()));
        let spare = all().find(|heap| is_spare(heap)).expect("there is one");
        assert!(!is_for_threads(spare));
    }

    /// Threads are given as many heaps as they are to be spread over, beside the spare one.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn the_spare_heap_does_not_count() {
        crate::os::alone::passes("global::native::heaps::pool::tests::spread");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn spread() {
        let tuning = Tuning::new();
        registry::heap_for_test();
        registry::with_opener(|opener| {
            opener.open_spare(&tuning);
            for _ in 0..2 * MOST {
                let heap = opener.heap_of_node(&tuning, 0).expect("there is one");
                heap.threads.fetch_add(1, Relaxed);
            }
        });
        // The test's own and that of its thread count, even if there should be fewer.
        assert_eq!(all().len(), shared().max(2) + 1);
    }

    /// A program binds its first thread to one CPU, and every other thread to another. The heaps
    /// are as many as all these CPUs call for, once a thread finds its heap busy or another starts.
    /// (Regression: they were as many as one CPU calls for.)
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn heaps_are_for_all_cpus_that_threads_are_bound_to() {
        crate::os::alone::passes("global::native::heaps::pool::tests::bound");
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn bound() {
        let mut seen = os::NO_CPUS;
        os::cpus(&mut seen);
        let cpus = (0..seen.len() * BITS).filter(|cpu| seen[cpu / BITS] >> (cpu % BITS) & 1 == 1);
        let [first, second] = cpus.take(2).collect::<Vec<_>>()[..] else { return };
        let bind = |cpu: usize| {
            let mut set = os::NO_CPUS;
            set[cpu / BITS] = 1 << (cpu % BITS);
            // SAFETY: the call reads the set, which has this many bytes.
            let refused =
                unsafe { libc::sched_setaffinity(0, size_of_val(&set), (&raw const set).cast()) };
            assert_eq!(refused, 0);
        };
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        bind(first);
        let tuning = Tuning::new().heaps_per_cpu(1);
        assert_eq!(registry::tuning(&tuning).heaps_per_cpu, 1);
        // SAFETY: the block is freed once.
        unsafe { PAGEWISE.free(PAGEWISE.allocate(100)) };
        let heap = all().next().expect("the allocator is open");
        heap.threads.store(2, Relaxed);
        assert!(shared() == 1 && registry::open_for_busy(heap).is_none());
        let thread = std::thread::spawn(move || {
            bind(second);
            // The last look was less than a millisecond ago, and the clock is coarse.
            std::thread::sleep(std::time::Duration::from_millis(50));
            heap.threads.store(1, Relaxed);
            assert!(registry::open_for_busy(heap).is_none(), "no other thread has it");
            heap.threads.store(2, Relaxed);
            registry::open_for_busy(heap).map(Heap::slot)
        });
        assert_eq!(thread.join().expect("it ends"), Some(1));
        assert_eq!((all().len(), shared()), (2, 2));
        // Fewer CPUs than were seen before take no heap away.
        assert!(registry::with_opener(|opener| opener.open_for_cpus(&tuning, 0)).is_none());
        assert_eq!(shared(), 2);
    }

    /// A thread gets an idle heap of its node if there is one.
    #[test]
    fn a_heap_is_of_the_node_of_its_threads() {
        const NODES: [u32; 2] = [7, 8];
        let tuning = Tuning::new();
        let own = NODES.map(|_| registry::heap_for_test());
        // Under the registry's lock no other thread is given a heap.
        let found = registry::with_opener(|opener| {
            for (heap, node) in own.iter().zip(NODES) {
                heap.node.store(node, Relaxed);
                heap.threads.store(0, Relaxed);
                mark_idle(heap);
            }
            let mut of = |node| opener.heap_of_node(&tuning, node).expect("there is one");
            let second = of(NODES[1]);
            let first = of(NODES[0]);
            first.threads.store(CROWD, Relaxed);
            second.threads.store(CROWD, Relaxed);
            [first, second]
        });
        assert!(ptr::eq(found[0], own[0]) && ptr::eq(found[1], own[1]));
        own.iter().for_each(|heap| heap.node.store(0, Relaxed));
    }

    /// A thread that begins with blocks gets their heap if it is of its node and has no threads.
    #[test]
    fn a_thread_gets_the_heap_of_its_blocks() {
        const NODE: u32 = 14;
        let tuning = Tuning::new();
        let own = registry::heap_for_test();
        own.node.store(NODE, Relaxed);
        // Under the registry's lock no other thread is given a heap.
        let gets = |threads: u32, node: u32| {
            registry::with_opener(|opener| {
                own.threads.store(threads, Relaxed);
                let given = opener.heap_for_thread(&tuning, node, Some(own));
                own.threads.store(CROWD, Relaxed);
                given.is_some_and(|heap| ptr::eq(heap, own))
            })
        };
        assert!(gets(0, NODE) && !gets(CROWD, NODE));
        // Where heaps are few, the thread may get it anyway: shared, or idle.
        let serves = |threads: u32, node: u32| {
            registry::with_opener(|_| {
                own.threads.store(threads, Relaxed);
                let serves = is_free_on(own, node);
                own.threads.store(CROWD, Relaxed);
                serves
            })
        };
        assert!(serves(0, NODE) && !serves(1, NODE) && !serves(0, NODE + 1));
        own.node.store(0, Relaxed);
    }

    /// Where no heap is idle, a thread shares one of its node in reach, even if others have fewer
    /// threads.
    #[test]
    fn a_heap_of_the_node_is_shared_rather() {
        const NODE: u32 = 9;
        let heap = registry::heap_for_test();
        heap.node.store(NODE, Relaxed);
        // For now, not the test's own.
        heap.threads.store(CROWD - 1, Relaxed);
        let opened = HEAPS.opened.load(Relaxed);
        let turns = (0..opened)
            .filter(|&turn| choose_shared(NODE, turn).is_some_and(|shared| ptr::eq(shared, heap)));
        // Each of the two places reaches eight heaps.
        assert!(turns.count() >= opened.min(8));
        assert!(
            (0..opened)
                .all(|turn| choose_shared(0, turn).is_none_or(|shared| !ptr::eq(shared, heap)))
        );
        heap.threads.store(CROWD, Relaxed);
        heap.node.store(0, Relaxed);
    }

    /// Of two heaps, a thread shares the one of its node, though it has more threads; if neither is
    /// of its node, the one with fewer. In a process of its own: all heaps are the test's.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn the_better_of_two_heaps_is_shared() {
        crate::os::alone::passes("global::native::heaps::pool::tests::better");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn better() {
        const NODE: u32 = 9;
        let near = [(); 24].map(|()| registry::heap_for_test())[12];
        let opened = HEAPS.opened.load(Relaxed);
        for (threads, heap) in all().enumerate() {
            heap.threads.store(1 + threads as u32, Relaxed);
        }
        for turn in 0..opened {
            let two = two_of(opened, turn).map(Heap::of_slot);
            let fewer = two.into_iter().min_by_key(|heap| heap.threads.load(Relaxed));
            let shared = choose_shared(NODE, turn).expect("there is one");
            assert!(ptr::eq(shared, fewer.expect("there are two")), "turn {turn}");
        }
        near.node.store(NODE, Relaxed);
        near.threads.store(1000, Relaxed);
        let is_near = |&turn: &usize| choose_shared(NODE, turn).is_some_and(|it| ptr::eq(it, near));
        // Each of the two places reaches eight heaps.
        assert_eq!((0..opened).filter(is_near).count(), 16);
    }

    /// A heap is found idle once its last thread has left it, and not before.
    #[test]
    fn a_heap_is_idle_when_its_last_thread_left() {
        let heap = registry::heap_for_test();
        // Other tests may find it as well.
        let is_found = || {
            (0..=HEAPS.opened.load(Relaxed))
                .map_while(|_| find_idle(None))
                .any(|idle| ptr::eq(idle, heap))
        };
        heap.threads.store(2, Relaxed);
        remove_thread(heap);
        assert!(!is_found());
        let found = (0..20).any(|_| {
            heap.threads.store(1, Relaxed);
            remove_thread(heap);
            is_found()
        });
        assert!(found);
        heap.threads.store(CROWD, Relaxed);
        (0..HEAPS.opened.load(Relaxed)).map(Heap::of_slot).for_each(mark_idle);
    }

    #[test]
    fn there_are_no_more_heaps_than_bits() {
        let tuning = Tuning::new().heaps_per_cpu(16);
        let mut opener = Opener::new();
        opener.see_cpus();
        assert!(opener.wanted(&tuning) <= MOST);
        assert_eq!(Opener { quota: 1, ..opener }.wanted(&tuning), 16);
    }
}
