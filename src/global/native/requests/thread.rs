//! Begins and ends a thread's use of the allocator, and opens the allocator for the process with
//! the first thread.
//!
//! ```text
//! first slow path              thread's end (`os::at_thread_end`)
//!  empty() ────────▶ own lists ────────────────────────────▶ gone()
//! ```
//! Other destructors may run after ours, and may allocate: a thread whose lists are `gone` takes
//! every block straight from a heap.
//!
//! Nothing is set up before the first allocation. Setting up allocates nothing until the calling
//! thread has its lists.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::global::native::base::mode;
use crate::global::native::base::settings;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::guarded;
use crate::global::native::hardened::own;
use crate::global::native::heaps::background;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::pool;
use crate::global::native::heaps::state::State;
use crate::global::native::lists::current;
use crate::global::native::lists::medium;
use crate::global::native::lists::quick::{self, Lists};
use crate::global::native::lists::registry;
use crate::global::native::process::fork;
use crate::global::native::process::statistics;
use crate::global::native::profile;
use crate::global::tuning::Tuning;
use crate::os;

/// Where the calling thread gets its blocks from.
#[derive(Clone, Copy)]
pub(in crate::global::native) struct Caller {
    /// Its quick lists; `None` if it has given them up, or there is no memory for them.
    pub(super) lists: Option<NonNull<Lists>>,
    /// The heap of its lists; without lists, any.
    pub(super) heap: &'static Heap,
}

/// Returns the lists and heap of the calling thread. Makes its lists if it has none, unless it is
/// about to end or there is no memory for them. `None` if there are no heaps.
pub(in crate::global::native) fn caller(asked: &Tuning) -> Option<Caller> {
    registry::adopt_orphans();
    let current = current::lists();
    let lists = if current == quick::gone() {
        None
    } else if current == quick::empty() {
        begin(asked)
    } else {
        NonNull::new(quick::of_face(current))
    };
    let heap = match lists {
        // SAFETY: a thread's lists are never freed.
        Some(lists) => unsafe { lists.as_ref() }.heap(),
        None => pool::for_thread_without_lists()?,
    };
    Some(Caller { lists, heap })
}

/// Makes the calling thread's lists; `None` if there is no memory for them.
#[cold]
fn begin(asked: &Tuning) -> Option<NonNull<Lists>> {
    let lists = registry::begin_thread(asked, || os::prepare_thread_end(thread_ended))?;
    current::set(quick::face(lists));
    own::begin();
    // SAFETY: lists are never freed.
    unsafe { lists.as_ref() }.sampler.begin();
    // From here on this thread can allocate, which the calls below may do.
    finish_opening(asked);
    os::at_thread_end(thread_ended, lists.as_ptr().cast());
    Some(lists)
}

/// Does the part of opening the allocator that may allocate, and complains about ignored settings
/// of the environment. Called once the first thread has its lists; no lock is held.
fn finish_opening(asked: &Tuning) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Relaxed) {
        return;
    }
    fork::register();
    background::register();
    let Some(settings) = registry::settings(asked) else { return };
    if settings.tuning.guarded > 0 {
        guarded::open();
    }
    statistics::register_summary(settings);
    settings::complain(settings);
    profile::start_if_set(asked, settings);
}

/// Creates the background thread, if it is wanted. The caller holds no lock. A thread whose lists
/// are gone may be in the C library, under a lock that the creation takes.
#[inline]
pub(in crate::global::native) fn start_background() {
    if current::lists() != quick::gone() {
        background::start();
    }
}

/// Called with its lists when a thread ends. The next thread gets these lists and the quick lists'
/// blocks, unless that is too much; medium blocks go back to their heaps.
extern "C" fn thread_ended(lists: *mut c_void) {
    let lists = lists.cast::<Lists>();
    registry::adopt_orphans();
    own::flush_quarantine();
    current::set(quick::gone());
    if let Some(lists) = NonNull::new(lists) {
        if !mode::is_hardened() {
            medium::of(lists.as_ptr()).put_back_all();
        }
        // SAFETY: the thread that ends is the calling one, and these are its lists.
        unsafe { registry::leave(lists) };
    }
    background::start();
}

/// Puts all blocks on the calling thread's lists back, and makes pages without blocks free memory.
/// For a thread that will not allocate soon: perhaps no other thread that uses its heap enters the
/// slow path soon.
pub(super) fn put_back_and_collect() {
    let lists = quick::of_face(current::lists());
    if quick::is_none(lists) {
        return;
    }
    flush_all();
    give_back_places();
    // SAFETY: lists are never freed.
    let heap = unsafe { &*lists }.heap();
    let _ = heap.with(State::collect);
    heap.maintain();
}

/// As [`flush_lists`], and empties the quarantine.
pub(super) fn flush_all() {
    own::flush_quarantine();
    flush_lists();
}

/// Puts all blocks on the calling thread's lists back, if it has some; not those in quarantine.
pub(super) fn flush_lists() {
    // SAFETY: they are the calling thread's.
    unsafe { flush(quick::of_face(current::lists())) };
}

/// Gives back the memory of the calling thread's lists, if it has some and no block is on them.
pub(super) fn give_back_places() {
    let lists = quick::of_face(current::lists());
    if let Some(lists) = NonNull::new(lists).filter(|_| !quick::is_none(lists)) {
        // SAFETY: they are the calling thread's.
        unsafe { quick::give_back_places(lists) };
    }
}

/// Puts all blocks on a thread's lists back to their heaps.
///
/// # Safety
/// They are the calling thread's, or those of a thread without lists.
unsafe fn flush(lists: *mut Lists) {
    // SAFETY: the caller guarantees that the lists are the calling thread's, or those of a thread
    // without lists.
    unsafe { quick::flush_all(lists, Upkeep::IfDue) };
    if !mode::is_hardened() && !quick::is_none(lists) {
        medium::of(lists).put_back_all();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::global::Pagewise;
    use crate::global::native::base::sizes;
    use crate::global::native::lists::{current, quick};

    const PAGEWISE: Pagewise = Pagewise::new();

    /// Returns the number of blocks on all lists of the calling thread.
    fn kept() -> usize {
        let mut kept = 0;
        sizes::for_each(|offset| {
            kept += quick::kept(quick::of_face(current::lists()), offset).blocks
        });
        kept
    }

    /// A thread that says it is idle keeps nothing, and goes on as before.
    #[test]
    fn an_idle_thread_keeps_no_blocks() {
        let idle = std::thread::spawn(|| {
            // It has no lists yet.
            PAGEWISE.thread_idle();
            for _ in 0..2 {
                let blocks: Vec<_> =
                    (0..3000).map(|index| PAGEWISE.allocate(index % 3000)).collect();
                // SAFETY: each is freed once.
                blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
                assert!(kept() > 100);
                PAGEWISE.thread_idle();
                assert_eq!(kept(), 0);
            }
        });
        idle.join().expect("it ends");
    }
}
