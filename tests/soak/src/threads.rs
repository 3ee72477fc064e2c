//! The threads' work: blocks pass between threads, which come and go. Most are small; those of
//! [`exchange_mapped`] are mappings of their own.

use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;

use pagewise::global::Pagewise;

use crate::random::Random;

impl Random {
    /// Returns a block filled from its length; most are small.
    fn block(&mut self) -> Vec<u8> {
        let size = match self.below(400) {
            0 => self.below(2 << 20),
            1..20 => self.below(60_000),
            _ => self.below(600),
        };
        vec![size as u8; size]
    }
}

fn check(block: &[u8]) {
    assert!(block.iter().all(|&byte| byte == block.len() as u8), "contents are intact");
}

/// A block of tens of MiB: a mapping of its own, of which a byte in each [`STRIDE`] is written.
struct Mapped(Vec<u8>);

/// Bytes from one written byte to the next.
const STRIDE: usize = 64 << 10;

impl Mapped {
    fn new(random: &mut Random) -> Self {
        let mut block = Self(Vec::with_capacity((17 << 20) + random.below(20 << 20)));
        block.write_from(0);
        block
    }

    /// Writes from a multiple of [`STRIDE`] on.
    fn write_from(&mut self, start: usize) {
        let room = self.0.spare_capacity_mut();
        (start..room.len()).step_by(STRIDE).for_each(|at| _ = room[at].write((at / STRIDE) as u8));
    }

    /// Makes the block longer by up to 8 MiB; it may move.
    fn grow(&mut self, random: &mut Random) {
        let len = self.0.capacity();
        self.0.reserve_exact(len + random.below(8 << 20));
        self.write_from(len.next_multiple_of(STRIDE));
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let room = self.0.spare_capacity_mut();
        for at in (0..room.len()).step_by(STRIDE) {
            // SAFETY: each of these bytes was written.
            let byte = unsafe { room[at].assume_init() };
            assert_eq!(byte, (at / STRIDE) as u8, "contents are intact");
        }
    }
}

/// Threads exchange mappings, some of which grow. So freed ones are kept, waited for, moved, and
/// put together for longer blocks.
pub(crate) fn exchange_mapped(generation: u64, threads: u64) {
    let places: [Mutex<Option<Mapped>>; 5] = [const { Mutex::new(None) }; 5];
    let places = &places;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let mut random = Random(generation * 100 + number + 1);
                for _ in 0..100 {
                    let mut block = Mapped::new(&mut random);
                    if random.below(4) == 0 {
                        block.grow(&mut random);
                    }
                    let place = &places[random.below(places.len())];
                    drop(place.lock().expect("none panics").replace(block));
                }
            });
        }
    });
}

/// One generation: threads that exchange blocks and end, a producer and a consumer, one that reads
/// statistics and may purge, and a fork.
pub(crate) fn generation(
    allocator: &'static Pagewise,
    generation: u64,
    swapping: u64,
    purges: bool,
) {
    let places: Vec<Mutex<Vec<u8>>> = (0..100).map(|_| Mutex::new(Vec::new())).collect();
    let places = &places;
    thread::scope(|scope| {
        // Threads exchange blocks through shared slots, and end.
        for number in 0..swapping {
            scope.spawn(move || {
                let mut random = Random(generation * 100 + number + 1);
                for _ in 0..800 {
                    let block = random.block();
                    let place = &places[random.below(places.len())];
                    let old = std::mem::replace(&mut *place.lock().expect("none panics"), block);
                    check(&old);
                }
            });
        }
        // A producer, and a consumer that only frees.
        let (sender, receiver) = sync_channel::<Vec<u8>>(16);
        scope.spawn(move || {
            let mut random = Random(generation);
            (0..800).for_each(|_| sender.send(random.block()).expect("the consumer lives"));
        });
        scope.spawn(move || receiver.iter().for_each(|block| check(&block)));
        // Reads other threads' heaps and lists.
        scope.spawn(|| {
            for _ in 0..20 {
                if purges {
                    allocator.purge();
                }
                assert!(allocator.stats().heaps > 0);
            }
        });
    });
    // SAFETY: the child only uses the allocator, which is under test, and ends with `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut random = Random(7);
            (0..200).for_each(|_| check(&random.block()));
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0, "the child ended by itself");
    }
}

/// Allocates `bytes` in blocks of many sizes, and frees them in another thread.
pub(crate) fn peak(bytes: usize) {
    let mut random = Random(1);
    let (mut blocks, mut allocated) = (Vec::new(), 0);
    while allocated < bytes {
        let block = random.block();
        allocated += block.len();
        blocks.push(block);
    }
    let freed = thread::spawn(move || blocks.iter().for_each(|block| check(block)));
    freed.join().expect("the blocks are intact");
}
