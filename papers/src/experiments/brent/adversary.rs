//! Request sequences designed to fragment memory; Theorem 6.1 of Brent (1984) bounds their effect.
//!
//! An adversary may have M bytes in use at a time, in blocks of at most n bytes, and makes the
//! strategy need as much memory S as possible. All of them use ascending sizes: fill memory with
//! small blocks, keep a few that spoil many gaps, free the others, continue with larger ones.
//!
//! - [`robson`]: keeps the blocks that cover a residue class of addresses, so that no gap holds a
//!   block of the next size, 2ⁱ (Robson 1971, 1974: every strategy needs at least ½ M log₂ n).
//! - [`pins`]: keeps one block in each stretch of memory: with sizes just above a size class and
//!   stretches of a page, no page becomes free (like Knuth's against buddies, volume 1, §2.5).
//! - [`search`]: sizes and stretches of `pins`, improved at random.
//! - [`against_best_fit`]: pins with gaps between them that grow by one unit per round, designed
//!   for BEST-FIT.
//!
//! Depends only on the library: its tests (`tests/theorem_6_1.rs`) share this file.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::walk::SpanKind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A strategy under attack. Sizes and addresses are in units, which are bytes unless a strategy's
/// smallest block is too large for that.
pub(crate) struct Game<'s> {
    strategy: &'s mut (dyn Strategy + 's),
    /// Bytes in a unit.
    unit: usize,
    /// M, units.
    budget: usize,
    requested: usize,
    /// Bytes of a block's units that the header takes.
    header: usize,
    /// Start and size of the blocks in use.
    live: Vec<(NonNull<u8>, usize)>,
}

impl<'s> Game<'s> {
    /// Starts with nothing in use; allows at most `budget` units of `unit` bytes at a time.
    pub(crate) fn new(strategy: &'s mut (dyn Strategy + 's), unit: usize, budget: usize) -> Self {
        Self { strategy, unit, budget, requested: 0, live: Vec::new(), header: 0 }
    }

    /// Counts a header of `header` bytes as part of each block's units.
    pub(crate) fn with_headers(self, header: usize) -> Self {
        Self { header, ..self }
    }

    /// Returns a block's layout.
    fn layout(&self, size: usize) -> Layout {
        Layout::from_size_align(size * self.unit - self.header, 1).expect("an alignment of 1")
    }

    /// Allocates a block if M permits.
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        if self.requested + size > self.budget {
            return None;
        }
        let block = self.strategy.allocate(self.layout(size)).ok()?;
        self.requested += size;
        Some(block.cast())
    }

    /// Frees a block that [`allocate`](Self::allocate) returned for this size.
    ///
    /// # Safety
    /// The block is in use, and is not used afterwards.
    unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller guarantees it; the layout is the one it was allocated with.
        unsafe { self.strategy.deallocate(block, self.layout(size)) };
        self.requested -= size;
    }

    /// Returns S: the units of memory taken, without bookkeeping. Memory is never given back, so
    /// this is the maximum ever needed. O(blocks).
    pub(crate) fn storage(&self) -> usize {
        let mut storage = 0;
        self.strategy.walk(&mut |span| {
            if span.kind != SpanKind::Header {
                storage += span.len;
            }
        });
        storage / self.unit
    }

    /// Allocates blocks of this size, as many as M permits.
    fn fill(&mut self, size: usize) {
        let layout = self.layout(size);
        while self.requested + size <= self.budget {
            let Ok(block) = self.strategy.allocate(layout) else { return };
            self.requested += size;
            self.live.push((block.cast(), size));
        }
    }

    /// Frees all blocks except those that `keep` selects by address and size, in address order.
    fn keep(&mut self, mut keep: impl FnMut(usize, usize) -> bool) {
        let mut live = std::mem::take(&mut self.live);
        live.sort_unstable_by_key(|&(block, _)| block);
        live.retain(|&(block, size)| {
            let kept = keep(block.addr().get() / self.unit, size);
            if !kept {
                // SAFETY: the block is in use with this layout, and is removed from the list here.
                unsafe { self.strategy.deallocate(block, self.layout(size)) };
            }
            kept
        });
        self.live = live;
        self.requested = self.live.iter().map(|&(_, size)| size).sum();
    }
}

/// Returns whether a block covers an address ≡ `residue` modulo `modulus`.
fn covers(start: usize, size: usize, residue: usize, modulus: usize) -> bool {
    (residue + modulus - start % modulus) % modulus < size
}

/// Robson's adversary, for blocks of up to n = `largest` bytes.
pub(crate) fn robson(game: &mut Game<'_>, largest: usize) {
    game.fill(1);
    let mut residue = 0;
    for step in 1..=largest.ilog2() {
        let size = 1 << step;
        // The gaps that keeping this residue spoils for the new size.
        let spoilt = |residue: usize| -> usize {
            let live = game.live.iter();
            let start = |block: &NonNull<u8>| block.addr().get() / game.unit;
            let kept = live.filter(|(block, len)| covers(start(block), *len, residue, size));
            kept.map(|&(_, len)| size - len).sum()
        };
        let other = residue + size / 2;
        if spoilt(other) > spoilt(residue) {
            residue = other;
        }
        game.keep(|start, len| covers(start, len, residue, size));
        game.fill(size);
    }
}

