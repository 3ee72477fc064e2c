//! The state that a process has once: the tuning in force, the lists of all threads, and the lock
//! under which the allocator opens. Nothing here allocates.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use super::ended::{self, Ended};
use super::quick::{self, Lists};
use super::{current, medium};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::cooldown::Cooldown;
use crate::global::native::base::lock::Locked;
use crate::global::native::base::once::Once;
use crate::global::native::base::settings::Settings;
use crate::global::native::base::visit::Visit;
use crate::global::native::base::{mode, sizes, sync};
use crate::global::native::heaps::background;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::pool::{self, Opener};
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::Tuning;
use crate::os;

/// The state that the registry's lock protects.
struct Registry {
    /// Opens heaps.
    heaps: Opener,
    /// The lists of ended threads.
    ended: Ended,
    /// There was no memory to open the allocator. It stays closed: from here on small blocks are
    /// mappings, and a free must not take them for a heap's.
    refused: bool,
}

/// The tuning in force, and the other settings. They are set under the registry's lock, so a fork
/// finds them either set or not set.
static SETTINGS: Apart<Once<Settings>> = Apart::new(Once::new());

static REGISTRY: Apart<Locked<Registry>> =
    Apart::new(Locked::new(Registry { heaps: Opener::new(), ended: Ended::new(), refused: false }));

/// Whether the allocator is open: the space was found, and the first heap made.
static OPEN: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// All lists ever made, linked through `next`.
static ALL: Apart<AtomicPtr<Lists>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Returns the lists that were made last, the first of [all](all_lists); null if there are none.
pub(in crate::global::native) fn first_lists() -> *mut Lists {
    ALL.load(Acquire)
}

/// Yields the lists of all threads, including ended ones.
pub(in crate::global::native) fn all_lists() -> impl Iterator<Item = *mut Lists> {
    let mut next = first_lists();
    core::iter::from_fn(move || {
        let lists = next;
        // SAFETY: lists are never freed.
        next = unsafe { lists.as_ref()? }.next.load(Relaxed);
        Some(lists)
    })
}

/// Returns the settings in force: the tuning of the first `Pagewise` used, with the environment's
/// overrides. `asked` is the tuning of the `Pagewise` used now; it decides if no other was used
/// before. `None` if that is not decided and the registry's lock cannot be waited for.
#[inline]
pub(in crate::global::native) fn settings(asked: &Tuning) -> Option<&'static Settings> {
    SETTINGS.get().or_else(|| decide(asked))
}

/// Returns the tuning in force, or the default as long as nothing can be decided.
#[inline]
pub(in crate::global::native) fn tuning(asked: &Tuning) -> &'static Tuning {
    static DEFAULT: Tuning = Tuning::new();
    settings(asked).map_or(&DEFAULT, |settings| &settings.tuning)
}

/// Returns the tuning in force; `None` if it is not decided yet.
#[inline]
fn decided() -> Option<&'static Tuning> {
    SETTINGS.get().map(|settings| &settings.tuning)
}

/// Decides the settings: reads the environment, unless another thread has just done so.
#[cold]
fn decide(asked: &Tuning) -> Option<&'static Settings> {
    // Under the lock, so that the child of a fork does not find this half done.
    REGISTRY.with(|_| match SETTINGS.get() {
        Some(settings) => settings,
        None => SETTINGS.get_or_set(Settings::read(*asked)),
    })
}

/// Gives the calling thread quick lists and a heap. The first call opens the allocator, and then
/// calls `on_open`, which must not allocate. `None` if there is no memory, or the registry's lock
/// cannot be waited for.
pub(in crate::global::native) fn begin_thread(
    asked: &Tuning,
    on_open: fn(),
) -> Option<NonNull<Lists>> {
    let tuning = &settings(asked)?.tuning;
    REGISTRY.with(|registry| registry.adopted().begin_thread(tuning, on_open)).flatten()
}

