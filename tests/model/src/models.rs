//! The models: small programs of two or three threads, and what must hold at their ends.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize};
use loom::thread;

use std::ptr::NonNull;

use super::base::gate::Gate;
use super::base::lock::Locked;
use super::heaps::deferred::Deferred;
use crate::{os, sync};

/// Explores a model with at most this many preemptions.
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

/// Runs `action` under the lock, while no fork holds it.
fn with<R>(lock: &Locked<u32>, action: impl FnOnce(&mut u32) -> R) -> R {
    lock.with(action).expect("the lock can be waited for")
}

/// One thread at a time reaches the value, and a waiting thread is woken.
fn exclusion() {
    let lock = Arc::new(Locked::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                with(&lock, |count| *count += 1);
                with(&lock, |count| *count += 1);
            })
        })
        .collect();
    with(&lock, |count| *count += 1);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    assert_eq!(with(&lock, |count| *count), 5);
}

/// A purge in steps: a thread that only tries the lock never waits, and the end of a step wakes the
/// waiting threads.
fn a_purge_in_pieces() {
    let lock = Arc::new(Locked::new(0));
    let other = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            let tried = lock.try_with(|count| *count += 1).is_some();
            with(&lock, |count| *count += 1);
            1 + u32::from(tried)
        })
    };
    for _ in 0..2 {
        with(&lock, |count| {
            *count += 1;
            lock.is_awaited()
        });
    }
    let done = other.join().expect("it ends");
    assert_eq!(with(&lock, |count| *count), 2 + done);
}

/// A thread that holds a lock does not deadlock on it.
fn recursion() {
    let lock = Locked::new(0);
    assert!(with(&lock, |_| lock.with(|_| ()).is_none()));
}

/// A fork: one thread takes the registry's and then the heap's lock, uses the heap while it holds
/// them, and waits for the others before it unlocks. They must not wait for the fork, whatever they
/// were doing when it began. Both use the heap; if `opening`, one does so while it holds the
/// registry's lock.
fn fork(opening: bool) {
    let locks = Arc::new((Locked::new(0), Locked::new(0)));
    let use_heap = |locks: &(Locked<u32>, Locked<u32>)| locks.1.with(|heap| *heap += 1).is_some();
    let others = [opening, false].map(|opening| {
        let locks = Arc::clone(&locks);
        thread::spawn(move || {
            let used = if opening {
                locks.0.with(|_| use_heap(&locks)) == Some(true)
            } else {
                use_heap(&locks)
            };
            u32::from(used)
        })
    });
    with(&locks.1, |heap| *heap += 1);
    let wait = || {
        thread::yield_now();
        true
    };
    locks.0.take_for_fork(wait);
    locks.1.take_for_fork(wait);
    with(&locks.1, |heap| *heap += 1);
    let done: u32 = others.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    locks.1.after_fork();
    locks.0.after_fork();
    assert_eq!(with(&locks.1, |heap| *heap), 2 + done);
    with(&locks.0, |_| ());
}

