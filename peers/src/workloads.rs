//! The workloads. Each takes a number to divide its work by, for runs under an instruction counter,
//! and returns a value that depends on everything it did.
//!
//! Every block is written, as by a program: its first and its last byte.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::random::Random;
use crate::system;

pub(crate) type Workload = fn(usize) -> usize;

pub(crate) const ALL: &[(&str, Workload)] = &[
    ("lifo", lifo),
    ("churn 1k", |parts| churn(1_000, 8, 1024, 20_000_000 / parts, 1)),
    ("churn 100k", |parts| churn(100_000, 8, 1024, 10_000_000 / parts, 1)),
    ("churn 1M", |parts| churn(1_000_000 / parts, 8, 1024, 6_000_000 / parts, 1)),
    ("small churn 100k", |parts| churn(100_000, 8, 128, 15_000_000 / parts, 1)),
    ("batch in order", |parts| batch(parts, |_| {})),
    ("batch reverse", |parts| batch(parts, |blocks| blocks.reverse())),
    ("batch random", |parts| batch(parts, shuffle)),
    ("producer/consumer", producer_consumer),
    ("4 producers 4 consumers", producers_consumers),
    ("larson 2 threads", larson),
    ("all to all", all_to_all),
    ("waves of one size", waves),
    ("medium blocks", |parts| medium(1, parts)),
    ("medium blocks 2 threads", |parts| medium(2, parts)),
    ("medium blocks 32 threads", |parts| medium(32, parts)),
    ("vec growth", vec_growth),
    ("large vec growth", large_vec_growth),
    ("growth to tens of MiB", tens_of_mib),
    ("copies", copies),
    ("btreemap", btreemap),
    ("hashmap", hashmap),
    ("json", json),
    ("tree", tree),
];

/// A block, freed when dropped.
pub(crate) struct Block(pub(crate) *mut u8, pub(crate) usize);

// SAFETY: the block is owned.
unsafe impl Send for Block {}

impl Block {
    #[inline(always)]
    pub(crate) fn new(size: usize) -> Self {
        // SAFETY: the size is not 0; the block, unless null, has this many bytes.
        unsafe {
            let block = alloc(Layout::from_size_align_unchecked(size, 8));
            assert!(!block.is_null(), "out of memory");
            block.write(size as u8);
            block.add(size - 1).write(size as u8);
            Self(block, size)
        }
    }

    /// Allocates a block and writes to each of its OS pages.
    pub(crate) fn written(size: usize) -> Self {
        let block = Self::new(size);
        block.write_pages();
        block
    }

    pub(crate) fn write_pages(&self) {
        for at in (0..self.1).step_by(4096) {
            // SAFETY: the block has this byte.
            unsafe { self.0.add(at).write(at as u8) };
        }
    }
}

impl Drop for Block {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this size.
        unsafe { dealloc(self.0, Layout::from_size_align_unchecked(self.1, 8)) };
    }
}

/// Allocates and frees blocks in LIFO order, up to 100 deep.
fn lifo(parts: usize) -> usize {
    let mut blocks = Vec::with_capacity(100);
    for round in 0..400_000 / parts {
        for depth in 0..100 {
            blocks.push(Block::new(16 + (round + depth) % 16 * 16));
        }
        while let Some(block) = blocks.pop() {
            drop(black_box(block));
        }
    }
    blocks.capacity()
}

/// Replaces random blocks of random sizes.
fn churn(live: usize, least: usize, most: usize, actions: usize, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let size = |random: &mut Random| least + random.below(most - least + 1);
    let mut blocks: Vec<Block> = (0..live).map(|_| Block::new(size(&mut random))).collect();
    for _ in 0..actions {
        let index = random.below(live);
        blocks[index] = Block::new(size(&mut random));
    }
    blocks.len()
}

/// Allocates a million blocks, then frees them in some order; several times.
fn batch(parts: usize, order: fn(&mut [Block])) -> usize {
    let count = 1_000_000 / parts;
    let mut random = Random::new(3);
    for _ in 0..5 {
        let mut blocks: Vec<Block> =
            (0..count).map(|_| Block::new(16 + random.below(84))).collect();
        order(&mut blocks);
        blocks.into_iter().for_each(drop);
    }
    count
}

pub(crate) fn shuffle(blocks: &mut [Block]) {
    let mut random = Random::new(4);
    for index in (1..blocks.len()).rev() {
        blocks.swap(index, random.below(index + 1));
    }
}

