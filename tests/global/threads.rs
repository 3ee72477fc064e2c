//! Threads that come and go, and blocks passed between them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::child::memory::resident;
use crate::child::passes;
use crate::{ALLOCATOR, Marked, Random};

#[test]
fn blocks_may_be_freed_by_another_thread() {
    let (sender, receiver) = sync_channel(8);
    let consumer = thread::spawn(move || {
        let mut count = 0;
        for (mark, block) in receiver {
            let block: Marked = block;
            block.check(mark);
            count += 1;
        }
        count
    });
    let mut random = Random(1);
    for mark in 0..5_000 {
        sender.send((mark, Marked::new(random.size(), mark))).expect("the consumer lives");
    }
    drop(sender);
    assert_eq!(consumer.join().expect("the consumer ends"), 5_000);
}

#[test]
fn blocks_outlive_their_thread() {
    let blocks: Vec<Vec<Marked>> = (0..16)
        .map(|thread| {
            let make = move || (0..500).map(|size| Marked::new(size * 3, thread + size)).collect();
            thread::spawn(make).join().expect("it ends")
        })
        .collect();
    for (thread, blocks) in blocks.iter().enumerate() {
        blocks.iter().enumerate().for_each(|(size, block)| block.check(thread + size));
    }
}

/// Allocates and frees when the variables of its thread are destroyed.
struct Late(Vec<String>);

static DESTROYED: AtomicUsize = AtomicUsize::new(0);

impl Drop for Late {
    fn drop(&mut self) {
        let more: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        assert_eq!(more[77], "77");
        self.0.truncate(10);
        DESTROYED.fetch_add(self.0.len(), Ordering::Relaxed);
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late(Vec::new())) };
}

/// Runs after the allocator's own destructor, if keys are destroyed in order of creation.
#[cfg(unix)]
extern "C" fn allocate_in_destructor(value: *mut libc::c_void) {
    let blocks: Vec<Vec<u8>> = (0..300).map(|size| vec![size as u8; size * 7]).collect();
    assert!(blocks.iter().enumerate().all(|(size, block)| block.iter().all(|&b| b == size as u8)));
    // SAFETY: the value is the box of the test below.
    drop(unsafe { Box::from_raw(value.cast::<String>()) });
    DESTROYED.fetch_add(1000, Ordering::Relaxed);
}

#[test]
fn destructors_of_thread_local_variables_may_allocate() {
    #[cfg(unix)]
    let key = {
        let mut key = 0;
        // SAFETY: the destructor takes the value that is set below.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(allocate_in_destructor)) }, 0);
        key
    };
    for _ in 0..20 {
        let run = move || {
            LATE.with(|late| {
                late.borrow_mut().0.extend((0..100).map(|number: usize| number.to_string()))
            });
            #[cfg(unix)]
            {
                let value = Box::into_raw(Box::new(String::from("kept by a key")));
                // SAFETY: the key was made above.
                assert_eq!(unsafe { libc::pthread_setspecific(key, value.cast()) }, 0);
            }
        };
        thread::spawn(run).join().expect("the thread ends");
    }
    let of_key = if cfg!(unix) { 1000 } else { 0 };
    assert_eq!(DESTROYED.load(Ordering::Relaxed), 20 * (10 + of_key));
}

#[test]
fn thousands_of_short_threads_leave_nothing() {
    passes("threads::short_threads");
}

#[test]
#[ignore = "in a process of its own"]
fn short_threads() {
    let run = |count: usize| {
        for _ in 0..count {
            let threads: Vec<_> = (0..8)
                .map(|mark| {
                    thread::spawn(move || {
                        let blocks: Vec<_> = (0..60).map(|s| Marked::new(s * 9, mark)).collect();
                        blocks.iter().for_each(|block| block.check(mark));
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        }
    };
    run(50);
    let (lists, before) = (ALLOCATOR.stats().threads, resident());
    run(400);
    // Threads that overlap may need a list more than there are threads at one time.
    assert!(ALLOCATOR.stats().threads <= lists + 8, "{}", ALLOCATOR.stats());
    assert!(resident() < before + (4 << 20), "{} KiB more", (resident() - before) >> 10);
    assert!(ALLOCATOR.stats().heaps <= 2 * cpus());
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn a_soak_keeps_memory_flat_and_contents_intact() {
    passes("threads::soak");
}

/// Threads come and go, and exchange blocks of all sizes through shared slots.
#[test]
#[ignore = "in a process of its own"]
fn soak() {
    let places: Arc<Vec<Mutex<(usize, Marked)>>> =
        Arc::new((0..400).map(|_| Mutex::new((0, Marked(Vec::new())))).collect());
    let mut after_warming = 0;
    for generation in 0..12 {
        let together = Arc::new(Barrier::new(6));
        let threads: Vec<_> = (0..6)
            .map(|number| {
                let (places, together) = (Arc::clone(&places), Arc::clone(&together));
                thread::spawn(move || {
                    together.wait();
                    let mut random = Random(1 + number as u64 + generation * 100);
                    for mark in 0..1_500 {
                        let place = &places[random.below(places.len())];
                        let block = (mark, Marked::new(random.size(), mark));
                        let old = {
                            let mut place = place.lock().expect("no thread panics");
                            std::mem::replace(&mut *place, block)
                        };
                        old.1.check(old.0);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        if generation == 5 {
            after_warming = ALLOCATOR.stats().held;
        }
    }
    let held = ALLOCATOR.stats().held;
    assert!(held < after_warming * 5 / 4 + (4 << 20), "{after_warming} grew to {held}");
}
