//! The requests to the arenas: the mixes of talc's own benchmarks, so that its figures and ours are
//! comparable.

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::peers::Peer;

/// A small and fast generator (Marsaglia 2003, xorshift64*). Its cost is part of every figure.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns a number from `least` to below `end`.
    fn range(&mut self, least: usize, end: usize) -> usize {
        least + ((u64::from(self.next()) * (end - least) as u64) >> 32) as usize
    }

    /// Returns a size; small ones are more frequent.
    fn size(&mut self, max: usize) -> usize {
        let cap = self.range(16, max);
        self.range(4, cap)
    }

    /// Returns 8 in three quarters of the cases, 16 in a fifth, and so on.
    fn align(&mut self) -> usize {
        8 << ((self.next() | 1 << 16).trailing_zeros() / 2)
    }

    fn layout(&mut self, max: usize) -> Layout {
        let (size, align) = (self.size(max), self.align());
        Layout::from_size_align(size, align).expect("a valid layout")
    }
}

type Block = (NonNull<u8>, Layout);

/// Random actions: three sevenths allocate, three free, and one reallocates, to at most three times
/// the largest size, or does nothing. With too few live blocks, actions that would free allocate
/// instead.
pub(crate) struct Actions {
    random: Random,
    max: usize,
    live: Live,
    reallocates: bool,
    /// Alignment of every request; `None`: as in talc's mix.
    align: Option<usize>,
    blocks: Vec<Block>,
}

/// The number of live blocks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Live {
    /// At least this many and at most a hundred more: beyond that, actions that would allocate free
    /// instead.
    Held(usize),
    /// At least 300, drifting at random, as in talc's own benchmark: some thousands after millions
    /// of actions.
    Drifting,
}

impl Live {
    fn least(self) -> usize {
        match self {
            Self::Held(blocks) => blocks,
            Self::Drifting => 300,
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Held(blocks) => blocks + 100,
            Self::Drifting => usize::MAX,
        }
    }
}

impl Actions {
    pub(crate) fn new(max: usize, live: Live, reallocates: bool) -> Self {
        let random = Random::new(1984);
        Self { random, max, live, reallocates, align: None, blocks: Vec::with_capacity(100_000) }
    }

    /// Returns the actions with every request aligned to this.
    pub(crate) fn aligned(self, align: Option<usize>) -> Self {
        Self { align, ..self }
    }

    /// Performs actions; returns how many requests failed.
    pub(crate) fn perform(&mut self, peer: &mut Peer<'_>, actions: usize) -> usize {
        let Self { random, max, live, reallocates, align, blocks } = self;
        let mut failed = 0;
        for _ in 0..actions {
            let action = random.range(0, 7);
            if action == 6 {
                if *reallocates && !blocks.is_empty() {
                    let index = random.range(0, blocks.len());
                    let size = random.range(1, 3 * *max);
                    failed += usize::from(!reallocate(peer, &mut blocks[index], size));
                }
            } else if blocks.len() < live.least() || action < 3 && blocks.len() < live.most() {
                let mut layout = random.layout(*max);
                if let Some(align) = *align {
                    layout = Layout::from_size_align(layout.size(), align).expect("a valid layout");
                }
                match peer.allocate(layout) {
                    Some(block) => blocks.push((block, layout)),
                    None => failed += 1,
                }
            } else {
                let index = random.range(0, blocks.len());
                let (block, layout) = blocks.swap_remove(index);
                peer.free(block, layout);
            }
        }
        failed
    }

    /// Frees the remaining blocks.
    pub(crate) fn finish(&mut self, peer: &mut Peer<'_>) {
        for (block, layout) in self.blocks.drain(..) {
            peer.free(block, layout);
        }
    }
}

/// Returns whether the block could be resized.
fn reallocate(peer: &mut Peer<'_>, block: &mut Block, size: usize) -> bool {
    let Some(moved) = peer.reallocate(block.0, block.1, size) else { return false };
    let layout = Layout::from_size_align(size, block.1.align()).expect("a valid layout");
    *block = (moved, layout);
    true
}

/// A small region: sizes from 1 to `max`, all equally likely.
#[derive(Clone, Copy)]
pub(crate) struct SmallFilling {
    pub(crate) region: usize,
    pub(crate) max: usize,
    /// Percentage of the actions that free a block.
    pub(crate) frees: usize,
}

impl SmallFilling {
    /// Aligned as types are: to the greatest power of two that divides the size, at most 8.
    fn layout(self, random: &mut Random) -> Layout {
        let size = random.range(1, self.max + 1);
        Layout::from_size_align(size, 1 << size.trailing_zeros().min(3)).expect("a valid layout")
    }

