//! What there is one of in a process: which heaps are open, which threads have quick lists; how it
//! all begins, and what a fork does to it.
//!
//! Nothing is done before the first allocation, and nothing of what is done then allocates, but for
//! the very last steps, when the calling thread has its lists already.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::sync::OnceLock;

use super::gather;
use super::heap::{self, Heap};
use super::lock::Locked;
use super::os;
use super::quick::{self, Lists};
use super::space::SPACE;
use super::thread;
use super::tuning::Tuning;

/// What the registry's lock protects.
struct Registry {
    /// Lists whose threads have ended.
    spare: *mut Lists,
    /// There was no memory to open the allocator with. Then it stays closed: small blocks are
    /// mappings from here on, and who frees one must not take it for a heap's.
    refused: bool,
}

/// The tuning in force. Set under the registry's lock, so that a fork finds it set or not set.
static TUNING: OnceLock<Tuning> = OnceLock::new();

// SAFETY: lists are tied to a thread only while it uses them.
unsafe impl Send for Registry {}

static REGISTRY: Locked<Registry> =
    Locked::new(Registry { spare: ptr::null_mut(), refused: false });

/// Whether the allocator is open: the space is reserved, the first heap is made.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Slots there are; of them opened; and heaps that threads are spread over.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
static OPENED: AtomicUsize = AtomicUsize::new(0);
static HEAPS: AtomicUsize = AtomicUsize::new(0);

/// All lists ever made, linked through `next`.
static ALL: AtomicPtr<Lists> = AtomicPtr::new(ptr::null_mut());

/// Opened heaps, in address order.
pub(super) fn heaps() -> impl Iterator<Item = &'static Heap> {
    (0..OPENED.load(Acquire)).map(Heap::of_slot)
}

/// Each opened heap in its turn; to be asked for when there is one.
pub(super) fn next_heap() -> &'static Heap {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    Heap::of_slot(TURN.fetch_add(1, Relaxed) % OPENED.load(Acquire).max(1))
}

/// Lists of all threads, those that have ended among them.
pub(super) fn all_lists() -> impl Iterator<Item = *mut Lists> {
    let mut next = ALL.load(Acquire);
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
    REGISTRY.with(|_| TUNING.get_or_init(|| asked.with_environment()))
}

/// Quick lists for the calling thread, and a heap for them; the first call in the process opens the
/// allocator. `None` if there is no memory.
pub(super) fn enter(asked: &Tuning) -> Option<NonNull<Lists>> {
    let tuning = tuning(asked);
    REGISTRY.with(|registry| {
        if !OPEN.load(Relaxed) {
            registry.refused = registry.refused || registry.open(tuning).is_none();
        }
        if registry.refused {
            return None;
        }
        let lists = registry.lists()?;
        let heap = registry.heap_for_thread(tuning);
        heap.threads.fetch_add(1, Relaxed);
        // SAFETY: lists are never given up.
        unsafe { lists.as_ref() }.set_heap(heap);
        Some(lists)
    })
}

/// Whether lists of threads that the child of a fork lacks may have blocks.
static ORPHANS: AtomicBool = AtomicBool::new(false);

/// Puts the blocks back that were on the lists of threads which the fork left behind.
#[inline]
pub(super) fn adopt_orphans() {
    if ORPHANS.load(Relaxed) && ORPHANS.swap(false, Relaxed) {
        // The spare lists are nobody's while the lock is held.
        REGISTRY.with(|registry| registry.spares().for_each(thread::give_back));
    }
}

/// Takes the lists of a thread that ends; they are empty. By their pointer: a reference would reach
/// no more than their head.
pub(super) fn leave(lists: NonNull<Lists>) {
    // SAFETY: lists are never given up.
    let known = unsafe { lists.as_ref() };
    known.heap().threads.fetch_sub(1, Relaxed);
    REGISTRY.with(|registry| {
        known.next_spare.store(registry.spare, Relaxed);
        registry.spare = lists.as_ptr();
    });
}

/// One more heap, if there is a slot for it.
pub(super) fn open_another() -> Option<&'static Heap> {
    let tuning = TUNING.get()?;
    REGISTRY.with(|registry| registry.open_heap(tuning))
}

/// Does what may allocate, once the first thread has its lists.
pub(super) fn opened() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Relaxed) {
        return;
    }
    // The handlers touch nothing but what the locks protect.
    os::at_fork(before_fork, in_parent, in_child);
    gather::opened();
}

