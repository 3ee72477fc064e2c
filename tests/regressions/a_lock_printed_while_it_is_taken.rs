//! The `Debug` output of shared locks leaves out the state that only the holder may read: reading
//! it was a data race.

use std::fmt::Debug;

use pagewise::arena::lock::{Lock, Unshared};

/// A lock prints the same whether it is held or not.
fn prints_the_same_when_held(lock: &(impl Lock + Sync + Debug), name: &str) {
    let free = format!("{lock:?}");
    assert!(free.starts_with(name), "{free}");
    lock.lock();
    let taken = format!("{lock:?}");
    // SAFETY: taken above.
    unsafe { lock.unlock() };
    assert_eq!(free, taken);
}

#[test]
fn unshared() {
    // SAFETY: it protects nothing.
    prints_the_same_when_held(&unsafe { Unshared::new() }, "Unshared");
}

#[cfg(feature = "critical-section")]
#[test]
fn critical_section() {
    use critical_section::{Impl, RawRestoreState, set_impl};
    use pagewise::arena::lock::{CriticalSection, NewLock};

    struct OneThread;
    set_impl!(OneThread);
    // SAFETY: only this test has critical sections, in one thread.
    unsafe impl Impl for OneThread {
        unsafe fn acquire() -> RawRestoreState {}
        unsafe fn release((): RawRestoreState) {}
    }

    let lock = CriticalSection::NEW;
    prints_the_same_when_held(&lock, "CriticalSection");
}
