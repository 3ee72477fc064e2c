//! A storm for the recorders: its log is right only if no record is out of order.

use std::sync::mpsc;
use std::thread;

/// Threads of a storm, beside the one that starts it.
pub(crate) const THREADS: u32 = 8;

/// Reallocations of each.
pub(crate) const ROUNDS: usize = 5000;

/// Threads that reallocate blocks and pass them on, so that most are freed by others and their
/// addresses reused at once.
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
                    // A thread that ended has dropped its receiver; the block comes back.
                    drop(next.send(block));
                    drop(receiver.try_recv());
                }
            })
        });
        // To the last of their records, for which a scope would not wait: the process may end at once.
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
}