/// Bytes of a heap's free memory from which on a thread that ends has the background thread look
/// after it.
const MUCH: usize = 1 << 20;

/// Takes the lists of a thread that ends. They are passed as a pointer because a reference would
/// cover only their head.
///
/// # Safety
/// The lists are the calling thread's, which does not use them any more.
pub(in crate::global::native) unsafe fn leave(lists: NonNull<Lists>) {
    // SAFETY: lists are never freed; the caller guarantees that these are its own.
    let heap = unsafe {
        let heap = lists.as_ref().heap();
        pool::remove_thread(heap);
        ended::leave(lists, pool::shared(), purge_delay());
        heap
    };
    if heap.free() >= MUCH || ended::have_much() {
        background::note_due();
    }
    background::note_end_of_thread();
}

/// Puts back blocks on lists of threads that ended at least `delay` milliseconds ago, until the
/// visit is over. Returns whether there were any.
pub(super) fn put_back_of_ended(delay: u32, visit: &mut Visit) -> bool {
    let mut any = false;
    while ended::have_memory() && !visit.is_over() {
        // Not under the lock, for which starting threads wait. A fork's child adopts these lists
        // anyway.
        let idle = REGISTRY.try_with(|registry| registry.adopted().ended.take_idle(delay));
        let Some(lists) = idle.flatten() else { break };
        // SAFETY: they were taken just now.
        unsafe { ended::put_back(lists) };
        any = true;
    }
    any
}

/// Returns the milliseconds that free memory stays; `u32::MAX`: for ever, or nothing is decided
/// yet.
pub(in crate::global::native) fn purge_delay() -> u32 {
    decided().map_or(u32::MAX, |tuning| tuning.purge_delay)
}

/// Lets a thread take its blocks from `heap`, which has just served it, from now on; unless that is
/// the spare heap.
pub(in crate::global::native) fn move_to(lists: &Lists, heap: &'static Heap) {
    let before = lists.heap();
    if ptr::eq(before, heap) || pool::is_spare(heap) {
        return;
    }
    heap.threads.fetch_add(1, Relaxed);
    lists.set_heap(heap);
    pool::remove_thread(before);
}

/// Lets the calling thread take its blocks from a heap of its NUMA node, if it was on the same node
/// at its last look; a thread that is moved to and fro keeps its heap. Programs pin threads after
/// these have started and allocated.
pub(in crate::global::native) fn follow_node(lists: &Lists) {
    if let Some(node) = pool::node() {
        follow(lists, node);
    }
}

/// As [`follow_node`], for a thread on `node`.
fn follow(lists: &Lists, node: u32) {
    if lists.note_node(node) && !pool::is_on_node(lists.heap(), node) {
        move_to_node(lists, node);
    }
}

/// Lets a thread take its blocks from a heap of `node` from now on, if there is one for it.
#[cold]
fn move_to_node(lists: &Lists, node: u32) {
    let Some(tuning) = decided() else { return };
    let _ = REGISTRY.with(|registry| {
        let heap = registry.heaps.heap_of_node(tuning, node);
        if let Some(heap) = heap.filter(|heap| pool::is_on_node(heap, node)) {
            move_to(lists, heap);
        }
    });
}

/// Opens one more heap, if an empty one could serve a request that no heap could.
pub(in crate::global::native) fn open_another() -> Option<&'static Heap> {
    let tuning = decided()?;
    REGISTRY.with(|registry| registry.heaps.open_unless_empty(tuning))?
}

/// Opens one more heap for the threads of a busy one, if it has several and the calling thread may
/// run on other CPUs than those known so far: a program may bind its first thread to one CPU, and
/// each thread that starts to another. Looks at most once in a millisecond.
pub(in crate::global::native) fn open_for_busy(busy: &Heap) -> Option<&'static Heap> {
    static PAUSE: Apart<Cooldown> = Apart::new(Cooldown::over());
    if busy.threads.load(Relaxed) < 2 || !PAUSE.begin_again(os::now(), 1) {
        return None;
    }
    let (tuning, node) = (decided()?, busy.node.load(Relaxed));
    REGISTRY.try_with(|registry| registry.heaps.open_for_cpus(tuning, node))?
}