impl Registry {
    /// Opens the allocator, with the tuning in force.
    #[cold]
    fn open(&mut self, tuning: &Tuning) -> Option<()> {
        let wanted = (os::cpus() * tuning.heaps_per_cpu as usize).min(256);
        if SLOTS.load(Relaxed) == 0 {
            let slots = SPACE.open(wanted)?;
            HEAPS.store(wanted.min(slots), Relaxed);
            SLOTS.store(slots, Relaxed);
        }
        let heap = self.open_heap(tuning)?;
        let sizes = (0..heap.classes() as usize).map(|class| heap.class_size(class as u32));
        quick::open(tuning, sizes);
        thread::open();
        OPEN.store(true, Release);
        Some(())
    }

    fn open_heap(&mut self, tuning: &Tuning) -> Option<&'static Heap> {
        let slot = OPENED.load(Relaxed);
        if slot == SLOTS.load(Relaxed) {
            return None;
        }
        let heap = Heap::open(slot, tuning)?;
        OPENED.store(slot + 1, Release);
        Some(heap)
    }

    /// The heap with the fewest threads; a new one while all have some and there may be more.
    fn heap_for_thread(&mut self, tuning: &Tuning) -> &'static Heap {
        let heap = heap::least_used(OPENED.load(Relaxed));
        let another = heap.threads.load(Relaxed) > 0 && OPENED.load(Relaxed) < HEAPS.load(Relaxed);
        another.then(|| self.open_heap(tuning)).flatten().unwrap_or(heap)
    }

    /// The lists whose threads have ended.
    fn spares(&self) -> impl Iterator<Item = *mut Lists> {
        let mut next = self.spare;
        core::iter::from_fn(move || {
            let lists = next;
            // SAFETY: lists are never given up.
            next = unsafe { lists.as_ref()? }.next_spare.load(Relaxed);
            Some(lists)
        })
    }

    /// Makes the lists of all threads but the calling one spare.
    fn abandon_others(&mut self) {
        let own = thread::lists();
        self.spare = ptr::null_mut();
        heaps().for_each(|heap| heap.threads.store(0, Relaxed));
        for lists in all_lists() {
            // SAFETY: as above.
            let known = unsafe { &*lists };
            if lists == own {
                known.heap().threads.store(1, Relaxed);
            } else {
                known.next_spare.store(self.spare, Relaxed);
                self.spare = lists;
            }
        }
    }

    /// Lists for a thread: empty, but for those of a thread that a fork left behind.
    fn lists(&mut self) -> Option<NonNull<Lists>> {
        if let Some(lists) = NonNull::new(self.spare) {
            // SAFETY: lists are never given up.
            self.spare = unsafe { lists.as_ref() }.next_spare.load(Relaxed);
            return Some(lists);
        }
        let lists = quick::make()?;
        // SAFETY: as above.
        unsafe { lists.as_ref() }.next.store(ALL.load(Relaxed), Relaxed);
        ALL.store(lists.as_ptr(), Release);
        Some(lists)
    }
}

/// Before a fork all locks are taken, so that what they protect is whole in the child.
extern "C" fn before_fork() {
    REGISTRY.lock();
    heaps().for_each(Heap::lock);
}

extern "C" fn in_parent() {
    for heap in heaps() {
        // SAFETY: `before_fork` took the lock in this thread.
        unsafe { heap.unlock() };
    }
    // SAFETY: as above.
    unsafe { REGISTRY.unlock() };
}

/// In the child there is one thread. The others' lists are spare; their blocks go back when the
/// child next needs the allocator's slow path, if it does: many a child only executes a program.
///
/// A list is changed without a lock, so the others may have been at it. What the child sees of
/// another thread's memory is what that had written up to some point of its program. A block is
/// written before it is counted, and uncounted before it is used or put back, so whatever is
/// counted is free; what was on its way at that moment, a few blocks, stays in use in the child.
extern "C" fn in_child() {
    in_parent();
    REGISTRY.with(Registry::abandon_others);
    ORPHANS.store(true, Relaxed);
}

/// Called with its lists when a thread ends.
pub(super) extern "C" fn thread_ended(lists: *mut c_void) {
    thread::ended(lists.cast());
}