/// `space.rs`: a granule's entry is written under the heap's lock before its blocks are handed out,
/// and read without the lock by a thread that frees one. That thread got the block through the
/// program's own synchronisation. After the free, the granule moves to another list.
fn entries() {
    const LIST: [u16; 2] = [3, 9];
    let entry = Arc::new(AtomicU16::new(0));
    let heap = Arc::new(Locked::new(false));
    let handed = Arc::new(AtomicU32::new(0));
    heap.with(|_| entry.store(LIST[0], Relaxed)).expect("the lock is free");
    let freeing = {
        let (entry, heap, handed) = (Arc::clone(&entry), Arc::clone(&heap), Arc::clone(&handed));
        thread::spawn(move || {
            if handed.load(Acquire) == 1 {
                assert_eq!(entry.load(Relaxed), LIST[0], "the list of the block");
                heap.with(|free| *free = true).expect("it can be waited for");
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
    if taken.expect("it can be waited for") {
        assert_eq!(entry.load(Relaxed), LIST[1], "the list of the block taken last");
    }
    freeing.join().expect("it ends");
}

/// `registry.rs`: a heap, or a thread's lists, is written, then counted or linked. A thread that
/// sees the count or the link without the lock also sees the contents.
fn publication() {
    let memory = Arc::new((sync::UnsafeCell::new(0), AtomicUsize::new(0)));
    let opening = {
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            // SAFETY: no thread reads it before the heap is counted.
            memory.0.with_mut(|heap| unsafe { *heap = 7 });
            memory.1.store(1, Release);
        })
    };
    if memory.1.load(Acquire) == 1 {
        // SAFETY: no thread writes it any more.
        memory.0.with(|heap| assert_eq!(unsafe { *heap }, 7));
    }
    opening.join().expect("it ends");
}

/// `once.rs`: of two threads that set a value, one claims it and writes; a thread that sees it set
/// reads all of it.
fn once() {
    const EMPTY: u32 = 0;
    const CLAIMED: u32 = 1;
    const SET: u32 = 2;
    let once = Arc::new((sync::UnsafeCell::new(0), sync::AtomicU32::new(EMPTY)));
    let setting = [7, 8].map(|value| {
        let once = Arc::clone(&once);
        thread::spawn(move || {
            let claimed = once.1.compare_exchange(EMPTY, CLAIMED, Relaxed, Relaxed).is_ok();
            if claimed {
                // SAFETY: this thread alone has claimed the value, and nobody reads it yet.
                once.0.with_mut(|place| unsafe { *place = value });
                once.1.store(SET, Release);
            }
            claimed
        })
    });
    if once.1.load(Acquire) == SET {
        // SAFETY: no thread writes it any more.
        once.0.with(|place| assert!(matches!(unsafe { *place }, 7 | 8)));
    }
    let claims = setting.map(|thread| u32::from(thread.join().expect("it ends")));
    assert_eq!(claims.iter().sum::<u32>(), 1);
}

/// `quick.rs` and `registry.rs`: the lists of an ended thread pass to a new one through a lock-free
/// stack. Their contents are written without a lock, and other threads read only their count.
fn lists() {
    struct Lists {
        count: AtomicU32,
        blocks: sync::UnsafeCell<[usize; 2]>,
    }
    // SAFETY: only the thread that owns the lists accesses the blocks.
    unsafe impl Sync for Lists {}
    let lists = Arc::new(Lists { count: AtomicU32::new(0), blocks: sync::UnsafeCell::new([0; 2]) });
    let left = Arc::new(AtomicUsize::new(0));
    let ending = {
        let (lists, left) = (Arc::clone(&lists), Arc::clone(&left));
        thread::spawn(move || {
            // SAFETY: the lists are this thread's.
            lists.blocks.with_mut(|blocks| unsafe { (*blocks)[0] = 5 });
            lists.count.store(1, Relaxed);
            left.compare_exchange(0, 1, Release, Relaxed).expect("nobody else ends");
        })
    };
    let counted = lists.count.load(Relaxed);
    assert!(counted <= 1);
    if left.swap(0, Acquire) == 1 {
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

/// Remote frees: blocks that wait for a heap, in a ring with room for two. The freeing thread
/// writes the block.
struct Waiting {
    heap: Locked<Vec<usize>>,
    ring: Deferred<2>,
    contents: [sync::UnsafeCell<usize>; 3],
}
// SAFETY: the freeing thread writes a block, and the thread that took it from the ring reads it.
unsafe impl Sync for Waiting {}

impl Waiting {
    fn new() -> Self {
        Self {
            heap: Locked::new(Vec::new()),
            ring: Deferred::new(),
            contents: [0; 3].map(sync::UnsafeCell::new),
        }
    }

    fn block(&self, index: usize) -> NonNull<u8> {
        NonNull::new(std::ptr::without_provenance_mut(16 * (1 + index))).expect("it is not null")
    }

    /// Returns the waiting blocks to the heap, under the lock.
    fn put_back(&self, freed: &mut Vec<usize>) {
        if self.ring.is_empty() {
            return;
        }
        self.ring.begin_taking();
        let mut blocks = [std::mem::MaybeUninit::uninit(); 3];
        let count = self.ring.take(&mut blocks);
        for block in &blocks[..count] {
            // SAFETY: `count` blocks were written.
            let index = unsafe { block.assume_init() }.addr().get() / 16 - 1;
            // SAFETY: the block was taken from the ring.
            self.contents[index].with(|contents| assert_eq!(unsafe { *contents }, 7));
            freed.push(index);
        }
    }

    /// Like `Heap::put_own`: takes the lock if it is free, else pushes to the ring, else waits for
    /// the lock.
    fn free(&self, indices: &[usize]) {
        for &index in indices {
            // SAFETY: the block is the caller's.
            self.contents[index].with_mut(|contents| unsafe { *contents = 7 });
        }
        let put = |freed: &mut Vec<usize>| {
            self.put_back(freed);
            freed.extend(indices);
        };
        if self.heap.try_with(put).is_some() {
            return;
        }
        let blocks: Vec<_> = indices.iter().map(|&index| self.block(index)).collect();
        // SAFETY: the blocks are the caller's.
        if unsafe { self.ring.push(&blocks) } {
            let _ = self.heap.try_with(|freed| self.put_back(freed));
        } else {
            self.heap.with(put).expect("it can be waited for");
        }
    }

    /// Checks at the end that every block was freed once.
    fn check(&self, blocks: usize) {
        let mut freed = self.heap.with(|freed| {
            self.put_back(freed);
            freed.clone()
        });
        let freed = freed.as_mut().expect("it can be waited for");
        freed.sort_unstable();
        assert_eq!(*freed, (0..blocks).collect::<Vec<_>>());
    }
}

/// `deferred.rs`: threads free blocks of a heap that another thread uses, more than the ring holds.
/// No thread sees an unwritten block, and each block is returned once.
fn deferred(first: &'static [usize], second: &'static [usize]) {
    let waiting = Arc::new(Waiting::new());
    let threads = [first, second].map(|blocks| {
        let waiting = Arc::clone(&waiting);
        thread::spawn(move || waiting.free(blocks))
    });
    with_heap(&waiting);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    waiting.check(first.len() + second.len());
}

/// Uses the heap once.
fn with_heap(waiting: &Waiting) {
    waiting.heap.with(|freed| waiting.put_back(freed)).expect("it can be waited for");
}

/// A medium block, and where it may be: on the list of either thread, with room for one block, or
/// in the heap.
struct Kept {
    gates: [Gate; 2],
    /// Number of blocks on each thread's list; accessed only by the thread that holds its gate.
    lists: [sync::UnsafeCell<u32>; 2],
    heap: Locked<u32>,
    contents: sync::UnsafeCell<u32>,
}

// SAFETY: a list is accessed only by the thread that holds its gate, the contents only by the owner
// of the block. The checker verifies this.
unsafe impl Sync for Kept {}

impl Kept {
    /// The contents of a block on a list.
    const FENCE: u32 = 7;

    /// Writes to the block, which the calling thread owns.
    fn write(&self, to: u32) {
        // SAFETY: as above.
        self.contents.with_mut(|contents| unsafe { *contents = to });
    }

    fn enters(&self, own: usize) -> bool {
        self.gates[own].enter_biased() || self.gates[own].enter()
    }

    /// Takes the block off a list, if it is there. Call it holding the gate.
    fn take(&self, of: usize) -> bool {
        // SAFETY: as above.
        let taken = self.lists[of].with_mut(|list| unsafe { std::mem::take(&mut *list) }) == 1;
        if taken {
            // SAFETY: as above.
            self.contents.with(|contents| assert_eq!(unsafe { *contents }, Self::FENCE));
        }
        taken
    }

    /// Puts the block onto the calling thread's list, or into the heap if a visitor is there.
    fn free(&self, own: usize) {
        self.write(Self::FENCE);
        if self.enters(own) {
            // SAFETY: as above.
            self.lists[own].with_mut(|list| unsafe { *list = 1 });
            self.gates[own].leave();
        } else {
            self.put_back();
        }
    }

    fn put_back(&self) {
        self.write(0);
        with(&self.heap, |blocks| *blocks += 1);
    }

    /// The owner of a list takes the block back, if it is still there and no visitor is.
    fn pop(&self, own: usize) -> bool {
        self.enters(own) && {
            let taken = self.take(own);
            self.gates[own].leave();
            taken
        }
    }

    /// Returns the block on another thread's list to the heap.
    fn visit(&self, of: usize) {
        if self.gates[of].shut() {
            let passed = sync::heavy_barrier();
            if self.gates[of].is_owner_out(passed) && self.take(of) {
                self.put_back();
            }
            self.gates[of].open();
        }
    }

    /// Takes the block from the heap, if it is there.
    fn allocate(&self) -> bool {
        let has = with(&self.heap, |blocks| std::mem::take(blocks) == 1);
        if has {
            self.write(0);
        }
        has
    }
}

/// `gate.rs` and `medium.rs`: a thread frees a block onto its list and reuses it, while another
/// thread returns an idle block from there, allocates it from the heap and frees it onto its own
/// list, which the first thread visits. One thread at a time owns a list or the block, and the
/// block is never lost.
fn medium(barriers: bool) {
    sync::BARRIERS.store(barriers, std::sync::atomic::Ordering::Relaxed);
    let kept = Arc::new(Kept {
        gates: [Gate::new(), Gate::new()],
        lists: [sync::UnsafeCell::new(0), sync::UnsafeCell::new(0)],
        heap: Locked::new(0),
        contents: sync::UnsafeCell::new(0),
    });
    let other = {
        let kept = Arc::clone(&kept);
        thread::spawn(move || {
            kept.visit(0);
            if kept.allocate() {
                kept.free(1);
            }
        })
    };
    kept.free(0);
    if kept.pop(0) {
        kept.write(3);
        kept.free(0);
    }
    kept.visit(1);
    other.join().expect("it ends");
    let found = [kept.pop(0), kept.pop(1), kept.allocate()];
    assert_eq!(found.iter().filter(|found| **found).count(), 1, "{found:?}");
}

/// `background.rs`: the background thread sleeps when nothing is due, and a thread that makes
/// something due wakes it: no wake-up is lost. If `stopping`, it is told to end as well.
fn background(stopping: bool) {
    const AWAKE: u32 = 3;
    const AGAIN: u32 = 4;
    const ASLEEP: u32 = 5;
    const STOPPED: u32 = 6;
    struct Shared {
        due: Locked<u32>,
        state: AtomicU32,
    }
    let due = |shared: &Shared| loop {
        let (from, to) = match shared.state.load(Relaxed) {
            AWAKE => (AWAKE, AGAIN),
            ASLEEP => (ASLEEP, AWAKE),
            _ => return,
        };
        if shared.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok() {
            if from == ASLEEP {
                os::wake(&shared.state);
            }
            return;
        }
    };
    let run = |shared: &Shared| loop {
        if with(&shared.due, std::mem::take) > 0 {
            return true;
        }
        if shared.state.compare_exchange(AWAKE, ASLEEP, AcqRel, Relaxed).is_ok() {
            os::wait(&shared.state, ASLEEP);
            let _ = shared.state.compare_exchange(ASLEEP, AWAKE, AcqRel, Relaxed);
        }
        let _ = shared.state.compare_exchange(AGAIN, AWAKE, AcqRel, Relaxed);
        if shared.state.load(Acquire) == STOPPED {
            return false;
        }
    };
    let shared = Arc::new(Shared { due: Locked::new(0), state: AtomicU32::new(AWAKE) });
    let tending = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || run(&shared))
    };
    with(&shared.due, |due| *due = 1);
    due(&shared);
    if stopping {
        if shared.state.swap(STOPPED, AcqRel) == ASLEEP {
            os::wake(&shared.state);
        }
    }
    let tended = tending.join().expect("it ends");
    assert!(tended || stopping, "what was due was given back");
}

/// The arenas' lock (`yielding.rs`): one word, swapped atomically.
fn arena() {
    struct Arena {
        taken: AtomicU32,
        blocks: sync::UnsafeCell<u32>,
    }
    // SAFETY: the blocks are those of the thread that has the lock.
    unsafe impl Sync for Arena {}
    // The checker would explore waiting for ever, so a thread tries twice and gives up.
    let count = |arena: &Arena| {
        if arena.taken.swap(1, Acquire) != 0 && arena.taken.swap(1, Acquire) != 0 {
            return 0;
        }
        // SAFETY: this thread has the lock.
        arena.blocks.with_mut(|blocks| unsafe { *blocks += 1 });
        arena.taken.store(0, Release);
        1
    };
    let arena = Arc::new(Arena { taken: AtomicU32::new(0), blocks: sync::UnsafeCell::new(0) });
    let others = [0; 2].map(|_| {
        let arena = Arc::clone(&arena);
        thread::spawn(move || count(&arena))
    });
    let mine = count(&arena);
    let done: u32 = others.into_iter().map(|other| other.join().expect("it ends")).sum();
    // SAFETY: the others have ended.
    arena.blocks.with(|blocks| assert_eq!(unsafe { *blocks }, mine + done));
}

/// Explores every model.
pub(crate) fn explore_all() {
    explore("exclusion", 3, exclusion);
    explore("a purge in pieces", 3, a_purge_in_pieces);
    explore("recursion", 3, recursion);
    explore("fork", 3, || fork(false));
    explore("fork while a heap is opened", 3, || fork(true));
    explore("entries", 4, entries);
    explore("publication", 4, publication);
    explore("once", 3, once);
    explore("lists", 4, lists);
    explore("deferred", 3, || deferred(&[0], &[1]));
    explore("deferred by the batch", 3, || deferred(&[0, 1], &[2]));
    explore("medium", 3, || medium(false));
    explore("medium with barriers that others pass", 3, || medium(true));
    explore("background", 4, || background(false));
    explore("background until the end", 4, || background(true));
    explore("arena", 3, arena);
    println!("every model holds");
}