/// Returns the heap of the last thread that had these lists, if there are blocks on them: most of
/// them belong there.
fn heap_of_blocks(lists: NonNull<Lists>) -> Option<&'static Heap> {
    // SAFETY: lists are never freed.
    ended::has_blocks(lists).then(|| unsafe { lists.as_ref() }.last_heap()).flatten()
}

impl Registry {
    /// Opens the allocator with the tuning in force.
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
        sizes::set_medium_fast_path(!mode::is_hardened());
        if !mode::is_hardened() {
            sync::announce_barriers();
        }
        if mode::has_guards() {
            mode::seal();
            sizes::seal();
            SPACE.seal();
        }
        sync::note_process();
        sync::set_holds(holds_a_lock);
        OPEN.store(true, Release);
        Some(())
    }

    /// See the function [`begin_thread`].
    fn begin_thread(&mut self, tuning: &Tuning, on_open: fn()) -> Option<NonNull<Lists>> {
        if !OPEN.load(Relaxed) {
            self.refused = self.refused || self.open(tuning).map(|()| on_open()).is_none();
        }
        if self.refused {
            return None;
        }
        let node = pool::node().unwrap_or(0);
        let lists = self.lists(tuning, node)?;
        let heap = self.heaps.heap_for_thread(tuning, node, heap_of_blocks(lists))?;
        ended::begin(lists);
        heap.threads.fetch_add(1, Relaxed);
        // SAFETY: lists are never freed.
        unsafe { lists.as_ref() }.set_heap(heap);
        ended::hold(lists);
        if !mode::is_hardened() {
            medium::of(lists.as_ptr()).set_owner();
        }
        Some(lists)
    }

    /// Returns lists for a thread on `node`.
    fn lists(&mut self, tuning: &Tuning, node: u32) -> Option<NonNull<Lists>> {
        let suits = |lists| heap_of_blocks(lists).is_none_or(|heap| pool::is_on_node(heap, node));
        if let Some(lists) = self.ended.take(suits) {
            return Some(lists);
        }
        let lists = quick::make(tuning)?;
        // SAFETY: lists are never freed.
        unsafe { lists.as_ref() }.next.store(ALL.load(Relaxed), Relaxed);
        ALL.store(lists.as_ptr(), Release);
        Some(lists)
    }

    /// Opens the spare heap, if there is none.
    fn open_spare(&mut self) {
        if let Some(tuning) = decided() {
            self.heaps.open_spare(tuning);
        }
    }

    /// Returns the registry after it has adopted the lists of threads that a fork left behind, if
    /// there are such. No lists may be taken from it before: the child would adopt these as well.
    fn adopted(&mut self) -> &mut Self {
        let forks = UNADOPTED.load(Relaxed);
        if forks != 0 {
            self.adopt(FORKED.load(Relaxed), FORKER.load(Relaxed));
            // Unless a signal handler has forked once more: then this goes on in the child of that
            // fork.
            let _ = UNADOPTED.compare_exchange(forks, 0, Release, Relaxed);
        }
        self
    }

    /// Makes all lists except `own` orphans, whose blocks are [put back](put_back_orphans) when the
    /// lock is let go. `forker` is the token of the thread that forked, which may use its own
    /// meanwhile.
    fn adopt(&mut self, own: *mut Lists, forker: u32) {
        self.ended.forget();
        pool::all().for_each(|heap| {
            heap.threads.store(0, Relaxed);
            pool::mark_idle(heap);
        });
        for lists in all_lists() {
            // SAFETY: lists are never freed.
            let known = unsafe { &*lists };
            let is_held = NonNull::new(lists).is_some_and(|lists| ended::is_held_by(lists, forker));
            if is_held && lists != own {
                // A signal handler forked while the thread began, ended, or put these lists back:
                // the thread goes on with that in the child.
                if !mode::is_hardened() {
                    medium::of(lists).forget_visitor();
                }
                continue;
            }
            if lists == own {
                known.heap().threads.store(1, Relaxed);
            } else {
                // SAFETY: their thread does not exist in the child.
                unsafe { quick::open_shut(lists) };
                if !mode::is_hardened() {
                    medium::of(lists).forget_owner();
                }
                if let Some(lists) = NonNull::new(lists) {
                    self.ended.add_orphan(lists);
                }
            }
        }
    }
}

