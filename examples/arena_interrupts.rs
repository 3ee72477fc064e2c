//! A static arena for firmware whose interrupt handlers allocate, behind a lock of its own: a
//! `lock_api` mutex that keeps interrupts out. A vector and a box live in it.
//!
//! The program is the same without `std`. Here a flag stands for the processor's interrupt mask.
//!
//! `cargo run --example arena_interrupts --features allocator-api2,lock_api`

use std::sync::atomic::{AtomicBool, Ordering};

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use pagewise::{SmallArena, StaticArena};

/// The interrupt mask of the one processor.
static MASKED: AtomicBool = AtomicBool::new(false);

/// Keeps interrupts out while it is held, and restores what it found.
struct InterruptsOff {
    were_masked: AtomicBool,
    taken: AtomicBool,
}

// SAFETY: there is one processor, and interrupts are off while the mutex is held, so nothing else
// runs; a second `lock` from within, which could only be a mistake, panics.
unsafe impl lock_api::RawMutex for InterruptsOff {
    #[allow(clippy::declare_interior_mutable_const)] // A constant by the trait.
    const INIT: Self = Self { were_masked: AtomicBool::new(false), taken: AtomicBool::new(false) };
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        assert!(self.try_lock(), "the arena is used while it is in use");
    }

    fn try_lock(&self) -> bool {
        // On a Cortex-M: read PRIMASK, then `cpsid i`.
        let were_masked = MASKED.swap(true, Ordering::Acquire);
        if self.taken.swap(true, Ordering::Relaxed) {
            MASKED.store(were_masked, Ordering::Release);
            return false;
        }
        self.were_masked.store(were_masked, Ordering::Relaxed);
        true
    }

    unsafe fn unlock(&self) {
        // Read before another caller may take the mutex.
        let were_masked = self.were_masked.load(Ordering::Relaxed);
        self.taken.store(false, Ordering::Relaxed);
        MASKED.store(were_masked, Ordering::Release);
    }
}

static ARENA: StaticArena<4096, InterruptsOff> = StaticArena::new();

/// Lends the arena to a collection, also in an interrupt handler.
fn arena() -> &'static SmallArena<InterruptsOff> {
    ARENA.arena()
}

pub(crate) fn main() {
    let mut samples = Vec::new_in(arena());
    samples.extend((0..100_u16).map(|sample| sample * sample));
    let sum = Box::new_in(samples.iter().map(|&sample| u32::from(sample)).sum::<u32>(), arena());
    assert_eq!(*sum, 328_350);

    // No memory for this: an error, and nothing is lost.
    assert!(samples.try_reserve(4096).is_err());
    println!("{} bytes in use, {} free", ARENA.used(), ARENA.free());
    drop((sum, samples));
    assert_eq!(ARENA.used(), 0);
    assert!(!MASKED.load(Ordering::Acquire), "interrupts are on again");
    ARENA.audit().expect("every invariant holds");
}
