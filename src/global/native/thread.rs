//! How a thread begins and ends to use the allocator, and how the first one begins for the process.
//!
//! ```text
//! first slow path              thread's end (`os::at_thread_end`)      
//!  empty() ────────▶ own lists ────────────────────────────▶ gone()
//! ```
//! Other destructors may run after ours, and may allocate: a thread whose lists are `gone` takes
//! every block straight from a heap.
//!
//! Nothing happens before the first allocation. What happens then does not allocate, until the calling
//! thread has its lists.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use super::current;
use super::fork;
use super::guarded;
use super::hardened::own;
use super::heap::Heap;
use super::heaps;
use super::medium;
use super::mode;
use super::profile;
use super::quick::{self, Lists};
use super::registry;
use super::settings::{self, Settings};
use super::state::State;
use super::statistics;
use super::tuning::Tuning;
use crate::os;

/// Where the calling thread's blocks come from.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    /// Its quick lists; `None` if it has none any more, or there is no memory for them.
    pub(super) lists: Option<NonNull<Lists>>,
    pub(super) heap: &'static Heap,
}

/// The calling thread, which has its quick lists afterwards, if it is not about to end and there is
/// memory for them. `None` if there are no heaps.
pub(super) fn enter(tuning: &Tuning) -> Option<Caller> {
    registry::adopt_orphans();
    let current = current::lists();
    let lists = if current == quick::gone() {
        None
    } else if current == quick::empty() {
        first(tuning)
    } else {
        NonNull::new(quick::of_face(current))
    };
    let heap = match lists {
        // SAFETY: a thread's lists are never given up.
        Some(lists) => unsafe { lists.as_ref() }.heap(),
        None => heaps::for_thread_without_lists()?,
    };
    Some(Caller { lists, heap })
}

#[cold]
fn first(tuning: &Tuning) -> Option<NonNull<Lists>> {
    let lists = registry::enter(tuning, || os::prepare_thread_end(thread_ended))?;
    current::set(quick::face(lists));
    own::begin();
    // SAFETY: lists are never given up.
    unsafe { lists.as_ref() }.sampler.begin();
    // From here on this thread can allocate, which the following may do.
    opened(tuning);
    os::at_thread_end(thread_ended, lists.as_ptr().cast());
    Some(lists)
}

/// Does what may allocate, and says what of the environment is ignored, once the first thread has its
/// lists. No lock is held.
fn opened(tuning: &Tuning) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Relaxed) {
        return;
    }
    fork::register();
    if tuning.guarded > 0 {
        guarded::open();
    }
    let settings = Settings::read(*tuning);
    statistics::opened(&settings);
    settings::complain(&settings);
    profile::opened(tuning, &settings);
}

/// Called with its lists when a thread ends: the next one has them, and what is on them, unless that is too much.
extern "C" fn thread_ended(lists: *mut c_void) {
    let lists = lists.cast::<Lists>();
    registry::adopt_orphans();
    own::leave();
    current::set(quick::gone());
    if let Some(lists) = NonNull::new(lists) {
        if !mode::is_hardened() {
            medium::of(lists.as_ptr()).put_back_all();
        }
        // SAFETY: the thread that ends is the calling one.
        unsafe { registry::leave(lists) };
    }
}

/// Puts back what is on the calling thread's lists, which is not to allocate soon, and makes pages without blocks free
/// memory: nobody else may come by soon who uses that heap.
pub(super) fn put_down() {
    let lists = quick::of_face(current::lists());
    if quick::is_none(lists) {
        return;
    }
    empty_lists();
    // SAFETY: lists are never given up.
    let heap = unsafe { &*lists }.heap();
    let _ = heap.with(State::collect);
    heap.maintain();
}

/// Puts back what is on the calling thread's lists, if it has some.
pub(super) fn empty_lists() {
    own::leave();
    // SAFETY: they are the calling thread's.
    unsafe { flush(quick::of_face(current::lists())) };
}

/// Puts back what is on a thread's lists.
///
/// # Safety
/// They are the calling thread's, or those of a thread without lists.
unsafe fn flush(lists: *mut Lists) {
    // SAFETY: passed on.
    unsafe { quick::flush_all(lists, true) };
    if !mode::is_hardened() && !quick::is_none(lists) {
        medium::of(lists).put_back_all();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::global::Pagewise;
    use crate::global::native::{current, quick, sizes};

    const PAGEWISE: Pagewise = Pagewise::new();

    /// Blocks on all lists of the calling thread.
    fn kept() -> usize {
        let mut kept = 0;
        sizes::for_each(|offset| kept += quick::kept(quick::of_face(current::lists()), offset).0);
        kept
    }

    /// A thread that says so keeps nothing, and goes on as before.
    #[test]
    fn an_idle_thread_keeps_no_blocks() {
        let idle = std::thread::spawn(|| {
            // It has no lists yet.
            PAGEWISE.thread_idle();
            for _ in 0..2 {
                let blocks: Vec<_> =
                    (0..3000).map(|index| PAGEWISE.allocate(index % 3000)).collect();
                // SAFETY: they are freed once.
                blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
                assert!(kept() > 100);
                PAGEWISE.thread_idle();
                assert_eq!(kept(), 0);
            }
        });
        idle.join().expect("it ends");
    }
}
