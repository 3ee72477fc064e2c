//! The programs: phases generated from a seed, and how they run.

use std::ptr;
use std::thread;

use crate::random::Random;

/// Maximum bytes in use in a phase, and the bytes and calls that determine its length.
const BUDGET: usize = 512 << 20;

/// A phase of a program.
#[derive(Debug)]
pub(crate) struct Phase {
    /// Bytes of a block: from 2 to the first power up to the second.
    sizes: (usize, usize),
    spread: Spread,
    /// Blocks per thread, their bytes, and the total number of allocations.
    blocks: usize,
    bytes: usize,
    actions: usize,
    order: Order,
    call: Call,
    writes: Writes,
    threads: usize,
    /// Whether blocks are repeatedly built up and freed: in the same order, at random, or in
    /// reverse.
    waves: bool,
}

#[derive(Clone, Copy, Debug)]
enum Spread {
    Magnitudes,
    Even,
    FourSizes,
    SmallAndLarge,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    ByTurns,
    AtRandom,
    MostlyFew,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Malloc,
    Calloc,
    PosixMemalign,
    Realloc,
}

#[derive(Clone, Copy, Debug)]
enum Writes {
    FirstByte,
    EachPage,
    All,
}

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len())]
}

/// Returns the phases of a program.
pub(crate) fn phases(seed: u64) -> Vec<Phase> {
    let mut random = Random::new(seed);
    (0..1 + random.below(3)).map(|_| phase(&mut random)).collect()
}

fn phase(random: &mut Random) -> Phase {
    let (least, more) = one_of(random, &[(3, 5), (5, 8), (10, 8), (14, 11)]);
    let least = least + random.below(more);
    let most = (least + 1 + random.below(5)).min(27);
    let spread = one_of(
        random,
        &[Spread::Magnitudes, Spread::Even, Spread::FourSizes, Spread::SmallAndLarge],
    );
    let blocks = 4 << random.below(16);
    let order = one_of(random, &[Order::ByTurns, Order::AtRandom, Order::MostlyFew]);
    let call = match random.below(2) {
        0 => Call::Malloc,
        _ => one_of(random, &[Call::Malloc, Call::Calloc, Call::PosixMemalign, Call::Realloc]),
    };
    let writes = match random.below(7) {
        0 => Writes::FirstByte,
        _ => one_of(random, &[Writes::EachPage, Writes::All]),
    };
    let threads = if random.below(3) > 0 { 1 } else { 2 + random.below(7) };
    let waves = random.below(3) == 0;
    let bytes = (BUDGET >> random.below(4)) / threads;
    let typical = match spread {
        Spread::SmallAndLarge => 1 << least,
        _ => 1_usize << least.midpoint(most),
    };
    // Nanoseconds per action, depending on the writes, so that all phases take about as long.
    let cost = match writes {
        Writes::FirstByte => 100,
        Writes::EachPage => 100 + typical / 4096 * 60,
        Writes::All => 100 + typical / 64 * 3,
    };
    let actions = (80_000_000 / cost).clamp(200, 1_000_000);
    Phase {
        sizes: (least, most),
        spread,
        blocks,
        bytes,
        actions,
        order,
        call,
        writes,
        threads,
        waves,
    }
}

/// Runs a whole program.
pub(crate) fn run(seed: u64) {
    for (index, phase) in phases(seed).iter().enumerate() {
        thread::scope(|scope| {
            for thread in 1..phase.threads {
                scope.spawn(move || phase.run(seed ^ (index as u64) << 32 ^ (thread as u64) << 40));
            }
            phase.run(seed ^ (index as u64) << 32);
        });
    }
}

/// A block's start, and size in bytes; the start is null if there is no block.
#[derive(Clone, Copy)]
struct Block(*mut u8, usize);

impl Phase {
    fn run(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut blocks = vec![Block(ptr::null_mut(), 0); self.blocks];
        let actions = self.actions / self.threads;
        match self.waves {
            true => self.waves(&mut random, &mut blocks, actions),
            false => self.replaces(&mut random, &mut blocks, actions),
        }
        blocks.into_iter().for_each(free);
    }

