//! The aftermath of a misuse: the program keeps allocating and freeing, in two threads by turns,
//! until the damage shows or all blocks are freed. Late detection, or proof of damage, happens
//! here.

use std::thread;

use crate::c;
use crate::live::Live;

/// Uses the heap. Exits if two blocks overlap.
pub(crate) fn run(live: &mut Live, size: usize) {
    let (burst, steps) = match size.ilog2() {
        ..10 => (4096, 200_000),
        10..14 => (2048, 20_000),
        14..20 => (256, 2000),
        _ => (8, 40),
    };
    live.fill(burst, size);
    thread::scope(|scope| {
        scope.spawn(|| churn(live, size, steps / 4));
    });
    churn(live, size, steps);
    live.free_all();
    c::trim();
    live.fill(burst, size);
    live.free_all();
}

/// Frees or allocates a block, `steps` times.
fn churn(live: &mut Live, size: usize, steps: usize) {
    for step in 0..steps {
        match live.random.below(2) {
            0 if !live.is_empty() => live.free_any(),
            // One in eight is of another size.
            _ => {
                live.allocate(if step % 8 == 0 { size / 16 * 8 } else { size });
            }
        }
    }
}
