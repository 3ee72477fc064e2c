//! What a process has one of: the tuning in force, the lists of all threads, and the lock under which
//! the allocator opens. Nothing here allocates.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use std::sync::OnceLock;

use super::apart::Apart;
use super::ended::{self, Ended};
use super::heap::Heap;
use super::heaps::{self, Opener};
use super::lock::Locked;
use super::quick::{self, Lists};
use super::settings::Settings;
use super::space::SPACE;
use super::tuning::Tuning;
use super::visit::Visit;
use super::{background, current, medium, mode, sizes, sync};

/// What the registry's lock protects.
struct Registry {
    heaps: Opener,
    ended: Ended,
    /// There was no memory to open the allocator with. Then it stays closed: small blocks are
    /// mappings from here on, and who frees one must not take it for a heap's.
    refused: bool,
}

/// The tuning in force. Set under the registry's lock, so that a fork finds it set or not set.
static TUNING: Apart<OnceLock<Tuning>> = Apart::new(OnceLock::new());

static REGISTRY: Apart<Locked<Registry>> =
    Apart::new(Locked::new(Registry { heaps: Opener::new(), ended: Ended::new(), refused: false }));

/// Whether the allocator is open: the space is found, the first heap is made.
static OPEN: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// All lists ever made, linked through `next`.
static ALL: Apart<AtomicPtr<Lists>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Lists of all threads, those that have ended among them.
pub(super) fn all_lists() -> impl Iterator<Item = *mut Lists> {
    lists_from(ALL.load(Acquire))
}

/// As [`all_lists`], from some on.
pub(super) fn lists_from(mut next: *mut Lists) -> impl Iterator<Item = *mut Lists> {
    core::iter::from_fn(move || {
        let lists = next;
        // SAFETY: lists are never given up.
        next = unsafe { lists.as_ref()? }.next.load(Relaxed);
        Some(lists)
    })
}

/// The tuning in force: that of the first `Pagewise` used, as the environment overrides it. `asked` is
/// the tuning of the `Pagewise` used now, and decides if none was used before.
#[inline]
pub(super) fn tuning(asked: &Tuning) -> &'static Tuning {
    TUNING.get().unwrap_or_else(|| decide(asked))
}

#[cold]
fn decide(asked: &Tuning) -> &'static Tuning {
    static DEFAULT: Tuning = Tuning::new();
    // Under the lock, so that no child of a fork finds this half done. Where the lock cannot be waited
    // for, nothing is decided.
    REGISTRY.with(|_| TUNING.get_or_init(|| Settings::read(*asked).tuning)).unwrap_or(&DEFAULT)
}

/// Quick lists for the calling thread, and a heap for them; the first call in the process opens the
/// allocator, and then calls `opened`, which must not allocate. `None` if there is no memory, or the
/// registry's lock cannot be waited for.
pub(super) fn enter(asked: &Tuning, opened: fn()) -> Option<NonNull<Lists>> {
    let tuning = tuning(asked);
    REGISTRY.with(|registry| registry.enter(tuning, opened)).flatten()
}

/// Takes the lists of a thread that ends. By their pointer: a reference would reach no more than their head.
///
/// # Safety
/// They are the calling thread's, which does not use them any more.
pub(super) unsafe fn leave(lists: NonNull<Lists>) {
    // SAFETY: lists are never given up; the caller's promise.
    unsafe {
        heaps::left(lists.as_ref().heap());
        ended::leave(lists, heaps::shared(), purge_delay());
    }
}

/// Puts back what is on the lists of threads that ended so many milliseconds ago, or before, while the visit lasts; whether
/// that was anything.
pub(super) fn put_back_of_ended(delay: u32, visit: &mut Visit) -> bool {
    let mut any = false;
    while ended::any_blocks() && !visit.is_over() {
        // Not under the lock, for which threads that begin wait. The child of a fork adopts them wherever they are.
        let idle = REGISTRY.try_with(|registry| registry.ended.take_idle(delay));
        let Some(lists) = idle.flatten() else { break };
        // SAFETY: they were taken just now.
        unsafe { ended::put_back(lists) };
        any = true;
    }
    any
}

