//! A `lock_api::RawMutex` may panic when it is released. The arena had moved the block by then. A
//! caller that caught the panic went on with a vector that used its old memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use allocator_api2::vec::Vec;
use lock_api::{GuardSend, RawMutex};
use pagewise::{Arena, PageHeap, Reserved};

use crate::child;

static PANICS: AtomicBool = AtomicBool::new(false);

struct Panicking(AtomicBool);

// SAFETY: it panics instead of being taken twice.
unsafe impl RawMutex for Panicking {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "a mutex is taken once");
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Relaxed);
        assert!(!PANICS.load(Relaxed), "the release panics");
    }
}

#[test]
fn ends_the_process() {
    let ended = child::run("a_lock_whose_release_panics::grow", |_| {});
    assert_eq!(ended.signal, Some(libc::SIGABRT), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("a panic within the release of an arena's lock"), "{}", ended.err);
}

#[test]
#[ignore = "in a process of its own"]
fn grow() {
    let arena: Arena<PageHeap<Reserved>, Panicking> = Arena::growing(1 << 24);
    let mut numbers = Vec::new_in(&arena);
    numbers.extend([1, 2, 3, 4]);
    PANICS.store(true, Relaxed);
    let grown = catch_unwind(AssertUnwindSafe(|| numbers.reserve(1_000)));
    PANICS.store(false, Relaxed);
    // Its memory may have been freed.
    std::mem::forget(numbers);
    drop(grown);
}