    /// Repeatedly allocates the maximum number of blocks, and frees them in the phase's order.
    fn waves(&self, random: &mut Random, blocks: &mut [Block], actions: usize) {
        let mut done = 0;
        while done < actions {
            let (mut count, mut bytes) = (0, 0);
            while count < blocks.len() && bytes < self.bytes {
                let size = self.size(random);
                blocks[count] = self.allocate(random, size);
                (count, bytes) = (count + 1, bytes + size);
            }
            let wave = &mut blocks[..count];
            match self.order {
                Order::ByTurns => {}
                Order::AtRandom => {
                    (1..count).rev().for_each(|at| wave.swap(at, random.below(at + 1)));
                }
                Order::MostlyFew => wave.reverse(),
            }
            wave.iter_mut()
                .for_each(|block| free(std::mem::replace(block, Block(ptr::null_mut(), 0))));
            done += count;
        }
    }

    /// Replaces one block after another.
    fn replaces(&self, random: &mut Random, blocks: &mut [Block], actions: usize) {
        let count = blocks.len();
        let mut bytes = 0;
        for action in 0..actions {
            let index = match self.order {
                Order::ByTurns => action % count,
                Order::AtRandom => random.below(count),
                Order::MostlyFew if random.below(8) > 0 => random.below(1 + count / 16),
                Order::MostlyFew => random.below(count),
            };
            let block = &mut blocks[index];
            let Block(start, len) = *block;
            if matches!(self.call, Call::Realloc) && !start.is_null() && random.below(4) > 0 {
                let size = match random.below(3) {
                    0 => self.size(random),
                    _ => len + random.below(len / 4 + 16),
                };
                if bytes + size <= self.bytes + len {
                    *block = self.reallocate(*block, size);
                    bytes = bytes - len + block.1;
                    continue;
                }
            }
            free(*block);
            *block = Block(ptr::null_mut(), 0);
            bytes -= len;
            let size = self.size(random);
            if bytes + size <= self.bytes {
                *block = self.allocate(random, size);
                bytes += size;
            }
        }
    }

    fn size(&self, random: &mut Random) -> usize {
        let (least, most) = (1_usize << self.sizes.0, 1_usize << self.sizes.1);
        match self.spread {
            Spread::Magnitudes => {
                let magnitude = 1 << (self.sizes.0 + random.below(self.sizes.1 - self.sizes.0));
                magnitude + random.below(magnitude)
            }
            Spread::Even => least + random.below(most - least + 1),
            Spread::FourSizes => least + (most - least) / 4 * random.below(4) + 16,
            Spread::SmallAndLarge if random.below(20) > 0 => least + random.below(least),
            Spread::SmallAndLarge => least + random.below(most - least + 1),
        }
    }

    fn allocate(&self, random: &mut Random, size: usize) -> Block {
        // SAFETY: the functions are called with valid arguments.
        let start = unsafe {
            match self.call {
                Call::Malloc | Call::Realloc => libc::malloc(size),
                Call::Calloc => libc::calloc(1, size),
                Call::PosixMemalign => {
                    let mut block = ptr::null_mut();
                    let align = 16 << random.below(9);
                    match libc::posix_memalign(&raw mut block, align, size) {
                        0 => block,
                        _ => ptr::null_mut(),
                    }
                }
            }
        };
        self.written(start.cast(), 0, size)
    }

    fn reallocate(&self, Block(start, len): Block, size: usize) -> Block {
        // SAFETY: the block is in use.
        let start = unsafe { libc::realloc(start.cast(), size) };
        self.written(start.cast(), len.min(size), size)
    }

    /// Writes a block as the phase requires, from offset `from` on; returns it.
    fn written(&self, start: *mut u8, from: usize, size: usize) -> Block {
        assert!(!start.is_null(), "there is memory");
        let step = match self.writes {
            Writes::FirstByte => size.max(1),
            Writes::EachPage => 4096,
            Writes::All => 64,
        };
        for at in (from..size).step_by(step) {
            // SAFETY: the block is in use, and has this byte.
            unsafe { start.add(at).write_volatile(1) };
        }
        Block(start, size)
    }
}

fn free(block: Block) {
    // SAFETY: the block is in use and not used afterwards, or null.
    unsafe { libc::free(block.0.cast()) };
}
