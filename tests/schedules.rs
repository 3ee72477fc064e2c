//! The global allocator's paths with several threads at once, small enough for Miri to run under
//! many schedules: `tests/targets.sh miri`.
#![cfg(target_os = "linux")]

#[path = "frugal/mod.rs"]
mod frugal;

use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use frugal::FRUGAL;
use pagewise::global::Pagewise;

/// Small pages and short lists, so that few blocks need several of each.
static PAGEWISE: Pagewise = Pagewise::with(FRUGAL);

/// A block in use, marked with its size. It may be sent to another thread.
struct Block {
    start: *mut u8,
    len: usize,
}

// SAFETY: only the owner of the value uses the block.
unsafe impl Send for Block {}

impl Block {
    fn new(len: usize) -> Self {
        let start = PAGEWISE.allocate(len);
        assert!(!start.is_null());
        let block = Self { start, len };
        block.fill();
        block
    }

    /// Writes the first and the last byte.
    fn fill(&self) {
        // SAFETY: the block is in use and this long.
        unsafe {
            self.start.write(self.len as u8);
            self.start.wrapping_add(self.len - 1).write(self.len as u8);
        }
    }

    fn check(&self) {
        // SAFETY: as above; both bytes were written.
        let ends = unsafe { (self.start.read(), self.start.wrapping_add(self.len - 1).read()) };
        assert_eq!(ends, (self.len as u8, self.len as u8));
    }

    fn resize(&mut self, len: usize) {
        self.check();
        // SAFETY: the block is in use; only the new one is used afterwards.
        let start = unsafe { PAGEWISE.reallocate(self.start, len) };
        assert!(!start.is_null());
        // SAFETY: the block has a first byte, which was written.
        assert_eq!(unsafe { start.read() }, self.len as u8);
        (self.start, self.len) = (start, len);
        self.fill();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block is allocated and no longer used.
        unsafe { PAGEWISE.free(self.start) };
    }
}

/// Runs each in its own thread, and `meanwhile` beside them until they have ended, destructors
/// included (a scope would not wait for those).
fn beside<F: FnOnce() + Send + 'static>(
    threads: impl IntoIterator<Item = F>,
    mut meanwhile: impl FnMut(),
) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    while !threads.iter().all(JoinHandle::is_finished) {
        meanwhile();
        thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// A small size, a medium one, and a mapping.
const SIZES: [usize; 3] = [48, 5000, 70_000];

/// Several threads make the process's first requests at the same time, while a block that needs no
/// heap is resized.
#[test]
fn a_first_use_by_several_threads() {
    let mut zeroed = Some(());
    beside([48, 5000].map(|size| move || drop(Block::new(size))), || {
        // SAFETY: null is no block.
        unsafe { PAGEWISE.free(std::ptr::null_mut()) };
        if zeroed.take().is_some() {
            let start = PAGEWISE.allocate_zeroed(1 << 20);
            assert!(!start.is_null());
            let mut block = Block { start, len: 1 << 20 };
            block.fill();
            block.resize(2 << 20);
        }
    });
}

/// One thread allocates and resizes blocks, another resizes and frees them.
#[test]
fn blocks_freed_by_another_thread() {
    let (sender, receiver) = channel::<Block>();
    let send = move || {
        for round in 0..10 {
            for size in SIZES {
                let mut block = Block::new(size + round);
                block.resize(2 * size);
                sender.send(block).expect("the receiver is there");
            }
        }
    };
    beside([send], || {
        for mut block in &receiver {
            let len = block.len;
            block.resize(len + len / 8);
        }
    });
}

/// Statistics are taken while threads take batches, widen their lists and return batches.
#[test]
fn statistics_of_running_threads() {
    let allocating = || {
        for _ in 0..6 {
            drop((0..20).map(|_| Block::new(64)).collect::<Vec<_>>());
        }
    };
    let (mut threads, mut left) = (0, 6);
    beside([allocating; 2], || {
        if left == 0 {
            return;
        }
        left -= 1;
        let stats = PAGEWISE.stats();
        assert!(stats.threads >= threads);
        threads = stats.threads;
        PAGEWISE.for_each_class(|class| assert!(class.blocks * class.size <= class.held));
    });
    // A thread that began late may have reused the lists of one that ended.
    assert!(PAGEWISE.stats().threads >= 1);
}

/// A thread ends with blocks on its lists, and a later one reuses those lists.
#[test]
fn lists_of_threads_that_ended() {
    for _ in 0..2 {
        let allocating = || drop((0..6).map(|at| Block::new(16 * at + 1)).collect::<Vec<_>>());
        beside([allocating; 2], || ());
    }
}

/// Free memory is given back to the system while threads use the heaps.
#[test]
fn a_purge_beside_threads() {
    let allocating = || {
        for size in SIZES {
            drop((0..4).map(|_| Block::new(size)).collect::<Vec<_>>());
        }
    };
    beside([allocating], || {
        drop(Block::new(40_000));
        PAGEWISE.purge();
    });
}
