//! The speed of every strategy of the catalogue and of the system allocator, side by side.
//!
//! `cargo bench --bench strategies`; one workload or strategy: `-- 'churn/MRU'`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;

use criterion::{Criterion, criterion_group, criterion_main};
use pagewise::pages::Config;
use pagewise::{Strategy, catalogue};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// Address space for each strategy, bytes.
const CAPACITY: usize = 1 << 38;

/// The operations of an allocator that the workloads use.
trait Heap {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8>;
    /// Frees a block of this heap.
    fn free(&mut self, block: NonNull<u8>, layout: Layout);
}

impl Heap for Box<dyn Strategy + Send> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        Strategy::allocate(&mut **self, layout).expect("room enough").cast()
    }

    fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the workloads free what they allocated, once, with its layout.
        unsafe { self.deallocate(block, layout) };
    }
}

impl Heap for System {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        // SAFETY: the workloads request no blocks of size 0.
        NonNull::new(unsafe { self.alloc(layout) }).expect("room enough")
    }

    fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.dealloc(block.as_ptr(), layout) };
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("a valid layout")
}

fn touch(block: NonNull<u8>) {
    // SAFETY: the block is in use and has a byte.
    unsafe { black_box(block).write(1) };
}

/// Allocates one block and frees it at once.
fn lifo(heap: &mut dyn Heap) {
    let layout = layout(64);
    for _ in 0..1_000 {
        let block = heap.allocate(layout);
        touch(block);
        heap.free(block, layout);
    }
}

/// Blocks of 8 to 1024 bytes; each step frees a random one and allocates another.
fn churn(live: usize) -> impl FnMut(&mut dyn Heap) {
    let mut random = SmallRng::seed_from_u64(1984);
    let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::with_capacity(live);
    move |heap| {
        for _ in 0..1_000.max(live - blocks.len()) {
            if blocks.len() == live {
                let (block, layout) = blocks.swap_remove(random.random_range(0..live));
                heap.free(block, layout);
            }
            let layout = layout(random.random_range(8..=1024));
            let block = heap.allocate(layout);
            touch(block);
            blocks.push((block, layout));
        }
    }
}

/// Allocates a thousand blocks of one size, then frees them in FIFO order.
fn batch(heap: &mut dyn Heap) {
    let layout = layout(48);
    let mut blocks = [NonNull::dangling(); 1_000];
    for block in &mut blocks {
        *block = heap.allocate(layout);
        touch(*block);
    }
    for block in blocks {
        heap.free(block, layout);
    }
}

fn heaps() -> impl Iterator<Item = (&'static str, Box<dyn Heap>)> {
    let strategies = catalogue::all().filter(|entry| entry.compared).map(|entry| {
        let heap = entry.build(Config::new(), CAPACITY).expect("a valid configuration");
        (entry.name, Box::new(heap) as Box<dyn Heap>)
    });
    strategies.chain([("SYSTEM", Box::new(System) as Box<dyn Heap>)])
}

fn workload<W: FnMut(&mut dyn Heap)>(
    criterion: &mut Criterion,
    name: &str,
    mut start: impl FnMut() -> W,
) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(criterion::Throughput::Elements(1_000));
    for (strategy, mut heap) in heaps() {
        // NOFREE never reuses memory, so a benchmark would exhaust it.
        if strategy == "NOFREE" {
            continue;
        }
        let mut run = start();
        group.bench_function(strategy, |bencher| bencher.iter(|| run(&mut *heap)));
    }
    group.finish();
}

fn strategies(criterion: &mut Criterion) {
    workload(criterion, "lifo", || lifo);
    workload(criterion, "batch", || batch);
    workload(criterion, "churn of 1 000", || churn(1_000));
    workload(criterion, "churn of 100 000", || churn(100_000));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1))
        .sample_size(20);
    targets = strategies
}
criterion_main!(benches);
