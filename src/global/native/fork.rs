//! A fork at any moment: by a program with threads, in a signal's handler, while handlers of the
//! program allocate.
//!
//! ```text
//!  parent, the thread that forks       its other threads                 child
//!  take all locks but the spare heap's  a lock held for the fork:         lets go of the locks taken;
//!  (handlers of the program)            blocks come from the spare heap,  a lock that another thread
//!  fork                                 freed ones wait at their heap     held is lost, with its heap
//!  let go of the locks                  (`deferred`)
//! ```
//! So what the locks protect is whole in the child. Nobody waits for a lock that is held for a fork:
//! C's library takes its own locks after ours, and who holds one of those may need memory before it
//! lets go. GNU's `malloc` takes its locks last of all, which a handler cannot.
//!
//! Handlers of the program may run between ours and the fork, and before ours in the child: whoever forks waits
//! for no lock meanwhile, since in the child its owner may have stayed behind.
//!
//! A lock that cannot be taken in a second, because its owner forks, too, or that the calling thread
//! holds itself (it forks in a signal's handler), is left as it is.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::apart::Apart;
use super::{background, registry, sync};
use crate::os;

/// Moments that are waited at most: for all locks together, before a fork; for a fork, by a thread
/// that finds no memory meanwhile. A moment is some 70 microseconds.
const PATIENCE: u32 = 15_000;

/// Forks that are under way.
static FORKS: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Has the handlers called.
pub(super) fn register() {
    // SAFETY: the handlers may run at any time.
    unsafe { os::at_fork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    FORKS.fetch_add(1, Relaxed);
    let mut waited = 0;
    registry::take_for_fork(|| {
        os::pause();
        waited += 1;
        waited < PATIENCE
    });
    sync::begin_fork();
}

extern "C" fn in_parent() {
    registry::after_fork();
    sync::end_fork();
    FORKS.fetch_sub(1, Relaxed);
}

extern "C" fn in_child() {
    registry::after_fork_in_child();
    background::after_fork_in_child();
    sync::end_fork_in_child();
    FORKS.store(0, Relaxed);
}

/// Waits until no fork is under way, but not for ever; whether there was one.
#[cold]
pub(super) fn wait_for_end() -> bool {
    let under_way = || FORKS.load(Relaxed) > 0;
    let forking = under_way();
    for _ in 0..PATIENCE {
        if !under_way() {
            break;
        }
        os::pause();
    }
    forking
}