/// A step of [`pins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Size of the blocks, bytes.
    pub(crate) size: usize,
    /// Bytes of a stretch, in which one block is kept.
    pub(crate) stretch: usize,
}

/// For each step, frees all blocks but one in each stretch, then fills memory with blocks of its
/// size.
pub(crate) fn pins(game: &mut Game<'_>, steps: &[Step]) {
    for (index, step) in steps.iter().enumerate() {
        if let Some(before) = index.checked_sub(1) {
            let mut last = None;
            game.keep(|start, _| {
                let stretch = Some(start / steps[before].stretch);
                std::mem::replace(&mut last, stretch) != stretch
            });
        }
        game.fill(step.size);
    }
}

/// Returns the classes of §6.1 for blocks of up to n = `largest` bytes: s₁ = 1, s_{j+1} = min(n, ⌊e
/// s_j⌋).
pub(crate) fn classes(largest: usize) -> Vec<usize> {
    let next = |&class: &usize| {
        let grown = (class as f64 * std::f64::consts::E) as usize;
        (class < largest).then_some(grown.min(largest))
    };
    std::iter::successors(Some(1), next).collect()
}

/// Returns the steps against pages of `page` bytes: the smallest size of each class, and one block
/// kept per page.
pub(crate) fn against_classes(classes: &[usize], page: usize) -> Vec<Step> {
    let least = [1].into_iter().chain(classes.iter().map(|class| class + 1));
    least.zip(classes).map(|(size, _)| Step { size, stretch: page }).collect()
}

/// Returns the steps against FIRST-FIT: powers of two, every other block.
pub(crate) fn against_first_fit(largest: usize) -> Vec<Step> {
    (0..=largest.ilog2()).map(|step| Step { size: 1 << step, stretch: 2 << step }).collect()
}

/// Returns the steps against BUDDY: sizes just above a power of two, which are rounded up to the
/// next one, and every other block.
pub(crate) fn against_buddies(largest: usize) -> Vec<Step> {
    let step = |log: u32| Step { size: (1 << log) / 2 + 1, stretch: 2 << log };
    (0..=largest.ilog2()).map(step).collect()
}

/// Improves `steps` at random, `tries` times. `storage` computes the S that a strategy needs for
/// them. Returns the maximum.
pub(crate) fn search(
    mut steps: Vec<Step>,
    largest: usize,
    page: usize,
    tries: u32,
    seed: u64,
    mut storage: impl FnMut(&[Step]) -> usize,
) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut most = storage(&steps);
    for _ in 0..tries {
        let mut changed = steps.clone();
        let at = random.random_range(0..changed.len());
        match random.random_range(0..4) {
            0 => changed[at].size = random.random_range(1..=largest),
            1 => changed[at].stretch = 1 << random.random_range(1..=page.ilog2()),
            2 if changed.len() > 2 => drop(changed.remove(at)),
            _ => changed.insert(at, Step { size: random.random_range(1..=largest), stretch: page }),
        }
        changed.sort_by_key(|step| step.size);
        let found = storage(&changed);
        if found >= most {
            (most, steps) = (found, changed);
        }
    }
    most
}

/// Attacks BEST-FIT with blocks of up to n = `largest` units, in rounds of ascending sizes t from
/// n/e on. In each round, as many blocks of t units as M permits go to fresh memory, since all gaps
/// are shorter. One after another is replaced by a block of t − 1 units, which fits no older gap,
/// so it takes the same place and leaves one unit, and by a pin of one unit, which best fit puts
/// into that gap. Then the blocks of t − 1 units are freed: one unit stays in use for each t. The
/// pins that M leaves room for grow as M (1 − n/(e t)), so S approaches M n/e (Robson 1977: S ≈ M
/// n).
pub(crate) fn against_best_fit(game: &mut Game<'_>, largest: usize) {
    let first = (largest as f64 / std::f64::consts::E).ceil() as usize;
    for size in first.max(2)..=largest {
        let blocks: Vec<_> = std::iter::from_fn(|| game.allocate(size)).collect();
        let shorter: Vec<_> = blocks
            .into_iter()
            .filter_map(|block| {
                // SAFETY: the block was allocated above, and is not used afterwards.
                unsafe { game.free(block, size) };
                let shorter = game.allocate(size - 1);
                // A pin stays in use to the end.
                game.allocate(1)?;
                shorter
            })
            .collect();
        for block in shorter {
            // SAFETY: as above.
            unsafe { game.free(block, size - 1) };
        }
    }
}

/// Returns the exact bound of Lemma 6.2 on the pages of a strategy, in bytes: class j, whose
/// smallest size is σ, never needs more than ⌈⌊M/σ⌋/⌊p/s⌋⌉ pages, since it takes a new one only
/// when all of its pages are full.
pub(crate) fn bound(classes: &[usize], budget: usize, page: usize) -> usize {
    let least = [1].into_iter().chain(classes.iter().map(|class| class + 1));
    least.zip(classes).map(|(least, class)| (budget / least).div_ceil(page / class) * page).sum()
}