/// Returns whether the thread with this token holds the registry's lock or a heap's. If the calling
/// thread does while it asks for memory, it is within an interposed function. O(heaps).
pub(super) fn holds_a_lock(thread: u32) -> bool {
    REGISTRY.is_held_by(thread) || pool::all().any(|heap| heap.is_held_by(thread))
}

/// Opens the spare heap for the time of a fork, unless the process has a single thread: nobody else
/// needs it.
pub(in crate::global::native) fn prepare_for_fork() {
    let threads = all_lists().take(2).count();
    if threads > 1 {
        let _ = REGISTRY.with(Registry::open_spare);
    }
}

/// Takes all locks before a fork, so that what they protect is intact in the child, except for the
/// spare heap's. `pause` as for [`Locked::take_for_fork`].
pub(in crate::global::native) fn take_for_fork(mut pause: impl FnMut() -> bool) {
    REGISTRY.take_for_fork(&mut pause);
    pool::all()
        .filter(|heap| !pool::is_spare(heap))
        .for_each(|heap| heap.take_for_fork(&mut pause));
}

/// Releases the locks after a fork, in the parent.
pub(in crate::global::native) fn after_fork() {
    pool::all().for_each(Heap::after_fork);
    REGISTRY.after_fork();
}

/// The lists of the thread that forked this process, while the other lists wait to be adopted.
static FORKED: AtomicPtr<Lists> = AtomicPtr::new(ptr::null_mut());

/// Token of that thread.
static FORKER: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Number of forks whose orphaned lists are still to be adopted.
static UNADOPTED: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Releases the locks after a fork, in the child. The lists of all other threads are
/// [adopted](adopt_orphans) when the child first needs the allocator's slow path. Many a child
/// never does: it only executes a program.
///
/// Lists change without a lock, so the other threads may have been changing theirs. The child sees
/// another thread's memory as it was at some point of that thread's program. A block is written
/// before it is counted, and uncounted before it is used or put back, so every counted block is
/// free. The few blocks that were on their way at that moment stay in use in the child.
pub(in crate::global::native) fn after_fork_in_child() {
    for heap in pool::all() {
        if heap.after_fork_in_child() && pool::is_spare(heap) {
            pool::lose_spare();
        }
    }
    REGISTRY.after_fork_in_child();
    let own = quick::of_face(current::lists());
    if !mode::is_hardened() {
        let medium = medium::of(own);
        if medium.forget_visitor() {
            medium.recount();
        }
    }
    FORKED.store(own, Relaxed);
    FORKER.store(sync::token(), Relaxed);
    UNADOPTED.fetch_add(1, Relaxed);
}

/// Returns whether the lists of threads that a fork left behind are still to be adopted. Until
/// then, no other thread may visit any lists: the one that adopts them relies on being alone there.
pub(super) fn has_orphans() -> bool {
    UNADOPTED.load(Acquire) != 0
}

/// Puts back the blocks on lists of threads that a fork left behind.
#[inline]
pub(in crate::global::native) fn adopt_orphans() {
    if has_orphans() {
        adopt_now();
    }
}

#[cold]
fn adopt_now() {
    let _ = REGISTRY.with(|registry| _ = registry.adopted());
    put_back_orphans();
}

