//! The random requests of Tables 8 and 9, and their execution on a heap by one or many threads.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Barrier, Mutex, PoisonError};

use pagewise::walk::SpanKind;
use pagewise::{FreeResult, Strategy};
use pagewise_replay::system::affinity::Pinned;
use pagewise_replay::system::charged::processor_time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The largest request, bytes.
const LARGEST: usize = 1024;

/// When deallocations are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// After all allocations, as in the published figures.
    HeldBack,
    /// In the order drawn.
    AsDrawn,
}

/// A request. A slot is the number of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Allocate {
        size: usize,
        slot: usize,
    },
    Free {
        slot: usize,
    },
    /// A deallocation when nothing is left to free.
    FreeNothing,
}

/// Requests in phases: each phase ends before the next begins.
#[derive(Clone, Debug)]
pub(super) struct Script {
    phases: Vec<Vec<Request>>,
    allocations: usize,
    frees: usize,
}

impl Script {
    /// Draws this number of requests: each is, with equal chances, an allocation of 1 to 1,024
    /// bytes or the deallocation of a random block.
    pub(super) fn new(requests: usize, order: Order, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut script = Self { phases: vec![Vec::new(), Vec::new()], allocations: 0, frees: 0 };
        let mut live = Vec::new();
        for _ in 0..requests {
            if random.random_bool(0.5) {
                let size = random.random_range(1..=LARGEST);
                let slot = script.allocations;
                script.phases[0].push(Request::Allocate { size, slot });
                script.allocations += 1;
                live.push(slot);
            } else {
                script.frees += 1;
                if order == Order::AsDrawn {
                    let request = Self::free(&mut live, &mut random);
                    script.phases[0].push(request);
                }
            }
        }
        if order == Order::HeldBack {
            script.phases[1] =
                (0..script.frees).map(|_| Self::free(&mut live, &mut random)).collect();
        }
        script
    }

    fn free(live: &mut Vec<usize>, random: &mut ChaCha8Rng) -> Request {
        if live.is_empty() {
            return Request::FreeNothing;
        }
        let slot = live.swap_remove(random.random_range(0..live.len()));
        Request::Free { slot }
    }
}

/// How a free is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freeing {
    /// With the paper's Free, which reports the result.
    Checked,
    /// Trusting the caller.
    Trusted,
}

/// The results of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Seconds of processor time of all threads together, which the paper calls consistent (§5).
    pub(super) seconds: f64,
    /// Share of the allocations that succeeded, and of the frees.
    pub(super) allocated: f64,
    pub(super) freed: f64,
    /// Bytes of free blocks after the last allocation.
    pub(super) fragmentation: usize,
}

/// A heap that is executing a script.
struct Performance<'s> {
    strategy: Box<dyn Strategy + Send + 's>,
    freeing: Freeing,
    /// The block of each slot, if it has one.
    blocks: Vec<Option<(NonNull<u8>, Layout)>>,
    allocated: usize,
    freed: usize,
    /// Number of requests of this phase performed.
    performed: usize,
}

// SAFETY: the strategy may be sent to another thread; the blocks are its own and go with it.
unsafe impl Send for Performance<'_> {}

impl Performance<'_> {
    /// Performs the next request of the phase; `false` if there is none.
    fn step(&mut self, phase: &[Request]) -> bool {
        let Some(&request) = phase.get(self.performed) else { return false };
        self.performed += 1;
        match request {
            Request::Allocate { size, slot } => {
                let Ok(layout) = Layout::from_size_align(size, 1) else { return true };
                if let Ok(block) = self.strategy.allocate(layout) {
                    self.blocks[slot] = Some((block.cast(), layout));
                    self.allocated += 1;
                }
            }
            Request::Free { slot } => {
                let Some((block, layout)) = self.blocks[slot].take() else { return true };
                match self.freeing {
                    Freeing::Checked => {
                        // SAFETY: the block's slot is empty now, and the block is no longer used.
                        let answer = unsafe { self.strategy.try_free(block, layout) };
                        self.freed += usize::from(answer == FreeResult::Freed);
                    }
                    Freeing::Trusted => {
                        // SAFETY: the block was allocated with this layout, and its slot is empty
                        // now.
                        unsafe { self.strategy.deallocate(block, layout) };
                        self.freed += 1;
                    }
                }
            }
            Request::FreeNothing => {}
        }
        true
    }
}