/// One thread allocates, another frees.
fn producer_consumer(parts: usize) -> usize {
    let (sender, receiver) = sync_channel::<Vec<Block>>(16);
    let consumer = std::thread::spawn(move || {
        system::to_cpu(1);
        receiver.into_iter().map(|batch| batch.len()).sum()
    });
    produce(&sender, 5, 60_000 / parts);
    drop(sender);
    consumer.join().expect("the consumer ends")
}

/// Four threads allocate, each for any of four others, which free.
fn producers_consumers(parts: usize) -> usize {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| sync_channel(16)).unzip();
    std::thread::scope(|scope| {
        for own in 0..4 {
            let senders = senders.clone();
            scope.spawn(move || {
                system::to_cpu(own);
                for round in 0..20_000 / parts {
                    produce(&senders[(own + round) % 4], round as u64, 1);
                }
            });
        }
        drop(senders);
        let consume = |(own, receiver): (usize, Receiver<Vec<Block>>)| {
            system::to_cpu(own + 1);
            receiver.into_iter().map(|batch| batch.len()).sum::<usize>()
        };
        let consumers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|consumer| scope.spawn(move || consume(consumer)))
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().expect("it ends")).sum()
    })
}

/// Sends batches of a hundred blocks.
fn produce(to: &SyncSender<Vec<Block>>, seed: u64, batches: usize) {
    let mut random = Random::new(seed);
    for _ in 0..batches {
        let batch = (0..100).map(|_| Block::new(16 + random.below(240))).collect();
        to.send(batch).expect("the consumer lives");
    }
}

/// Larson and Krishnan's server (1998): each thread churns, and passes its blocks to the next, on
/// the same CPU.
fn larson(parts: usize) -> usize {
    fn serve(mut blocks: Vec<Block>, generation: usize, actions: usize) -> usize {
        let mut random = Random::new(7 + generation as u64);
        for _ in 0..actions {
            let index = random.below(blocks.len());
            blocks[index] = Block::new(8 + random.below(505));
        }
        if generation == 0 {
            return blocks.len();
        }
        std::thread::spawn(move || serve(blocks, generation - 1, actions)).join().expect("it ends")
    }
    let threads: Vec<_> = (0..2)
        .map(|cpu| {
            let blocks = (0..5_000).map(|_| Block::new(64)).collect();
            std::thread::spawn(move || {
                system::to_cpu(cpu);
                serve(blocks, 50, 100_000 / parts)
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
}

/// Thirty-two threads leave blocks of all small sizes for each other, and free those they find.
fn all_to_all(parts: usize) -> usize {
    const THREADS: usize = 32;
    let boxes: Vec<Mutex<Vec<Block>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    let serve = |own: usize| {
        system::to_cpu(own);
        let mut random = Random::new(31 + own as u64);
        let mut found = 0;
        for _ in 0..60_000 / parts {
            let mut blocks = (0..40).map(|_| Block::new(16 + random.below(1009))).collect();
            let other = &boxes[random.below(THREADS)];
            std::mem::swap(&mut *other.lock().expect("nobody panicked"), &mut blocks);
            found += blocks.len();
        }
        found
    };
    let serve = &serve;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|own| scope.spawn(move || serve(own))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    })
}

/// Allocates four thousand blocks of one size, then frees them in the same order, repeatedly; for
/// five sizes.
fn waves(parts: usize) -> usize {
    let mut blocks = Vec::with_capacity(4_000);
    for size in [24, 64, 130, 300, 1_000] {
        for _ in 0..1_000 / parts {
            blocks.extend((0..4_000).map(|_| Block::new(size)));
            black_box(&mut blocks).drain(..).for_each(drop);
        }
    }
    blocks.capacity()
}

/// Threads replace random blocks of 10 to 100 KiB, 1,024 in all, and write to each of their OS
/// pages.
fn medium(threads: usize, parts: usize) -> usize {
    let new = |random: &mut Random| Block::written((10 << 10) + random.below(90 << 10));
    let serve = |own: usize| {
        system::to_cpu(own);
        let mut random = Random::new(41 + own as u64);
        let mut blocks: Vec<Block> = (0..1_024 / threads).map(|_| new(&mut random)).collect();
        for _ in 0..8_000_000 / threads / parts {
            let index = random.below(blocks.len());
            blocks[index] = new(&mut random);
        }
        blocks.len()
    };
    let serve = &serve;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|own| scope.spawn(move || serve(own))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    })
}

