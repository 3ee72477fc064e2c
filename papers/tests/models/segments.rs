//! FIRST-FIT (Brent §2.6): the lowest address that fits, in unlimited memory.

use std::collections::BTreeMap;

use pagewise::segments::FirstFit;
use pagewise::source::Reserved;
use rand::RngExt;

use crate::{Load, Model, agree};

const GRANULE: usize = 16;

/// Blocks in use: start and length, in granules.
#[derive(Default)]
pub(crate) struct Lowest(BTreeMap<usize, usize>);

impl Lowest {
    /// Returns the lowest multiple of `align` with `len` free granules.
    pub(crate) fn place(&self, len: usize, align: usize) -> usize {
        let mut place = 0;
        for (&start, &used) in &self.0 {
            if place + len <= start {
                break;
            }
            place = place.max((start + used).next_multiple_of(align));
        }
        place
    }

    pub(crate) fn put(&mut self, start: usize, len: usize) {
        self.0.insert(start, len);
    }

    pub(crate) fn remove(&mut self, start: usize) {
        self.0.remove(&start);
    }
}

impl Model for Lowest {
    fn places(&mut self, bytes: usize) -> Vec<usize> {
        vec![self.place(bytes.div_ceil(GRANULE), 1)]
    }

    fn take(&mut self, start: usize, bytes: usize) {
        self.put(start, bytes.div_ceil(GRANULE));
    }

    fn free(&mut self, start: usize, _: usize) {
        self.remove(start);
    }
}

#[test]
fn first_fit_takes_the_lowest_address() {
    let load = Load {
        requests: 6_000,
        wave: 500,
        size: |random| {
            let largest = if random.random_bool(0.1) { 20_000 } else { 200 };
            random.random_range(1..=largest)
        },
    };
    for seed in 0..10 {
        for segment in [64 * GRANULE, 4_096] {
            let source = Reserved::new(1 << 30);
            let mut engine = FirstFit::with_segments(GRANULE, segment, 1 << 14, source, ());
            agree("FIRST-FIT", &mut engine, &mut Lowest::default(), load, GRANULE, seed);
        }
    }
}