/// Milliseconds that free memory stays; the largest number: for ever, or as long as nothing is decided.
pub(super) fn purge_delay() -> u32 {
    TUNING.get().map_or(u32::MAX, |tuning| tuning.purge_delay)
}

/// Has a thread's blocks come from this heap, which has just served it, from now on; unless that is
/// the spare heap.
pub(super) fn move_to(lists: &Lists, heap: &'static Heap) {
    let before = lists.heap();
    if ptr::eq(before, heap) || heaps::is_spare(heap) {
        return;
    }
    heap.threads.fetch_add(1, Relaxed);
    lists.set_heap(heap);
    heaps::left(before);
}

/// Has the calling thread's blocks come from a heap of the NUMA node that it is on, if it was there when it looked last, too:
/// one that is moved to and fro keeps its heap. Programs pin their threads once these run, and have allocated.
pub(super) fn follow_node(lists: &Lists) {
    if let Some(node) = heaps::node() {
        follow(lists, node);
    }
}

fn follow(lists: &Lists, node: u32) {
    if lists.is_again_on(node) && !heaps::is_of(lists.heap(), node) {
        move_to_node(lists, node);
    }
}

/// Has a thread's blocks come from a heap of this node from now on, if it can have one.
#[cold]
fn move_to_node(lists: &Lists, node: u32) {
    let Some(tuning) = TUNING.get() else { return };
    let _ = REGISTRY.with(|registry| {
        let heap = registry.heaps.heap_of_node(tuning, node);
        if let Some(heap) = heap.filter(|heap| heaps::is_of(heap, node)) {
            move_to(lists, heap);
        }
    });
}

/// One more heap, if an empty one could serve a request that no heap could.
pub(super) fn open_another() -> Option<&'static Heap> {
    let tuning = TUNING.get()?;
    REGISTRY.with(|registry| registry.heaps.open_unless_empty(tuning))?
}

/// The heap that most of the blocks are of which lie on the lists of a thread that has ended, if some do.
fn heap_of_blocks(lists: NonNull<Lists>) -> Option<&'static Heap> {
    // SAFETY: lists are never given up.
    ended::have_blocks(lists).then(|| unsafe { lists.as_ref() }.last_heap()).flatten()
}

impl Registry {
    /// Opens the allocator, with the tuning in force.
    #[cold]
    fn open(&mut self, tuning: &Tuning) -> Option<()> {
        mode::open(tuning);
        self.heaps.open_space(tuning)?;
        if tuning.background {
            background::enable();
        }
        let heap = self.heaps.open(tuning)?;
        let sizes = (0..heap.classes() as usize).map(|class| heap.class_size(class as u32));
        quick::open(tuning, sizes);
        if !mode::is_hardened() {
            sizes::see_medium_at_once(true);
            sync::announce_barriers();
        }
        if mode::has_guards() {
            mode::seal();
            sizes::seal();
            SPACE.seal();
        }
        OPEN.store(true, Release);
        Some(())
    }

    /// As the function of this name.
    fn enter(&mut self, tuning: &Tuning, opened: fn()) -> Option<NonNull<Lists>> {
        if !OPEN.load(Relaxed) {
            self.refused = self.refused || self.open(tuning).map(|()| opened()).is_none();
        }
        if self.refused {
            return None;
        }
        let node = heaps::node().unwrap_or(0);
        let lists = self.lists(node)?;
        let heap = self.heaps.heap_for_thread(tuning, node, heap_of_blocks(lists))?;
        ended::begin(lists);
        heap.threads.fetch_add(1, Relaxed);
        // SAFETY: lists are never given up.
        unsafe { lists.as_ref() }.set_heap(heap);
        ended::hold(lists);
        if !mode::is_hardened() {
            medium::of(lists.as_ptr()).begin();
        }
        Some(lists)
    }

    /// Lists for a thread on this node.
    fn lists(&mut self, node: u32) -> Option<NonNull<Lists>> {
        let suits = |lists| heap_of_blocks(lists).is_none_or(|heap| heaps::is_of(heap, node));
        if let Some(lists) = self.ended.take(suits) {
            return Some(lists);
        }
        let lists = quick::make()?;
        // SAFETY: as above.
        unsafe { lists.as_ref() }.next.store(ALL.load(Relaxed), Relaxed);
        ALL.store(lists.as_ptr(), Release);
        Some(lists)
    }