/// Pushes to vectors, up to a few hundred items each.
fn vec_growth(parts: usize) -> usize {
    let mut random = Random::new(8);
    let mut kept: Vec<Vec<u32>> = (0..1_000).map(|_| Vec::new()).collect();
    for _ in 0..600_000 / parts {
        let items = random.below(300) as u32;
        let index = random.below(kept.len());
        let mut items_of = Vec::new();
        (0..items).for_each(|item| items_of.push(item));
        kept[index] = items_of;
    }
    kept.iter().map(Vec::len).sum()
}

/// Pushes to vectors, up to 8 MB.
fn large_vec_growth(parts: usize) -> usize {
    let mut total = 0;
    for _ in 0..100 / parts.min(20) {
        let mut items: Vec<u64> = Vec::new();
        (0..1_000_000).for_each(|item| items.push(black_box(item)));
        total += items.len();
    }
    total
}

/// Pairs of vectors grow side by side to 8 to 56 MB, and are dropped, repeatedly.
fn tens_of_mib(parts: usize) -> usize {
    let mut random = Random::new(12);
    let mut total = 0;
    for _ in 0..60 / parts.min(20) {
        let mut pair: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        for item in 0..(1 + random.below(7)) as u64 * 1_000_000 {
            pair.iter_mut().for_each(|items| items.push(black_box(item)));
        }
        total += pair[0].len();
    }
    total
}

/// Replaces buffers of 2 to 100 KB by copies of themselves, and now and then by others.
fn copies(parts: usize) -> usize {
    let mut random = Random::new(13);
    let mut buffer = || vec![7_u8; 2_000 + random.below(98_000)];
    let mut buffers: Vec<Vec<u8>> = (0..24).map(|_| buffer()).collect();
    for step in 0..80_000 / parts {
        let index = step % buffers.len();
        let other = if step % 50 == 0 { buffer() } else { black_box(&buffers[index]).clone() };
        buffers[index] = other;
    }
    buffers.iter().map(Vec::len).sum()
}

fn text(random: &mut Random) -> String {
    let len = 8 + random.below(40);
    (0..len).map(|_| (b'a' + random.below(26) as u8) as char).collect()
}

fn btreemap(parts: usize) -> usize {
    let mut random = Random::new(9);
    let mut total = 0;
    for _ in 0..3 {
        let mut map = BTreeMap::new();
        for _ in 0..300_000 / parts {
            map.insert(text(&mut random), text(&mut random));
        }
        let doomed: Vec<String> = map.keys().step_by(3).cloned().collect();
        doomed.iter().for_each(|key| drop(map.remove(key)));
        total += map.len();
    }
    total
}

fn hashmap(parts: usize) -> usize {
    let mut random = Random::new(10);
    let mut total = 0;
    for _ in 0..3 {
        let mut map = HashMap::new();
        for _ in 0..300_000 / parts {
            map.insert(text(&mut random), text(&mut random));
        }
        let doomed: Vec<String> = map.keys().take(map.len() / 3).cloned().collect();
        doomed.iter().for_each(|key| drop(map.remove(key)));
        total += map.len();
    }
    total
}

/// Parses a document with nested objects, and drops it.
fn json(parts: usize) -> usize {
    let mut random = Random::new(11);
    let mut document = String::from("[");
    for index in 0..20_000 / parts {
        if index > 0 {
            document.push(',');
        }
        let (name, city) = (text(&mut random), text(&mut random));
        document += &format!(
            r#"{{"id":{index},"name":"{name}","tags":["{city}","b","c"],"at":{{"city":"{city}","x":{}}}}}"#,
            random.below(1000)
        );
    }
    document.push(']');
    (0..15)
        .map(|_| {
            let value: serde_json::Value = serde_json::from_str(&document).expect("valid JSON");
            value.as_array().map_or(0, Vec::len)
        })
        .sum()
}

struct Node {
    _children: Option<(Box<Node>, Box<Node>)>,
    _payload: [u8; 24],
}

fn grow(depth: usize) -> Box<Node> {
    let children = (depth > 0).then(|| (grow(depth - 1), grow(depth - 1)));
    Box::new(Node { _children: children, _payload: [depth as u8; 24] })
}

/// Builds and drops binary trees; one stays.
fn tree(parts: usize) -> usize {
    let kept = grow(16);
    for _ in 0..20 / parts.min(10) {
        drop(black_box(grow(18)));
    }
    black_box(kept)._payload.len()
}
