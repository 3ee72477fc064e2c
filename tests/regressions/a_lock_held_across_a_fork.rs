//! The child of a fork waited forever for an arena's lock that another thread held at that moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use pagewise::PageHeap;
use pagewise::arena::Arena;
use pagewise::source::Reserved;

use crate::{child, layout};

static ARENA: Arena<PageHeap<Reserved>> = Arena::growing(1 << 24);

#[test]
fn the_child_reports_it_and_exits() {
    let ended = child::run("a_lock_held_across_a_fork::forked", |_| {});
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let message = "pagewise: an arena was in use by another thread during a fork";
    assert!(ended.err.contains(message), "{}", ended.err);
}

/// Runs this in the child of a fork, for a minute at most; returns its status.
fn in_child(action: impl FnOnce()) -> libc::c_int {
    child::fork::status_of_child(|| {
        // SAFETY: the alarm ends the child.
        unsafe { libc::alarm(60) };
        action();
    })
}

#[test]
#[ignore = "in a process of its own"]
fn forked() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    ARENA.allocate(layout(100, 8)).expect("room enough");
    let (taken, is_taken) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        ARENA.walk(&mut |_| {
            let _ = taken.send(());
            while !LET_GO.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
    });
    is_taken.recv().expect("the thread visits the arena");
    let status = in_child(|| {
        let _ = ARENA.allocate(layout(100, 8));
    });
    assert!(libc::WIFSIGNALED(status), "it does not go on");
    assert_eq!(libc::WTERMSIG(status), libc::SIGABRT, "it does not wait for ever");

    LET_GO.store(true, Ordering::Relaxed);
    holder.join().expect("it ends");
    // No thread is in the arena: both the child and this process can use it.
    let status = in_child(|| {
        ARENA.allocate(layout(100, 8)).expect("room enough");
        ARENA.audit().expect("every invariant holds");
    });
    assert_eq!(status, 0);
    ARENA.allocate(layout(100, 8)).expect("room enough");
}