    /// Opens the spare heap, where there is none.
    fn open_spare(&mut self) {
        if let Some(tuning) = TUNING.get() {
            self.heaps.open_spare(tuning);
        }
    }

    /// Makes the lists of all threads spare but these, and puts back what is on them.
    fn adopt(&mut self, own: *mut Lists, forker: u32) {
        self.ended.forget();
        heaps::all().for_each(|heap| {
            heap.threads.store(0, Relaxed);
            heaps::may_be_idle(heap);
        });
        for lists in all_lists() {
            // SAFETY: lists are never given up.
            let known = unsafe { &*lists };
            if !mode::is_hardened() {
                medium::of(lists).mend(lists == own);
            }
            let is_held = NonNull::new(lists).is_some_and(|lists| ended::is_held_by(lists, forker));
            if is_held && lists != own {
                // A handler forked while its thread began, ended, or put these back: it goes on with that in the child.
                continue;
            }
            if lists == own {
                known.heap().threads.store(1, Relaxed);
            } else {
                // SAFETY: their thread stayed behind in the parent.
                unsafe { quick::flush_all(lists, true) };
                if !mode::is_hardened() {
                    medium::of(lists).put_back_all();
                }
                if let Some(lists) = NonNull::new(lists) {
                    self.ended.add(lists);
                }
            }
        }
    }
}

/// Before a fork: takes all locks, so that what they protect is whole in the child, but for the spare
/// heap's; `pause` as for [`Locked::take_for_fork`].
pub(super) fn take_for_fork(mut pause: impl FnMut() -> bool) {
    // Nobody else needs the spare heap while there is one thread.
    let threads = all_lists().take(2).count();
    if threads > 1 {
        let _ = REGISTRY.with(Registry::open_spare);
    }
    REGISTRY.take_for_fork(&mut pause);
    heaps::all()
        .filter(|heap| !heaps::is_spare(heap))
        .for_each(|heap| heap.take_for_fork(&mut pause));
}

/// After a fork, in the parent.
pub(super) fn after_fork() {
    heaps::all().for_each(Heap::after_fork);
    REGISTRY.after_fork();
}

/// The lists of the thread that forked this process, as long as the others' are to be adopted.
static FORKED: AtomicPtr<Lists> = AtomicPtr::new(ptr::null_mut());

/// That thread's token.
static FORKER: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Whether they are.
static ORPHANS: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// After a fork, in the child: the lists of all threads but the one there is are
/// [adopted](adopt_orphans) when the child next needs the allocator's slow path, if it does: many a
/// child only executes a program.
///
/// A list is changed without a lock, so the others may have been at it. What the child sees of
/// another thread's memory is what that had written up to some point of its program. A block is
/// written before it is counted, and uncounted before it is used or put back, so whatever is counted
/// is free; what was on its way at that moment, a few blocks, stays in use in the child.
pub(super) fn after_fork_in_child() {
    for heap in heaps::all() {
        if heap.after_fork_in_child() && heaps::is_spare(heap) {
            heaps::lose_spare();
        }
    }
    REGISTRY.after_fork_in_child();
    FORKED.store(quick::of_face(current::lists()), Relaxed);
    FORKER.store(sync::token(), Relaxed);
    ORPHANS.store(true, Relaxed);
}

/// Puts the blocks back that were on the lists of threads which a fork left behind.
#[inline]
pub(super) fn adopt_orphans() {
    if ORPHANS.load(Relaxed) {
        adopt_now();
    }
}

#[cold]
fn adopt_now() {
    let adopt = |registry: &mut Registry| {
        if ORPHANS.swap(false, Relaxed) {
            registry.adopt(FORKED.load(Relaxed), FORKER.load(Relaxed));
        }
    };
    let _ = REGISTRY.with(adopt);
}

/// What `action` does with the right to open heaps; it is tried again while another test forks.
#[cfg(test)]
pub(super) fn with_opener<R>(mut action: impl FnMut(&mut Opener) -> R) -> R {
    loop {
        if let Some(result) = REGISTRY.with(|registry| action(&mut registry.heaps)) {
            return result;
        }
    }
}

