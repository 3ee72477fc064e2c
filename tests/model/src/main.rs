//! The global allocator's lock, and what it publishes without one, under a model checker: loom runs
//! each model in every order of its threads' steps (up to a number of preemptions) that C11's memory
//! model allows, and finds data races, lost wake-ups and assertions that fail.
//!
//! The lock is the allocator's own file, over loom's atomics. The protocols are models of what
//! `space.rs`, `registry.rs` and `quick.rs` do, with the same orderings.

#[path = "../../../src/global/linux/lock.rs"]
#[allow(dead_code, reason = "a model needs part of it")]
mod lock;

/// What the lock is made of.
mod sync {
    pub(super) use loom::cell::UnsafeCell as Place;
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::AtomicU32;

    /// Each look is a step more for the checker.
    pub(super) const SPINS: u32 = 1;
}

/// The kernel's part: threads that sleep until a word changes.
mod os {
    use std::cell::RefCell;

    use loom::sync::atomic::AtomicU32;
    use loom::sync::atomic::Ordering::Relaxed;
    use loom::thread::{self, Thread};

    std::thread_local! {
        /// Who sleeps. All of a model's threads are run by one.
        static ASLEEP: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
    }

    /// As futex(2): compares and goes to sleep in one step, which a read-modify-write is here, too.
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

    pub(super) fn nobody_sleeps() {
        ASLEEP.with_borrow_mut(Vec::clear);
    }
}

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize};
use loom::thread;

use lock::Locked;

/// Explores a model, with so many preemptions at most.
fn explore(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let start = std::time::Instant::now();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        os::nobody_sleeps();
        model();
    });
    println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
}

/// The value is reached by one thread at a time, and whoever waits is woken.
fn exclusion() {
    let lock = Arc::new(Locked::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                lock.with(|count| *count += 1);
                lock.with(|count| *count += 1);
            })
        })
        .collect();
    lock.with(|count| *count += 1);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    assert_eq!(lock.with(|count| *count), 5);
}

/// A purge in steps: who only tries never waits, and a step's end wakes who waits.
fn steps() {
    let lock = Arc::new(Locked::new(0));
    let other = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            let tried = lock.try_with(|count| *count += 1).is_some();
            lock.with(|count| *count += 1);
            1 + u32::from(tried)
        })
    };
    for _ in 0..2 {
        lock.with(|count| {
            *count += 1;
            lock.is_awaited()
        });
    }
    let done = other.join().expect("it ends");
    assert_eq!(lock.with(|count| *count), 2 + done);
}

/// A fork: one thread takes the registry's and the heap's lock, in this order, and lets go of both;
/// another takes one after the other, as opening a heap does.
fn fork() {
    let locks = Arc::new((Locked::new(0), Locked::new(0)));
    let other = {
        let locks = Arc::clone(&locks);
        thread::spawn(move || {
            locks.0.with(|registry| locks.1.with(|heap| *heap += 1 + *registry));
            locks.1.with(|heap| *heap += 1);
        })
    };
    locks.0.lock();
    locks.1.lock();
    // SAFETY: both locks were taken above.
    unsafe {
        locks.1.unlock();
        locks.0.unlock();
    }
    other.join().expect("it ends");
    assert_eq!(locks.1.with(|heap| *heap), 2);
}

/// `space.rs`: a granule's entry is written under the heap's lock before its blocks are handed out,
/// and read without it by whoever frees one. Another thread has the block, by whatever the program
/// synchronises with; when it has been freed, the granule becomes one of another list.
fn entries() {
    const LIST: [u16; 2] = [3, 9];
    let entry = Arc::new(AtomicU16::new(0));
    let heap = Arc::new(Locked::new(false));
    let handed = Arc::new(AtomicU32::new(0));
    heap.with(|_| entry.store(LIST[0], Relaxed));
    let freeing = {
        let (entry, heap, handed) = (Arc::clone(&entry), Arc::clone(&heap), Arc::clone(&handed));
        thread::spawn(move || {
            if handed.load(Acquire) == 1 {
                assert_eq!(entry.load(Relaxed), LIST[0], "the list of the block");
                heap.with(|free| *free = true);
            }
        })
    };
    handed.store(1, Release);
    let taken = heap.with(|free| {
        if *free {
            entry.store(LIST[1], Relaxed);
        }
        *free
    });
    if taken {
        assert_eq!(entry.load(Relaxed), LIST[1], "the list of the block taken last");
    }
    freeing.join().expect("it ends");
}

/// `registry.rs`: a heap, or a thread's lists, is written, then counted or linked; whoever sees the
/// count, or the link, without the lock sees all of it.
fn publication() {
    let memory = Arc::new((sync::Place::new(0), AtomicUsize::new(0)));
    let opening = {
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            // SAFETY: nobody looks there before it is counted.
            memory.0.with_mut(|heap| unsafe { *heap = 7 });
            memory.1.store(1, Release);
        })
    };
    if memory.1.load(Acquire) == 1 {
        // SAFETY: nobody writes there any more.
        memory.0.with(|heap| assert_eq!(unsafe { *heap }, 7));
    }
    opening.join().expect("it ends");
}

/// `quick.rs` and `registry.rs`: the lists of a thread that ends go to the next by way of the
/// registry's lock; what is on them is written without one, and only their count is read by others.
fn lists() {
    struct Lists {
        count: AtomicU32,
        blocks: sync::Place<[usize; 2]>,
    }
    // SAFETY: the blocks are those of the thread that has the lists.
    unsafe impl Sync for Lists {}
    let lists = Arc::new(Lists { count: AtomicU32::new(0), blocks: sync::Place::new([0; 2]) });
    let spare = Arc::new(Locked::new(false));
    let ending = {
        let (lists, spare) = (Arc::clone(&lists), Arc::clone(&spare));
        thread::spawn(move || {
            // SAFETY: the lists are this thread's.
            lists.blocks.with_mut(|blocks| unsafe { (*blocks)[0] = 5 });
            lists.count.store(1, Relaxed);
            spare.with(|spare| *spare = true);
        })
    };
    let counted = lists.count.load(Relaxed);
    assert!(counted <= 1);
    if spare.with(|spare| std::mem::take(spare)) {
        assert_eq!(lists.count.load(Relaxed), 1);
        // SAFETY: the lists are this thread's now.
        lists.blocks.with_mut(|blocks| unsafe {
            assert_eq!((*blocks)[0], 5);
            (*blocks)[0] = 6;
        });
        lists.count.store(0, Relaxed);
    }
    ending.join().expect("it ends");
}

fn main() {
    explore("exclusion", 3, exclusion);
    explore("steps", 3, steps);
    explore("fork", 3, fork);
    explore("entries", 4, entries);
    explore("publication", 4, publication);
    explore("lists", 4, lists);
    println!("every model holds");
}
