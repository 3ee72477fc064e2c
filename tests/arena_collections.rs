//! Collections in arenas, and arenas behind the locks of other crates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use allocator_api2::vec::Vec;
use hashbrown::{DefaultHashBuilder, HashMap};
use pagewise::catalogue::MostFree;
use pagewise::pages::Config;
use pagewise::{Arena, PageHeap, Reserved};
use spinning_top::RawSpinlock;

static SPINNING: Arena<PageHeap<Reserved>, RawSpinlock> = Arena::growing(1 << 30);

#[test]
fn a_map_and_vectors_live_in_an_arena() {
    let arena: Arena<MostFree<Reserved>> =
        Arena::new(MostFree::new(Config::new(), Reserved::new(1 << 30), ()));
    let mut map = HashMap::with_hasher_in(DefaultHashBuilder::default(), &arena);
    let mut model = BTreeMap::new();
    for key in 0..5_000u32 {
        let mut digits = Vec::new_in(&arena);
        digits.extend((0..key % 50).map(|digit| digit as u8));
        model.insert(key, digits.len());
        map.insert(key, digits);
        if key % 3 == 0 {
            map.remove(&(key / 2));
            model.remove(&(key / 2));
        }
    }
    assert_eq!(map.len(), model.len());
    assert!(model.iter().all(|(key, &len)| map[key].len() == len));
    for vector in map.values_mut() {
        vector.shrink_to_fit();
    }
    arena.audit().expect("every invariant holds");
    drop(map);
    assert_eq!(arena.usage().blocks, 0);
}

#[test]
fn a_mutex_of_lock_api_guards_an_arena() {
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let mut numbers = Vec::new_in(&SPINNING);
                (0..10_000).for_each(|number| numbers.push(number * thread));
                assert_eq!(numbers.iter().sum::<u64>(), thread * 10_000 * 9_999 / 2);
            });
        }
    });
    assert_eq!(SPINNING.usage().blocks, 0);
    SPINNING.audit().expect("every invariant holds");
}

/// A mutex that panics on recursive locking or on unlocking when unlocked.
struct Checked(AtomicBool);

// SAFETY: locking it twice panics, so it is exclusive.
unsafe impl lock_api::RawMutex for Checked {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "a mutex is taken once");
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        assert!(self.0.swap(false, Ordering::Release), "a mutex is taken when it is let go of");
    }
}

#[test]
fn a_mutex_is_locked_for_each_arena_operation() {
    let arena: Arena<PageHeap<Reserved>, Checked> = Arena::growing(1 << 20);
    let mut numbers = Vec::new_in(&arena);
    (0..1_000).for_each(|number| numbers.push(number));
    assert_eq!(numbers.iter().sum::<u32>(), 1_000 * 999 / 2);
    let mut spans = 0;
    arena.walk(&mut |_| spans += 1);
    drop(numbers);
    assert_eq!((arena.usage().blocks, arena.audit()), (0, Ok(())));
    assert!(spans > 0);
}

#[path = "../examples/arena_collections.rs"]
mod example;

#[test]
fn the_example_runs() {
    example::main();
}
