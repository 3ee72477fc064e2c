//! Two threads build and free by turns, each in its own heap: memory that one has freed is given
//! back while the other grows.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use super::{MIB, peak};
use crate::child::passes;

/// Maximum bytes in use.
const LIVE: usize = 180 * MIB;

/// Two threads alternately build blocks of this size and free them; resident memory stays below
/// `most`.
fn by_turns(size: usize, most: usize) {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for thread in 0..2 {
            let barrier = &barrier;
            scope.spawn(move || {
                for turn in 0..6 {
                    if turn % 2 == thread {
                        drop(black_box(
                            (0..LIVE / size).map(|_| vec![1u8; size]).collect::<Vec<_>>(),
                        ));
                    }
                    barrier.wait();
                }
            });
        }
    });
    let peak = peak();
    // Growing heaps give memory back for a bounded time: on a slow machine, not all free memory. If
    // they gave back none, the peak would be twice as high.
    assert!(peak < most, "{} MiB at the peak", peak / MIB);
}

macro_rules! by_turns {
    ($($test:ident, $alone:ident: $size:expr, $most:expr;)*) => {$(
        #[test]
        fn $test() {
            passes(concat!("memory::turns::", stringify!($alone)));
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn $alone() {
            by_turns($size, $most);
        }
    )*};
}

by_turns! {
    small_blocks, small_blocks_alone: 1000, LIVE / 2 * 3;
    medium_blocks, medium_blocks_alone: 100_000, LIVE / 2 * 3;
    // Giving back touched memory may take longer than the time for it: resident memory may reach
    // nearly two peaks.
    large_blocks, large_blocks_alone: 10 * MIB, LIVE / 10 * 19;
}
