//! An arena of 16 KiB as the allocator of firmware for a Cortex-M3: collections that grow and
//! shrink, memory that runs out and is reused, and the arena's own figures.
//!
//! `cargo run --release --features pagewise` in this folder runs it under QEMU. It exits with an
//! error if a step fails.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::panic::PanicInfo;

// Provides the critical section.
use cortex_m as _;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use pagewise::{FreeResult, StaticArena};

/// Needs no setup and no unsafe code. Interrupts are disabled during its operations.
#[global_allocator]
static ARENA: StaticArena<{ 16 << 10 }> = StaticArena::new();

/// Sensor readings by name: strings, vectors and tree nodes are allocated and freed.
fn collections() -> usize {
    let mut readings: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut most = 0;
    for step in 0..2_000_u32 {
        let name = format!("sensor {}", step * 7 % 23);
        let values = readings.entry(name).or_default();
        values.push(step);
        if values.len() > 20 {
            values.drain(..15);
            values.shrink_to_fit();
        }
        if step % 97 == 0 {
            let first = readings.keys().next().cloned();
            first.map(|name| readings.remove(&name));
        }
        most = most.max(ARENA.used());
    }
    let sorted = readings.values().all(|values| values.is_sorted());
    assert!(sorted && readings.len() <= 23);
    most
}

/// Allocates until memory runs out, frees in alternation, and checks that all memory can be
/// allocated again.
fn exhaustion() -> usize {
    let layout = Layout::new::<[u32; 10]>();
    let mut blocks: Vec<_> = Vec::with_capacity(500);
    while let Ok(block) = ARENA.allocate(layout) {
        blocks.push(block.cast::<u8>());
    }
    let served = blocks.len();
    assert!(Vec::<u32>::new().try_reserve_exact(100).is_err(), "an error, and no end");
    assert_eq!(ARENA.audit(), Ok(()));
    for block in blocks {
        // SAFETY: the block is no longer used.
        unsafe {
            assert_eq!(ARENA.try_free(block, layout), FreeResult::Freed);
            assert_eq!(ARENA.try_free(block, layout), FreeResult::Unallocated, "a second time");
        }
    }
    served
}

#[entry]
fn main() -> ! {
    let most = collections();
    assert_eq!(ARENA.used(), 0, "all of it is free again");
    hprintln!("collections: {} of 16384 bytes in use at most", most);

    let served = exhaustion();
    hprintln!("exhaustion: {} blocks of 40 bytes, an error, and all freed", served);
    assert_eq!((ARENA.used(), ARENA.audit()), (0, Ok(())));

    let boxed = core::hint::black_box(Box::new([1_u64; 8]));
    let usage = ARENA.usage();
    hprintln!(
        "{} allocations, {} frees, {} bytes in use, {} free",
        usage.allocations,
        usage.frees,
        ARENA.used(),
        ARENA.free()
    );
    drop(boxed);
    debug::exit(debug::EXIT_SUCCESS);
    loop {}
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