/// What `action` does with the lists of threads that have ended; as [`with_opener`].
#[cfg(test)]
pub(super) fn with_ended<R>(mut action: impl FnMut(&mut Ended) -> R) -> R {
    loop {
        if let Some(result) = REGISTRY.with(|registry| action(&mut registry.ended)) {
            return result;
        }
    }
}

/// A heap that no thread is given, for a test that counts its blocks. The calling thread has lists afterwards.
#[cfg(test)]
pub(super) fn heap_for_test() -> &'static Heap {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    // While another test forks, nobody waits for a lock, and so nobody gets lists.
    while quick::is_none(current::lists()) {
        // SAFETY: the block is freed once.
        unsafe { PAGEWISE.free(PAGEWISE.allocate(1)) };
    }
    let tuning = TUNING.get().expect("the allocator is open");
    let open = |registry: &mut Registry| {
        let heap = registry.heaps.open(tuning)?;
        heap.threads.store(heaps::CROWD, Relaxed);
        Some(heap)
    };
    core::iter::repeat_with(|| REGISTRY.with(open))
        .find_map(|heap| heap)
        .flatten()
        .expect("there is a slot")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was decided first holds, and nothing goes back before.
    #[cfg(not(miri))]
    #[test]
    fn the_purge_delay_is_what_was_decided() {
        crate::os::alone::passes("global::native::registry::tests::delay");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn delay() {
        assert_eq!(purge_delay(), u32::MAX);
        assert_eq!(tuning(&Tuning::new().purge_delay(12_345)).purge_delay, 12_345);
        assert_eq!(tuning(&Tuning::new().purge_delay(7)).purge_delay, 12_345);
        assert_eq!(purge_delay(), 12_345);
    }

    /// What a thread that ended left is put back once, and not by a visit that is over.
    #[cfg(all(not(miri), not(target_family = "wasm")))]
    #[test]
    fn a_visit_that_is_over_puts_nothing_back() {
        crate::os::alone::passes("global::native::registry::tests::over");
    }

    #[cfg(all(not(miri), not(target_family = "wasm")))]
    #[test]
    #[ignore = "in a process of its own"]
    fn over() {
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        let thread = std::thread::spawn(|| {
            let blocks = [(); 100].map(|()| PAGEWISE.allocate(500));
            // SAFETY: the blocks are freed once.
            blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        });
        thread.join().expect("it ends");
        let mut visit = Visit::in_passing();
        while !visit.is_over() {}
        assert!(!put_back_of_ended(0, &mut visit));
        assert!(put_back_of_ended(0, &mut Visit::unbounded()));
        assert!(!put_back_of_ended(0, &mut Visit::unbounded()), "nothing is left");
    }

    /// A heap that no fork locks is made once there are several threads: the others go on with that meanwhile.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn a_fork_of_several_threads_has_a_spare_heap() {
        crate::os::alone::passes("global::native::registry::tests::spare");
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn spare() {
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        let allocate = || assert!(!PAGEWISE.allocate(100).is_null());
        let has_spare = || {
            take_for_fork(|| true);
            after_fork();
            heaps::all().any(heaps::is_spare)
        };
        allocate();
        assert!(!has_spare());
        std::thread::spawn(allocate).join().expect("it ends");
        assert!(has_spare());
        allocate();
    }

    /// While the newest heap is empty, another would serve no request that it cannot.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn another_heap_is_opened_unless_one_is_empty() {
        crate::os::alone::passes("global::native::registry::tests::another");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn another() {
        assert!(open_another().is_none(), "the allocator is not open");
        let heap = heap_for_test();
        let opened = heaps::all().len();
        assert!(open_another().is_none());
        let layout = core::alloc::Layout::from_size_align(1 << 20, 16).expect("it is one");
        assert!(heap.with(|state| state.allocate(layout)).flatten().is_some());
        let other = open_another().expect("there is a slot");
        assert!(!ptr::eq(other, heap) && heaps::all().len() == opened + 1);
        assert!(open_another().is_none(), "the new one is empty");
    }

    /// A thread that was seen on another node twice takes its blocks from a heap of that.
    #[test]
    fn a_thread_is_followed_to_another_node() {
        const NODE: u32 = 11;
        let thread = std::thread::spawn(|| {
            // Of that node is a heap at hand.
            let other = heap_for_test();
            // SAFETY: the lists are the thread's, and never given up.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            let before = lists.heap();
            other.node.store(NODE, Relaxed);
            other.threads.store(0, Relaxed);
            heaps::may_be_idle(other);
            let here = before.node.load(Relaxed);
            for seen in [here, NODE, here, NODE] {
                follow(lists, seen);
                assert!(ptr::eq(lists.heap(), before), "it is on its way");
            }
            // While another test forks, nobody waits for the lock.
            while !heaps::is_of(lists.heap(), NODE) {
                follow(lists, NODE);
            }
            assert!(ptr::eq(lists.heap(), other));
            // What it goes on with is from there.
            const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
            // SAFETY: they are freed once.
            unsafe {
                let blocks: Vec<_> = (0..1_000).map(|_| PAGEWISE.allocate(100)).collect();
                assert!(blocks.iter().any(|&block| ptr::eq(Heap::of(block), other)));
                blocks.into_iter().for_each(|block| PAGEWISE.free(block));
            }
            assert!(ptr::eq(lists.heap(), other));
            other.node.store(0, Relaxed);
        });
        thread.join().expect("it ends");
    }

    /// A thread whose heap is of another node than the one it is on comes to one that is. In a process of its own: the
    /// threads of other tests would follow their nodes, too.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_follows_the_node_it_is_on() {
        crate::os::alone::passes("global::native::registry::tests::follows");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn follows() {
        const NODE: u32 = 13;
        heaps::have_nodes();
        let thread = std::thread::spawn(|| {
            let own = heap_for_test();
            own.node.store(NODE, Relaxed);
            // SAFETY: the lists are the thread's, and never given up.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            move_to(lists, own);
            // While another test forks, nobody waits for the lock. On a machine with several, all heaps there are may be of
            // other nodes.
            let begin = std::time::Instant::now();
            while ptr::eq(lists.heap(), own) && crate::os::node() == 0 {
                assert!(begin.elapsed().as_secs() < 60, "it stays");
                follow_node(lists);
            }
            own.node.store(0, Relaxed);
        });
        thread.join().expect("it ends");
    }

    /// Nobody moves to the heap that no fork locks, and who stays where it is counts once.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn nobody_moves_to_the_spare_heap() {
        let thread = std::thread::spawn(|| {
            let own = heap_for_test();
            // SAFETY: the lists are the thread's, and never given up.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            move_to(lists, own);
            assert!(ptr::eq(lists.heap(), own));
            assert_eq!(own.threads.load(Relaxed), heaps::CROWD + 1);
            with_opener(|opener| opener.open_spare(TUNING.get().expect("it is open")));
            let spare = heaps::all().find(|heap| heaps::is_spare(heap)).expect("there is one");
            for heap in [spare, own] {
                let threads = heap.threads.load(Relaxed);
                move_to(lists, heap);
                assert!(ptr::eq(lists.heap(), own));
                assert_eq!(heap.threads.load(Relaxed), threads);
            }
        });
        thread.join().expect("it ends");
    }

    /// A thread that moved to another heap was subtracted there at its end without having been added:
    /// the count wrapped, and no thread was given that heap any more.
    #[test]
    fn a_thread_that_changes_heaps_is_counted() {
        let other = std::thread::spawn(|| {
            let other = heap_for_test();
            let threads = other.threads.load(Relaxed);
            // SAFETY: the lists are the thread's, and never given up.
            let lists = unsafe { &*current::lists() };
            let own = lists.heap();
            let before = own.threads.load(Relaxed);
            move_to(lists, other);
            assert_eq!(own.threads.load(Relaxed), before - 1);
            assert_eq!(other.threads.load(Relaxed), threads + 1);
            (other, threads)
        });
        let (other, threads) = other.join().expect("it ends");
        assert_eq!(other.threads.load(Relaxed), threads);
    }
}
