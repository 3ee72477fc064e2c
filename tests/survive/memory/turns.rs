//! Two threads that build and free by turns, each in a heap of its own: memory that one has freed
//! goes back while the other grows.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use super::{MIB, peak};
use crate::child::passes;

/// Bytes in use at most.
const LIVE: usize = 180 * MIB;

/// Each of two threads in its turn builds blocks of this size and frees them, some times; resident memory stays below `most`.
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
    // Growing heaps give back for a bounded time: on a slow machine, not all free memory. If they
    // gave back nothing, the peak would be twice as high.
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
    // They are touched, and go back, for as long as other work leaves: that takes far more time on a machine that has much.
    large_blocks, large_blocks_alone: 10 * MIB, LIVE / 10 * 19;
}