/// Performs a script on a heap, by threads that share it under one lock. A thread takes the next
/// request when it has the lock, so the outcome does not depend on the number of threads. Threads
/// are pinned to different CPUs.
pub(super) fn perform(
    script: &Script,
    strategy: Box<dyn Strategy + Send + '_>,
    freeing: Freeing,
    threads: usize,
) -> Outcome {
    let blocks = vec![None; script.allocations];
    let mut heap = Performance { strategy, freeing, blocks, allocated: 0, freed: 0, performed: 0 };
    let mut outcome = Outcome::default();
    for (index, phase) in script.phases.iter().enumerate() {
        heap.performed = 0;
        let (seconds, performed) =
            if threads == 1 { alone(heap, phase) } else { shared(heap, phase, threads) };
        heap = performed;
        outcome.seconds += seconds;
        if index == 0 {
            outcome.fragmentation = free_bytes(&*heap.strategy);
        }
    }
    outcome.allocated = heap.allocated as f64 / script.allocations.max(1) as f64;
    outcome.freed = heap.freed as f64 / script.frees.max(1) as f64;
    outcome
}

fn alone<'s>(mut heap: Performance<'s>, phase: &[Request]) -> (f64, Performance<'s>) {
    let start = processor_time();
    while heap.step(phase) {}
    ((processor_time() - start).as_secs_f64(), heap)
}

fn shared<'s>(heap: Performance<'s>, phase: &[Request], threads: usize) -> (f64, Performance<'s>) {
    let heap = Mutex::new(heap);
    let ready = Barrier::new(threads);
    let perform = |place| {
        let _pinned = Pinned::to_cpu(place);
        ready.wait();
        let start = processor_time();
        // Locks again for each request.
        while heap.lock().unwrap_or_else(PoisonError::into_inner).step(phase) {}
        (processor_time() - start).as_secs_f64()
    };
    let seconds = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|place| scope.spawn(move || perform(place))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    (seconds, heap.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the bytes of free blocks.
fn free_bytes(strategy: &dyn Strategy) -> usize {
    let mut bytes = 0;
    strategy.walk(&mut |span| {
        if span.kind == SpanKind::Free {
            bytes += span.len;
        }
    });
    bytes
}

#[cfg(test)]
mod tests {
    use pagewise::catalogue::HeadFirst;
    use pagewise::source::Reserved;

    use super::*;

    #[test]
    fn requests_are_balanced_and_name_each_block_once() {
        for order in [Order::HeldBack, Order::AsDrawn] {
            let script = Script::new(10_000, order, 7);
            assert_eq!(script.allocations + script.frees, 10_000);
            assert!(script.allocations.abs_diff(5_000) < 300);
            let mut freed = vec![false; script.allocations];
            for request in script.phases.iter().flatten() {
                if let Request::Free { slot } = *request {
                    assert!(!std::mem::replace(&mut freed[slot], true), "freed twice");
                }
            }
        }
    }

    #[test]
    fn threads_change_only_the_time() {
        let script = Script::new(4_000, Order::AsDrawn, 3);
        let [alone, shared] = [1, 4].map(|threads| {
            let heap = HeadFirst::new(1 << 20, Reserved::new(1 << 20), ());
            perform(&script, Box::new(heap), Freeing::Checked, threads)
        });
        assert_eq!(alone.allocated, shared.allocated);
        assert_eq!(alone.freed, shared.freed);
        assert_eq!(alone.fragmentation, shared.fragmentation);
        assert!(alone.allocated == 1.0 && alone.freed > 0.9);
    }
}