/// Puts back the blocks of adopted lists, not under the lock: a fault that is found on this occasion
/// is reported, and the program may handle the signal.
fn put_back_orphans() {
    while let Some(lists) = REGISTRY.with(|registry| registry.ended.take_orphan()).flatten() {
        // SAFETY: they were taken just now.
        unsafe { ended::put_back(lists) };
    }
}

/// Runs `action` with the right to open heaps. Tries again while another test forks.
#[cfg(test)]
pub(in crate::global::native) fn with_opener<R>(mut action: impl FnMut(&mut Opener) -> R) -> R {
    loop {
        if let Some(result) = REGISTRY.with(|registry| action(&mut registry.heaps)) {
            return result;
        }
    }
}

/// Runs `action` with the lists of ended threads. Tries again while another test forks.
#[cfg(all(test, unix))]
pub(in crate::global::native) fn with_ended<R>(mut action: impl FnMut(&mut Ended) -> R) -> R {
    loop {
        if let Some(result) = REGISTRY.with(|registry| action(&mut registry.ended)) {
            return result;
        }
    }
}

/// Returns a heap that no thread is given, for a test that counts its blocks. Gives the calling
/// thread lists.
#[cfg(test)]
pub(in crate::global::native) fn heap_for_test() -> &'static Heap {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    // While another test forks, no lock is waited for, and so no thread gets lists.
    while quick::is_none(current::lists()) {
        // SAFETY: the block is freed once.
        unsafe { PAGEWISE.free(PAGEWISE.allocate(1)) };
    }
    let tuning = decided().expect("the allocator is open");
    let open = |registry: &mut Registry| {
        let heap = registry.heaps.open(tuning)?;
        heap.threads.store(pool::CROWD, Relaxed);
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
    #[cfg(all(unix, not(miri)))]
    use crate::global::native::base::visit::Upkeep;

    /// The first decision holds, and nothing goes back before it.
    #[cfg(not(miri))]
    #[test]
    fn the_purge_delay_is_what_was_decided() {
        crate::os::alone::passes("global::native::lists::registry::tests::delay");
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

    /// In the child of a fork, a thread may find the registry's lock held where it would adopt
    /// lists, and free where it takes some for itself: no other thread may get the same ones.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn threads_of_a_child_have_lists_of_their_own() {
        crate::os::alone::passes("global::native::lists::registry::tests::own_lists");
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn own_lists() {
        let take = || {
            let begin = || begin_thread(&Tuning::new(), || ()).map(|lists| lists.addr());
            std::thread::spawn(begin).join().ok().flatten()
        };
        heap_for_test();
        std::thread::spawn(heap_for_test).join().expect("it ends");
        assert!(std::thread::scope(|scope| {
            // Its end is waited for: the process has two threads when it forks.
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || is_done.recv());
            let differ = crate::os::alone::in_child(|| {
                let first = take();
                adopt_orphans();
                let second = take();
                first.is_some() && second.is_some() && first != second
            });
            drop(done);
            differ
        }));
    }

    /// In the child of a fork, blocks of the other threads are put back without the registry's
    /// lock. (Regression: a program that handled the abort could not start a thread.)
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn the_child_of_a_fork_reports_faults_without_a_lock() {
        crate::os::alone::passes("global::native::lists::registry::tests::reports");
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn reports() {
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        extern "C" fn at_abort(_: core::ffi::c_int) {
            let status = if holds_a_lock(sync::token()) { 8 } else { 7 };
            // SAFETY: ends the process; always sound.
            unsafe { libc::_exit(status) };
        }
        heap_for_test();
        let (freed, is_freed) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: the block is freed twice on purpose, and only the child of a fork notices.
            unsafe {
                let block = NonNull::new(PAGEWISE.allocate(500)).expect("there is memory");
                PAGEWISE.free(block.as_ptr());
                Heap::put(&mut [block], Upkeep::Never);
            }
            freed.send(()).expect("the test waits");
            let _ = is_done.recv();
            // The list still has the block: the thread must not put it back.
            current::set(quick::gone());
        });
        is_freed.recv().expect("the thread frees the block");
        let is_reported = crate::os::alone::in_child(|| {
            let handler = at_abort as extern "C" fn(core::ffi::c_int);
            // SAFETY: the handler has this signature.
            unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
            adopt_orphans();
            false
        });
        drop(done);
        other.join().expect("it ends");
        assert!(is_reported);
    }

    /// Blocks that an ended thread left are put back once, and not by a visit that is over.
    #[cfg(all(not(miri), not(target_family = "wasm")))]
    #[test]
    fn a_visit_that_is_over_puts_nothing_back() {
        crate::os::alone::passes("global::native::lists::registry::tests::over");
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

    /// A fork of a process with several threads makes a heap that forks do not lock: the other
    /// threads go on with it.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn a_fork_of_several_threads_has_a_spare_heap() {
        crate::os::alone::passes("global::native::lists::registry::tests::spare");
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn spare() {
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        let allocate = || assert!(!PAGEWISE.allocate(100).is_null());
        let has_spare = || {
            prepare_for_fork();
            take_for_fork(|| true);
            after_fork();
            pool::all().any(pool::is_spare)
        };
        allocate();
        assert!(!has_spare());
        std::thread::spawn(allocate).join().expect("it ends");
        assert!(has_spare());
        allocate();
    }

    /// In the child of a fork, no thread is given a heap whose lock is lost. (Regression: each new
    /// thread was, and all came to share the first heap.)
    #[cfg(all(unix, not(miri), target_pointer_width = "64"))]
    #[test]
    fn the_child_of_a_fork_gives_no_thread_a_lost_heap() {
        crate::os::alone::passes("global::native::lists::registry::tests::lost");
    }

    #[cfg(all(unix, not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn lost() {
        use std::sync::mpsc::channel;
        const PAGEWISE: crate::global::Pagewise = crate::global::Pagewise::new();
        let allocate = || assert!(!PAGEWISE.allocate(100).is_null());
        allocate();
        std::thread::spawn(allocate).join().expect("it ends");
        prepare_for_fork();
        let spare = pool::all().find(|heap| pool::is_spare(heap)).expect("it was opened");
        let (taken, is_taken) = channel();
        let (done, is_done) = channel::<()>();
        let holder = std::thread::spawn(move || {
            spare.with(|_| {
                taken.send(()).expect("the test waits");
                let _ = is_done.recv();
            })
        });
        is_taken.recv().expect("the thread has the lock");
        let is_spread = crate::os::alone::in_child(|| {
            let (begun, is_begun) = channel();
            for _ in 0..6 {
                let begun = begun.clone();
                std::thread::spawn(move || {
                    allocate();
                    begun.send(()).expect("the child waits");
                    std::thread::park();
                });
                is_begun.recv().expect("it begins");
            }
            let has_threads = |heap: &&Heap| heap.threads.load(Relaxed) > 0;
            spare.is_lost() && spare.free() == 0 && pool::all().filter(has_threads).count() > 2
        });
        drop(done);
        assert!(holder.join().expect("it ends").is_some());
        assert!(is_spread);
    }

    /// While the newest heap is empty, no other is opened, as it would serve no other requests.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn another_heap_is_opened_unless_one_is_empty() {
        crate::os::alone::passes("global::native::lists::registry::tests::another");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn another() {
        assert!(open_another().is_none(), "the allocator is not open");
        let heap = heap_for_test();
        let opened = pool::all().len();
        assert!(open_another().is_none());
        let layout = core::alloc::Layout::from_size_align(1 << 20, 16).expect("it is one");
        assert!(heap.with(|state| state.allocate(layout)).flatten().is_some());
        let other = open_another().expect("there is a slot");
        assert!(!ptr::eq(other, heap) && pool::all().len() == opened + 1);
        assert!(open_another().is_none(), "the new one is empty");
    }

    /// A thread that was seen on another node twice moves to a heap of that node.
    #[test]
    fn a_thread_is_followed_to_another_node() {
        const NODE: u32 = 11;
        let thread = std::thread::spawn(|| {
            // The heap of that node.
            let other = heap_for_test();
            // SAFETY: the lists are the thread's, and never freed.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            let before = lists.heap();
            other.node.store(NODE, Relaxed);
            other.threads.store(0, Relaxed);
            pool::mark_idle(other);
            let here = before.node.load(Relaxed);
            for seen in [here, NODE, here, NODE] {
                follow(lists, seen);
                assert!(ptr::eq(lists.heap(), before), "it is on its way");
            }
            // While another test forks, the lock is not waited for.
            while !pool::is_on_node(lists.heap(), NODE) {
                follow(lists, NODE);
            }
            assert!(ptr::eq(lists.heap(), other));
            // Its new blocks are from there.
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

    /// A thread whose heap is of another node moves to a heap of its own node. In a process of its
    /// own: the threads of other tests would follow their nodes as well.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_follows_the_node_it_is_on() {
        crate::os::alone::passes("global::native::lists::registry::tests::follows");
    }

    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn follows() {
        const NODE: u32 = 13;
        pool::pretend_nodes();
        let thread = std::thread::spawn(|| {
            let own = heap_for_test();
            own.node.store(NODE, Relaxed);
            // SAFETY: the lists are the thread's, and never freed.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            move_to(lists, own);
            // While another test forks, the lock is not waited for. On a machine with several
            // nodes, all existing heaps may be of other nodes.
            let begin = std::time::Instant::now();
            while ptr::eq(lists.heap(), own) && crate::os::node() == 0 {
                assert!(begin.elapsed().as_secs() < 60, "it stays");
                follow_node(lists);
            }
            own.node.store(0, Relaxed);
        });
        thread.join().expect("it ends");
    }

    /// No thread moves to the spare heap, and a thread that stays with its heap counts once.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn nobody_moves_to_the_spare_heap() {
        let thread = std::thread::spawn(|| {
            let own = heap_for_test();
            // SAFETY: the lists are the thread's, and never freed.
            let lists = unsafe { &*quick::of_face(current::lists()) };
            move_to(lists, own);
            assert!(ptr::eq(lists.heap(), own));
            assert_eq!(own.threads.load(Relaxed), pool::CROWD + 1);
            with_opener(|opener| opener.open_spare(decided().expect("it is open")));
            let spare = pool::all().find(|heap| pool::is_spare(heap)).expect("there is one");
            for heap in [spare, own] {
                let threads = heap.threads.load(Relaxed);
                move_to(lists, heap);
                assert!(ptr::eq(lists.heap(), own));
                assert_eq!(heap.threads.load(Relaxed), threads);
            }
        });
        thread.join().expect("it ends");
    }

    /// A thread is seen to hold the registry's lock or a heap's while it does.
    #[test]
    fn a_thread_under_a_lock_holds_one() {
        let (heap, me) = (heap_for_test(), sync::token());
        assert!(!holds_a_lock(me));
        assert!(with_opener(|_| holds_a_lock(me)));
        // While another test forks, the lock is not waited for.
        let under = core::iter::repeat_with(|| heap.with(|_| holds_a_lock(me)));
        assert_eq!(under.flatten().next(), Some(true));
        assert!(!holds_a_lock(me));
    }

    /// A thread that moves to another heap is counted there, so that its end does not make the
    /// count wrap.
    #[test]
    fn a_thread_that_changes_heaps_is_counted() {
        let other = std::thread::spawn(|| {
            let other = heap_for_test();
            let threads = other.threads.load(Relaxed);
            // SAFETY: the lists are the thread's, and never freed.
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
