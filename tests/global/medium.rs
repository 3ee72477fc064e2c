//! Medium blocks, 16 KiB to 1 MiB: each thread keeps a few freed ones on its medium lists.

use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::child::{passes, passes_when};
use crate::{ALLOCATOR, Random};

/// A block whose bytes all equal its number.
struct Block {
    start: *mut u8,
    size: usize,
    number: u8,
}

// SAFETY: the block is owned.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, number: usize) -> Self {
        let (start, number) = (ALLOCATOR.allocate(size), number as u8);
        assert!(!start.is_null() && start.addr().is_multiple_of(16));
        // SAFETY: the block is in use, and has as many bytes as it says.
        unsafe {
            let usable = ALLOCATOR.usable_size(start);
            // Rounded up by an eighth, and a block that is longer by a quarter may serve.
            let most = size / 32 * 45 + 4096;
            assert!((size..=most).contains(&usable), "{size}: {usable}");
            start.write_bytes(number, usable);
        }
        Self { start, size, number }
    }

    fn check(&self) {
        // SAFETY: the block is in use.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.size) };
        assert!(bytes.iter().all(|&byte| byte == self.number), "it is nobody else's");
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the block is in use; from then on only the returned pointer is used.
        unsafe {
            self.start = ALLOCATOR.reallocate(self.start, size);
            assert!(!self.start.is_null());
            if size > self.size {
                self.start.add(self.size).write_bytes(self.number, size - self.size);
            }
        }
        self.size = size;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.free(self.start) };
    }
}

/// Returns the size of a medium block: up to 128 KiB, or now and then an eighth of a doubling above.
fn size(random: &mut Random) -> usize {
    match random.below(8) {
        0 => (128 << 10 << random.below(3)) / 8 * (8 + random.below(9)),
        _ => 15_000 + random.below(116_000),
    }
}

/// Threads allocate, resize and free medium blocks, also each other's, while another thread keeps
/// emptying the lists. No block may have two owners at a time.
#[test]
fn a_medium_block_has_one_owner_at_a_time() {
    const THREADS: usize = 4;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<Block>()).unzip();
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        for (own, receiver) in receivers.into_iter().enumerate() {
            let (senders, done) = (senders.clone(), done.clone());
            scope.spawn(move || {
                let mut random = Random(own as u64 + 1);
                let mut blocks: Vec<Block> = Vec::new();
                for number in 0..1500 {
                    match random.below(8) {
                        0..4 => blocks.push(Block::new(size(&mut random), number)),
                        4 if !blocks.is_empty() => {
                            let index = random.below(blocks.len());
                            blocks[index].resize(size(&mut random));
                        }
                        5 if !blocks.is_empty() => {
                            let block = blocks.swap_remove(random.below(blocks.len()));
                            let _ = senders[random.below(THREADS)].send(block);
                        }
                        _ if !blocks.is_empty() => {
                            drop(blocks.swap_remove(random.below(blocks.len())));
                        }
                        _ => {}
                    }
                    receiver.try_iter().for_each(drop);
                }
                drop((senders, done));
            });
        }
        drop((senders, done));
        while is_done.recv_timeout(Duration::from_millis(1))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            ALLOCATOR.purge();
        }
    });
}

#[test]
fn blocks_on_lists_are_counted_as_free() {
    passes("medium::counted");
}

#[test]
#[ignore = "in a process of its own"]
fn counted() {
    let allocate = || (0..8).map(|at| Block::new(20_000 + 9_000 * at, at)).collect::<Vec<_>>();
    // A block that is requested again is kept on the list from then on.
    drop(allocate());
    // The main thread, which waits for this one, allocates a block now and then: that spoils a
    // round.
    let mut spoilt = 0;
    let bytes = loop {
        match counts_agree(allocate) {
            Ok(bytes) => break bytes,
            Err(found) => assert!(spoilt < 20, "{found}"),
        }
        spoilt += 1;
    };
    ALLOCATOR.purge();
    assert!(ALLOCATOR.stats().quick < bytes, "they do not any more");
}

