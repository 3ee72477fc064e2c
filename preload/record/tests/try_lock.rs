//! A memo is used by one thread at a time.

#[path = "../src/stack/try_lock.rs"]
mod try_lock;

use try_lock::TryLock;

/// A failed attempt leaves the lock unchanged. Regression test: it once released the lock, so two
/// threads overwrote each other's walks, and wrong stacks were recorded.
#[test]
fn one_at_a_time() {
    static LOCK: TryLock<u32> = TryLock::new(1);
    let mut held = LOCK.try_lock().unwrap();
    assert!(LOCK.try_lock().is_none());
    assert!(LOCK.try_lock().is_none());
    *held += 1;
    drop(held);
    assert_eq!(LOCK.try_lock().map(|held| *held), Some(2));
    assert_eq!(LOCK.try_lock().map(|held| *held), Some(2));
}

/// Threads that compete for the lock lose no changes.
#[test]
fn a_held_value_belongs_to_one_thread() {
    static LOCK: TryLock<[u64; 64]> = TryLock::new([0; 64]);
    let changed = std::thread::scope(|scope| {
        let change = || {
            let mut changed = 0;
            for _ in 0..20_000 {
                let Some(mut held) = LOCK.try_lock() else { continue };
                let all = held[0];
                assert!(held.iter().all(|&number| number == all));
                held.fill(all + 1);
                changed += 1;
            }
            changed
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(change)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!(LOCK.try_lock().unwrap()[0], changed);
}
