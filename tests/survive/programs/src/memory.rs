//! Memory that should not be resident: lines 7 to 10 and 12.

use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::blocks::{Blocks, poke};
use crate::outcome::Outcome;
use crate::system::{for_duration, mebibytes, peak_resident, resident};

const MIB: usize = 1 << 20;

fn resident_now() -> Outcome {
    Outcome::Mebibytes(mebibytes(resident()))
}

/// Writes a byte at each of these offsets of a fresh block, and leaks it.
fn touch(size: usize, places: impl Iterator<Item = usize>) -> bool {
    // SAFETY: the offsets are within the block.
    unsafe {
        let block = libc::malloc(size).cast::<u8>();
        if block.is_null() {
            return false;
        }
        places.for_each(|place| block.add(place).write_volatile(1));
    }
    true
}

pub(crate) fn sparse_one() -> Outcome {
    let size = 8 << 30;
    if !touch(size, (0..size).step_by(4 * MIB)) {
        return Outcome::Unavailable("no 8 GiB".to_owned());
    }
    resident_now()
}

pub(crate) fn sparse_many() -> Outcome {
    for _ in 0..200 {
        if !touch(16 * MIB, [100, 9 * MIB].into_iter()) {
            return Outcome::Fails("no memory".to_owned());
        }
    }
    resident_now()
}

pub(crate) fn turns_small() -> Outcome {
    take_turns(1000);
    Outcome::Mebibytes(mebibytes(peak_resident()))
}

pub(crate) fn turns_large() -> Outcome {
    take_turns(2 * MIB);
    Outcome::Mebibytes(mebibytes(peak_resident()))
}

pub(crate) fn turns_survived() -> Outcome {
    take_turns(60_000);
    Outcome::Survived
}

/// Two threads by turns: while one has 180 MiB of blocks, the other has none.
fn take_turns(size: usize) {
    let turn = Barrier::new(2);
    thread::scope(|scope| {
        for number in 0..2 {
            let turn = &turn;
            scope.spawn(move || {
                for round in 0..12 {
                    if round % 2 == number {
                        drop(Blocks::fill(180 * MIB / size, size));
                    }
                    turn.wait();
                }
            });
        }
    });
}

fn free_large() {
    drop(Blocks::fill(100, 10 * MIB));
}

pub(crate) fn idle_large() -> Outcome {
    free_large();
    thread::sleep(Duration::from_secs(3));
    resident_now()
}

pub(crate) fn hot() -> Outcome {
    free_large();
    for_duration(Duration::from_secs(3), 1000, || {
        for _ in 0..10_000 {
            // SAFETY: the block is written and freed once.
            unsafe {
                let block = libc::malloc(64);
                block.cast::<u8>().write_volatile(1);
                libc::free(block);
            }
        }
    });
    resident_now()
}

pub(crate) fn idle_small() -> Outcome {
    drop(Blocks::fill((1 << 30) / 1000, 1000));
    thread::sleep(Duration::from_secs(12));
    resident_now()
}

/// Requests that no system can serve must have no lasting effect: memory freed by another thread is
/// given back as usual.
pub(crate) fn huge_requests() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    let freed = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                for size in [1 << 44, 1 << 48, 1 << 56, isize::MAX as usize - 4096] {
                    // SAFETY: `free` accepts null, and any block.
                    unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
                }
            }
            drop(Blocks::fill(500 * MIB / 1000, 1000));
            freed.wait();
            while !STOP.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        });
        freed.wait();
        for_duration(Duration::from_secs(3), 1000, || {
            poke(1);
            thread::sleep(Duration::from_millis(1));
        });
        let outcome = resident_now();
        STOP.store(true, Ordering::Relaxed);
        outcome
    })
}

pub(crate) fn untouched() -> Outcome {
    let mut blocks = [ptr::null_mut(); 500];
    for block in &mut blocks {
        // SAFETY: takes no pointers.
        *block = unsafe { libc::calloc(1, 1_000_000) };
        if block.is_null() {
            return Outcome::Fails("no memory".to_owned());
        }
    }
    let outcome = resident_now();
    for block in blocks {
        // SAFETY: the block has that many bytes, and is freed once.
        unsafe {
            let zeros = (0..1_000_000).all(|index| block.cast::<u8>().add(index).read() == 0);
            if !zeros {
                return Outcome::Fails("not zeros".to_owned());
            }
            libc::free(block);
        }
    }
    outcome
}