/// Allocates and frees blocks, which lists keep, and returns their bytes. They must be counted as
/// in use, then as free and on lists; if not, returns what is wrong.
fn counts_agree(allocate: impl FnOnce() -> Vec<Block>) -> Result<usize, String> {
    let before = ALLOCATOR.stats();
    let blocks = allocate();
    let bytes: usize = blocks.iter().map(|block| block.size).sum();
    let used = ALLOCATOR.stats();
    if used.live < before.live + bytes || used.blocks < before.blocks + 8 {
        return Err(format!("in use: {used}"));
    }
    drop(blocks);
    let freed = ALLOCATOR.stats();
    if freed.quick < used.quick + bytes {
        return Err(format!("they lie on lists: {freed}"));
    }
    if freed.live > used.live - bytes || freed.blocks > used.blocks - 8 {
        return Err(format!("they are free: {freed}"));
    }
    Ok(bytes)
}

#[test]
fn blocks_freed_once_are_not_kept_on_lists() {
    passes("medium::freed_once");
}

#[test]
#[ignore = "in a process of its own"]
fn freed_once() {
    // An array that grows by copying frees one block of each size, which nobody requests again.
    let before = ALLOCATOR.stats().quick;
    drop((0..8).map(|at| Block::new(17_000 + 13_000 * at, at)).collect::<Vec<_>>());
    let kept = ALLOCATOR.stats().quick - before;
    assert!(kept < 16_000, "{kept} bytes lie on lists");
    // A block requested repeatedly is kept; it alone.
    for _ in 0..3 {
        drop(Block::new(43_000, 1));
    }
    let kept = ALLOCATOR.stats().quick - before;
    assert!((43_000..60_000).contains(&kept), "{kept} bytes lie on lists");
}

/// Returns a thread that has freed eight blocks of 60,000 bytes, twice, and is idle until the
/// sender is dropped.
fn keeper() -> (JoinHandle<()>, SyncSender<()>) {
    let (freed, is_freed) = sync_channel(0);
    let (end, may_end) = sync_channel::<()>(0);
    let thread = thread::spawn(move || {
        for _ in 0..2 {
            drop((0..8).map(|at| Block::new(60_000, at)).collect::<Vec<_>>());
        }
        freed.send(()).expect("the test waits");
        let _ = may_end.recv();
    });
    is_freed.recv().expect("the thread sends");
    (thread, end)
}

#[test]
fn medium_blocks_of_an_idle_thread_are_given_back() {
    passes_when("medium::kept_by_an_idle_thread", |command| {
        command.env("PAGEWISE_PURGE_DELAY", "20");
    });
}

/// Where a sandbox refuses `membarrier`, each thread passes its own barriers.
#[test]
#[cfg(target_os = "linux")]
fn medium_blocks_are_given_back_without_membarrier() {
    use std::os::unix::process::CommandExt;

    use crate::child::sandbox::{self, Refusal};

    let refusal = Refusal { call: libc::SYS_membarrier, error: libc::EPERM, below: None };
    passes_when("medium::kept_by_an_idle_thread", |command| {
        command.env("PAGEWISE_PURGE_DELAY", "20");
        // SAFETY: installing the filter allocates nothing.
        unsafe { command.pre_exec(move || sandbox::install(refusal)) };
    });
}

#[test]
#[ignore = "in a process of its own"]
fn kept_by_an_idle_thread() {
    let work = || drop((0..300).map(|size| vec![0u8; size * 4]).collect::<Vec<_>>());
    // Fills this thread's own lists.
    (0..500).for_each(|_| work());
    let (thread, end) = keeper();
    let kept = ALLOCATOR.stats().quick;
    assert!(kept > 8 * 60_000, "{kept}");
    let gone = (0..5_000).any(|_| {
        work();
        thread::sleep(Duration::from_millis(1));
        ALLOCATOR.stats().quick < kept - 7 * 60_000
    });
    assert!(gone, "{} of {kept} bytes are kept", ALLOCATOR.stats().quick);
    drop(end);
    thread.join().expect("it ends");
}

#[test]
#[cfg(unix)]
fn a_forked_child_returns_blocks_of_other_threads() {
    passes("medium::forked");
}

#[test]
#[ignore = "in a process of its own"]
#[cfg(unix)]
fn forked() {
    let (thread, end) = keeper();
    crate::child::fork::in_child(|| {
        let kept = ALLOCATOR.stats().quick;
        // The slow path takes over what the missing threads kept.
        // SAFETY: the block is freed once.
        unsafe { ALLOCATOR.free(ALLOCATOR.allocate(3 << 20)) };
        let left = ALLOCATOR.stats().quick;
        assert!(kept > 8 * 60_000 && left < 8 * 60_000, "{kept} and {left} bytes");
    });
    drop(end);
    thread.join().expect("it ends");
}
