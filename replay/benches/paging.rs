//! The speed of simulated paging: references per second, for all working sets at once.
//!
//! `cargo bench -p pagewise-replay --bench paging`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pagewise_replay::paging::{Clock, Lru, Paging};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// References per measured pass.
const REFERENCES: u64 = 1_000_000;

/// Kinds of reference strings.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All pages equally likely: the worst case.
    Uniform,
    /// Lower pages are more likely: half of the references go to a quarter of the pages.
    Skewed,
    /// Runs of eight references to a page, as adjacent blocks cause.
    Runs,
    /// As skewed, with the pages scattered over the whole address space.
    Scattered,
}

fn string(kind: Kind, pages: u64) -> Vec<u64> {
    let mut random = ChaCha8Rng::seed_from_u64(1984);
    let mut run = 0;
    let reference = |index| {
        let unit: f64 = random.random();
        let skewed = (unit * unit * pages as f64) as u64;
        match kind {
            Kind::Uniform => random.random_range(0..pages),
            Kind::Skewed => skewed,
            Kind::Runs if index % 8 == 0 => {
                run = skewed;
                run
            }
            Kind::Runs => run,
            Kind::Scattered => skewed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12,
        }
    };
    (0..REFERENCES).map(reference).collect()
}

fn pass<P: Paging>(memory: &mut P, string: &[u64]) {
    string.iter().for_each(|&page| memory.reference(page));
}

fn paging(c: &mut Criterion) {
    let mut group = c.benchmark_group("lru");
    group.throughput(Throughput::Elements(REFERENCES)).sample_size(10);
    for kind in [Kind::Uniform, Kind::Skewed, Kind::Runs, Kind::Scattered] {
        for pages in [1_000, 100_000] {
            let string = string(kind, pages);
            let mut lru = Lru::new();
            // Measure the steady state, not the growth of the tables.
            pass(&mut lru, &string);
            group.bench_function(BenchmarkId::new(format!("{kind:?}"), pages), |bencher| {
                bencher.iter(|| pass(&mut lru, black_box(&string)));
            });
        }
    }
    group.finish();

    let mut group = c.benchmark_group("clock, four working sets");
    group.throughput(Throughput::Elements(REFERENCES)).sample_size(10);
    let string = string(Kind::Skewed, 100_000);
    let mut clock = Clock::new(&[10_000, 25_000, 50_000, 100_000]);
    pass(&mut clock, &string);
    group.bench_function("Skewed/100000", |bencher| {
        bencher.iter(|| pass(&mut clock, black_box(&string)));
    });
    group.finish();
}

criterion_group!(benches, paging);
criterion_main!(benches);