    /// Fills a region until a request fails; returns the share requested at that point. Then frees
    /// everything.
    pub(crate) fn fill(self, peer: &mut Peer<'_>, seed: u64) -> f64 {
        let mut random = Random::new(seed + 1);
        let mut blocks: Vec<Block> = Vec::new();
        loop {
            if random.range(0, 100) < self.frees && !blocks.is_empty() {
                let (block, layout) = blocks.swap_remove(random.range(0, blocks.len()));
                peer.free(block, layout);
                continue;
            }
            let layout = self.layout(&mut random);
            let Some(block) = peer.allocate(layout) else {
                let requested: usize = blocks.iter().map(|(_, layout)| layout.size()).sum();
                blocks.drain(..).for_each(|(block, layout)| peer.free(block, layout));
                return requested as f64 / self.region as f64;
            };
            blocks.push((block, layout));
        }
    }

    /// Allocates and frees at random in a region that is about `share` full by requests; returns
    /// the number of actions, including failed requests.
    pub(crate) fn churn(self, peer: &mut Peer<'_>, share: f64, actions: usize) -> usize {
        let mut random = Random::new(1984);
        let mut blocks: Vec<Block> = Vec::with_capacity(self.region);
        let (mut requested, most) = (0, (share * self.region as f64) as usize);
        let mut failed = 0;
        for _ in 0..actions {
            let layout = self.layout(&mut random);
            let fits = requested + layout.size() <= most;
            match fits.then(|| peer.allocate(layout)) {
                Some(Some(block)) => {
                    requested += layout.size();
                    blocks.push((block, layout));
                }
                full => {
                    failed += usize::from(full.is_some());
                    if !blocks.is_empty() {
                        let (block, layout) = blocks.swap_remove(random.range(0, blocks.len()));
                        requested -= layout.size();
                        peer.free(block, layout);
                    }
                }
            }
        }
        blocks.drain(..).for_each(|(block, layout)| peer.free(block, layout));
        failed
    }
}

/// A region to fill until a request fails: of ten actions, five allocate, one frees, and four
/// reallocate or, without reallocations, do nothing.
pub(crate) struct Filling {
    pub(crate) name: &'static str,
    pub(crate) region: usize,
    max: usize,
    /// Largest size of a reallocation; 0 for none.
    realloc_max: usize,
}

impl Filling {
    /// talc's mix, and blocks of at most 200 bytes.
    pub(crate) fn all() -> Vec<Self> {
        let talc = |name, region, realloc_max| Self { name, region, max: 10_000, realloc_max };
        let small = |name, realloc_max| Self { name, region: 16 << 20, max: 200, realloc_max };
        vec![
            talc("talc's, 128 MiB", 128 << 20, 100_000),
            talc("talc's, 16 MiB", 16 << 20, 100_000),
            talc("no realloc, 16", 16 << 20, 0),
            small("≤ 200 B, realloc", 200),
            small("≤ 200 B", 0),
        ]
    }

    /// Returns whether an allocator fills the region in reasonable time.
    pub(crate) fn feasible(&self, name: &str) -> bool {
        name != "linked_list_allocator" || self.max > 200 && self.region <= 16 << 20
    }

    /// Fills a region, and empties it; returns the share of it that was requested at the first
    /// failure.
    pub(crate) fn fill(&self, peer: &mut Peer<'_>, seed: u64) -> f64 {
        let mut random = Random::new(seed + 1);
        let mut blocks: Vec<Block> = Vec::new();
        loop {
            let succeeded = match random.range(0, 10) {
                0..=4 => {
                    let layout = random.layout(self.max);
                    peer.allocate(layout).is_some_and(|block| {
                        blocks.push((block, layout));
                        true
                    })
                }
                _ if blocks.is_empty() => true,
                5 => {
                    let index = random.range(0, blocks.len());
                    let (block, layout) = blocks.swap_remove(index);
                    peer.free(block, layout);
                    true
                }
                _ if self.realloc_max == 0 => true,
                _ => {
                    let index = random.range(0, blocks.len());
                    let size = random.range(1, self.realloc_max);
                    reallocate(peer, &mut blocks[index], size)
                }
            };
            if !succeeded {
                let requested: usize = blocks.iter().map(|(_, layout)| layout.size()).sum();
                blocks.drain(..).for_each(|(block, layout)| peer.free(block, layout));
                return requested as f64 / self.region as f64;
            }
        }
    }
}
