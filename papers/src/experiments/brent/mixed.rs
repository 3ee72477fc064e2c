//! Blocks of many sizes (Brent §7): a strategy serves a simulated process.
//!
//! Each block is referenced twice, when it is allocated and just before it is freed (§7.3), and a
//! [`Watch`] is told of each reference.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::trace::Event;
use pagewise::{Strategy, Usage};

/// Alignment of every block, bytes; on the paper's machines all sizes are multiples of 8.
const ALIGN: usize = 8;

/// Observes a simulation.
pub(crate) trait Watch {
    /// Called for each reference to a block.
    fn reference(&mut self, block: NonNull<u8>);

    /// Called every simulated second.
    fn second(&mut self, usage: &Usage);
}

/// Runs a strategy over the events of a simulated process, with sizes multiplied by `scale`.
/// Returns the number of blocks allocated.
///
/// # Errors
/// If the strategy runs out of memory.
pub(crate) fn run(
    events: impl IntoIterator<Item = Event>,
    scale: usize,
    strategy: &mut (dyn Strategy + '_),
    watch: &mut impl Watch,
) -> anyhow::Result<u64> {
    let mut blocks: Vec<Option<(NonNull<u8>, Layout)>> = Vec::new();
    let (mut now, mut second) = (0_u64, 0_u64);
    let mut allocations = 0;
    for event in events {
        match event {
            Event::Allocate { slot, size, .. } => {
                let layout = Layout::from_size_align(usize::try_from(size)? * scale, ALIGN)?;
                let block = strategy.allocate(layout)?.cast();
                watch.reference(block);
                let slot = slot as usize;
                if slot >= blocks.len() {
                    blocks.resize(slot + 1, None);
                }
                blocks[slot] = Some((block, layout));
                allocations += 1;
            }
            Event::Free { slot } => {
                let (block, layout) = blocks[slot as usize].take().expect("a live block is freed");
                watch.reference(block);
                // SAFETY: the block was allocated above with this layout, and its slot is empty
                // now.
                unsafe { strategy.deallocate(block, layout) };
            }
            Event::Tick { ticks } => {
                now += ticks;
                while second < now / 1_000_000 {
                    second += 1;
                    watch.second(&strategy.usage());
                }
            }
            Event::Reallocate { .. } | Event::Thread { .. } => {
                unreachable!("a simulated process only allocates and frees")
            }
        }
    }
    Ok(allocations)
}

/// The mean storage efficiency after a warm-up, sampled every second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Efficiency {
    warm_up: u64,
    seconds: u64,
    sum: f64,
}

impl Efficiency {
    /// Ignores the first `warm_up` seconds, because the process begins with nothing live.
    pub(crate) fn after(warm_up: u64) -> Self {
        Self { warm_up, seconds: 0, sum: 0.0 }
    }

    /// Takes a second's sample. Returns whether it ended the warm-up.
    pub(crate) fn sample(&mut self, usage: &Usage) -> bool {
        self.seconds += 1;
        if self.seconds > self.warm_up {
            self.sum += usage.efficiency();
        }
        self.seconds == self.warm_up
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.seconds.saturating_sub(self.warm_up).max(1) as f64
    }
}
