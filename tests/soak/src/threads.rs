//! The threads' work: blocks pass between threads, which come and go. Most are small; those of
//! [`exchange_waves`] and [`exchange_buffers`] are medium, and those of [`exchange_mapped`] are
//! mappings of their own.

use std::mem;
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

    /// Returns hundreds of medium blocks, of one size or two.
    fn wave(&mut self) -> Vec<Medium> {
        let sizes = [(); 2].map(|()| (16 << 10) + 1 + self.below(112 << 10));
        let (len, mixed) = (100 + self.below(300), 1 + self.below(2));
        (0..len).map(|at| Medium::new(sizes[at % mixed])).collect()
    }
}

fn check(block: &[u8]) {
    assert!(block.iter().all(|&byte| byte == block.len() as u8), "contents are intact");
}

/// A block of which one byte in each `STRIDE` is written.
struct Sparse<const STRIDE: usize>(Vec<u8>);

/// A mapping of its own, of tens of MiB.
type Mapped = Sparse<{ 64 << 10 }>;

/// A block for medium lists, of 16 KiB to 1 MiB.
type Medium = Sparse<{ 4 << 10 }>;

impl<const STRIDE: usize> Sparse<STRIDE> {
    fn new(size: usize) -> Self {
        let mut block = Self(Vec::with_capacity(size));
        block.write_from(0);
        block
    }

    /// Writes from a multiple of `STRIDE` on.
    fn write_from(&mut self, start: usize) {
        let room = self.0.spare_capacity_mut();
        (start..room.len()).step_by(STRIDE).for_each(|at| _ = room[at].write((at / STRIDE) as u8));
    }

    /// Makes the block longer; it may move.
    fn grow(&mut self, more: usize) {
        let len = self.0.capacity();
        self.0.reserve_exact(len + more);
        self.write_from(len.next_multiple_of(STRIDE));
    }
}

impl<const STRIDE: usize> Drop for Sparse<STRIDE> {
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
                    let mut block = Mapped::new((17 << 20) + random.below(20 << 20));
                    if random.below(4) == 0 {
                        block.grow(random.below(8 << 20));
                    }
                    let place = &places[random.below(places.len())];
                    drop(place.lock().expect("none panics").replace(block));
                }
            });
        }
    });
}

/// Threads allocate hundreds of medium blocks at a time. They free most waves themselves, whole or
/// a part at a time, and leave the others to another thread. Meanwhile the process forks.
pub(crate) fn exchange_waves(allocator: &'static Pagewise, generation: u64, threads: u64) {
    let places: [Mutex<Vec<Medium>>; 2] = [const { Mutex::new(Vec::new()) }; 2];
    let places = &places;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let mut random = Random(generation * 100 + number + 1);
                for wave in 0..30 {
                    let mut blocks = random.wave();
                    match random.below(4) {
                        0 => {
                            let place = &places[random.below(places.len())];
                            let mut place = place.lock().expect("none panics");
                            blocks = mem::replace(&mut *place, blocks);
                        }
                        1 => blocks.reverse(),
                        2 => {
                            // Every third goes first, so that the others do not adjoin.
                            let mut at = 0;
                            blocks.retain(|_| {
                                at += 1;
                                at % 3 != 0
                            });
                        }
                        _ => {}
                    }
                    if number == 0 && wave % 10 == 9 {
                        in_child(|| (0..3).for_each(|_| drop(Random(generation + 1).wave())));
                    }
                }
            });
        }
        scope.spawn(|| (0..10).for_each(|_| _ = allocator.purge()));
    });
}

/// Threads allocate a few buffers of 128 KiB to 1 MiB, of one of three sizes for a while, so that
/// their medium lists turn to it. They free most of them themselves, and leave one at times to
/// another thread. Meanwhile the process forks.
pub(crate) fn exchange_buffers(allocator: &'static Pagewise, generation: u64, threads: u64) {
    let mut random = Random(generation.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let sizes = [(); 3].map(|()| (128 << 10) + 1 + random.below(896 << 10));
    sizes.iter().for_each(|&size| assert!(is_kept(allocator, size), "lists keep {size} bytes"));
    let places: [Mutex<Option<Medium>>; 3] = [const { Mutex::new(None) }; 3];
    let places = &places;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let mut random = Random(generation * 100 + number + 1);
                for turn in 0..20 {
                    let size = sizes[random.below(sizes.len())];
                    for _ in 0..20 {
                        let buffers = 1 + random.below(3);
                        let mut buffers: Vec<_> =
                            (0..buffers).map(|_| Some(Medium::new(size))).collect();
                        if random.below(3) == 0 {
                            let place = &places[random.below(places.len())];
                            let mut place = place.lock().expect("none panics");
                            mem::swap(&mut *place, &mut buffers[0]);
                        }
                    }
                    if number == 0 && turn % 10 == 9 {
                        in_child(|| (0..9).for_each(|_| drop(Medium::new(size))));
                    }
                }
            });
        }
        scope.spawn(|| (0..10).for_each(|_| _ = allocator.purge()));
    });
}

/// Returns whether a list of the calling thread, which is alone, keeps a block of `size` bytes that
/// is allocated and freed repeatedly.
fn is_kept(allocator: &'static Pagewise, size: usize) -> bool {
    (0..20).any(|_| {
        let block = Medium::new(size);
        let before = allocator.stats().quick;
        drop(block);
        allocator.stats().quick >= before + size
    })
}

/// Forks; the child runs `action`, and must end by itself.
fn in_child(action: impl FnOnce()) {
    // SAFETY: the child only uses the allocator, which is under test, and ends with `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            action();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0, "the child ended by itself");
    }
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
                    let old = mem::replace(&mut *place.lock().expect("none panics"), block);
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
    in_child(|| {
        let mut random = Random(7);
        (0..200).for_each(|_| check(&random.block()));
    });
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
