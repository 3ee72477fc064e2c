//! The global allocator's lock and lock-free protocols under a model checker: loom runs each model
//! in every interleaving of its threads (up to a number of preemptions) that C11's memory model
//! allows, and finds data races, lost wake-ups and failing assertions.
//!
//! The lock, the ring of deferred frees and the gate are the allocator's own files, over loom's
//! atomics. The other protocols are models of `once.rs`, `space.rs`, `registry.rs`, `quick.rs`,
//! `medium.rs`, `background.rs` and the arenas' lock, with the same orderings. In this folder:
//!
//! ```sh
//! RUSTFLAGS='--cfg pagewise_model' cargo run --release
//! ```

/// The allocator's own files, at their own paths, and the models, which use what they keep private.
#[path = "../../../src/global"]
mod global {
    pub(crate) mod native {
        #[allow(dead_code, reason = "a model needs part of it")]
        mod base {
            pub(super) mod gate;
            pub(super) mod lock;
            pub(super) use crate::sync;
        }
        #[allow(dead_code, reason = "a model needs part of it")]
        mod heaps {
            pub(super) mod deferred;
        }
        #[path = "../../../tests/model/src/models.rs"]
        pub(crate) mod models;
    }
}

/// The building blocks of the models.
mod sync {
    use loom::cell::Cell;
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::hint::spin_loop;
    use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, fence};

    /// No spinning: in the checker each look lets other threads run, so a spinning thread would
    /// never sleep.
    pub(super) const SPINS: u32 = 0;

    /// No program's fork handler runs here.
    pub(super) fn is_forking(_: u32) -> bool {
        false
    }

    /// Whether one thread can execute a barrier on behalf of the others.
    pub(super) static BARRIERS: std::sync::atomic::AtomicBool =
        std::sync::atomic::AtomicBool::new(false);

    pub(super) fn has_barriers() -> bool {
        BARRIERS.load(Relaxed)
    }

    /// The checker has no asymmetric barriers. A heavy barrier before or after this point is
    /// ordered with it by the total order of all barriers; one at this point acts as this one.
    pub(super) fn light_barrier() {
        fence(SeqCst);
    }

    pub(super) fn heavy_barrier() -> bool {
        fence(SeqCst);
        has_barriers()
    }

    /// No thread waits in vain here: none asks for a second lock, and there are no children.
    pub(super) fn is_unannounced_child() -> bool {
        false
    }

    pub(super) fn holds_a_lock(_: u32) -> bool {
        false
    }

    pub(super) fn holds_a_lock_if_nesting(_: u32) -> bool {
        false
    }

    pub(super) fn nests() -> bool {
        false
    }

    pub(super) fn note_nesting() {}

    loom::lazy_static! {
        static ref THREADS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    }

    loom::thread_local! {
        static TOKEN: Cell<u32> = Cell::new(THREADS.fetch_add(1, Relaxed) << 2);
    }

    /// Like the allocator's tokens: not 0, the lowest two bits clear.
    pub(super) fn token() -> u32 {
        TOKEN.with(Cell::get)
    }
}

/// The kernel's part: threads sleep until a word changes.
mod os {
    use std::cell::RefCell;

    use loom::sync::atomic::AtomicU32;
    use loom::sync::atomic::Ordering::Relaxed;
    use loom::thread::{self, Thread};

    std::thread_local! {
        /// The sleeping threads. One OS thread runs all threads of a model.
        static ASLEEP: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
    }

    /// No time passes in a model: a thread that is not woken sleeps for ever.
    pub(super) fn wait_for(word: &AtomicU32, value: u32, _: u64) {
        wait(word, value);
    }

    pub(super) fn now() -> u64 {
        0
    }

    /// Like futex(2), compares and falls asleep in one step: here with a read-modify-write.
    pub(super) fn wait(word: &AtomicU32, value: u32) {
        if word.fetch_add(0, Relaxed) == value {
            ASLEEP.with_borrow_mut(|asleep| asleep.push(thread::current()));
            thread::park();
        }
    }

    pub(super) fn wake(_: &AtomicU32) {
        let first = ASLEEP.with_borrow_mut(|asleep| (!asleep.is_empty()).then(|| asleep.remove(0)));
        if let Some(first) = first {
            first.unpark();
        }
    }

    pub(super) fn wake_all(_: &AtomicU32) {
        ASLEEP.with_borrow_mut(|asleep| asleep.drain(..).for_each(|thread| thread.unpark()));
    }

    pub(super) fn stop(message: &[u8]) {
        panic!("{}", String::from_utf8_lossy(message));
    }

    pub(super) fn nobody_sleeps() {
        ASLEEP.with_borrow_mut(Vec::clear);
    }
}

fn main() {
    global::native::models::explore_all();
}
