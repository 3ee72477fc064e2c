//! A storm for the recorders: its log is correct only if no record is out of order.

use std::sync::mpsc;
use std::thread;

/// Threads of a storm, besides the one that starts it.
pub(crate) const THREADS: u32 = 8;

/// Reallocations per thread.
pub(crate) const ROUNDS: usize = 5000;

/// Threads reallocate blocks and pass them on, so that most are freed by others and their addresses
/// reused at once.
pub(crate) fn storm() {
    thread::scope(|scope| {
        let channels = (0..THREADS).map(|_| mpsc::channel::<Vec<u8>>());
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.unzip();
        let threads = receivers.into_iter().enumerate().map(|(number, receiver)| {
            let next = senders[(number + 1) % senders.len()].clone();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut block = vec![number as u8; 8 + round % 64];
                    block.reserve_exact(64 + (round * 37) % 2000);
                    if round % 3 == 0 {
                        block.shrink_to_fit();
                    }
                    // If the receiver's thread has ended, the block comes back.
                    drop(next.send(block));
                    drop(receiver.try_recv());
                }
            })
        });
        // Join them, so that all their records are complete; a scope would not wait for
        // destructors, and the process may end at once.
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
}
