//! Allocation sites that a profile can distinguish: [`SITES`] functions that differ only in a
//! number.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use pagewise::global::Snapshot;

use crate::ALLOCATOR;

/// Number of sites.
pub(crate) const SITES: usize = 16;

type Allocate = fn(Layout) -> *mut u8;

#[inline(never)]
fn allocate<const SITE: usize>(layout: Layout) -> *mut u8 {
    black_box(SITE);
    // SAFETY: no size is 0.
    let block = unsafe { ALLOCATOR.alloc(layout) };
    black_box(block)
}

#[inline(never)]
fn reallocate<const SITE: usize>(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    black_box(SITE);
    // SAFETY: the callers' blocks are in use, of this layout.
    let block = unsafe { ALLOCATOR.realloc(block, layout, size) };
    black_box(block)
}

/// Like [`reallocate`], without a layout.
#[inline(never)]
fn reallocate_by_address<const SITE: usize>(block: *mut u8, _: Layout, size: usize) -> *mut u8 {
    black_box(SITE);
    // SAFETY: the callers' blocks are in use, and have the default alignment.
    let block = unsafe { ALLOCATOR.reallocate(block, size) };
    black_box(block)
}

type Reallocate = fn(*mut u8, Layout, usize) -> *mut u8;

macro_rules! each {
    ($function:ident) => {
        [
            $function::<0>,
            $function::<1>,
            $function::<2>,
            $function::<3>,
            $function::<4>,
            $function::<5>,
            $function::<6>,
            $function::<7>,
            $function::<8>,
            $function::<9>,
            $function::<10>,
            $function::<11>,
            $function::<12>,
            $function::<13>,
            $function::<14>,
            $function::<15>,
        ]
    };
}

const ALLOCATE: [Allocate; SITES] = each!(allocate);
const REALLOCATE: [Reallocate; SITES] = each!(reallocate);
const REALLOCATE_BY_ADDRESS: [Reallocate; SITES] = each!(reallocate_by_address);

/// Allocates a block at this site.
pub(crate) fn block_of(site: usize, layout: Layout) -> *mut u8 {
    let block = ALLOCATE[site](layout);
    assert!(!block.is_null(), "there is memory");
    block
}

/// Resizes a block at this site.
pub(crate) fn resized_by(site: usize, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let block = REALLOCATE[site](block, layout, size);
    assert!(!block.is_null(), "there is memory");
    block
}

/// Like [`resized_by`], through the C interface.
pub(crate) fn resized_in_c_by(site: usize, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let block = REALLOCATE_BY_ADDRESS[site](block, layout, size);
    assert!(!block.is_null(), "there is memory");
    block
}

/// A profile's figures for a site: live blocks and bytes, all blocks and bytes.
pub(crate) type Figures = [f64; 4];

/// Returns a profile's figures for each site; the last entry is for all other places.
pub(crate) fn figures(snapshot: &Snapshot) -> [Figures; SITES + 1] {
    let mut starts: Vec<(usize, usize)> = (0..SITES)
        .flat_map(|site| {
            [
                (ALLOCATE[site] as *const () as usize, site),
                (REALLOCATE[site] as *const () as usize, site),
                (REALLOCATE_BY_ADDRESS[site] as *const () as usize, site),
            ]
        })
        .collect();
    starts.sort_unstable();
    // The functions are adjacent and short, so the nearest start below a call is its site.
    let site_of = |call: usize| {
        let before = starts.partition_point(|&(start, _)| start < call).checked_sub(1)?;
        let (start, site) = starts[before];
        (call - start < 200).then_some(site)
    };
    let mut figures = [[0.0; 4]; SITES + 1];
    for site in snapshot.sites() {
        let place = site.calls().iter().find_map(|&call| site_of(call)).unwrap_or(SITES);
        let told = [
            site.live_blocks(),
            site.live_bytes(),
            site.allocated_blocks(),
            site.allocated_bytes(),
        ];
        for (sum, told) in figures[place].iter_mut().zip(told) {
            *sum += told as f64;
        }
    }
    figures
}

/// The true figures, and the variances of their estimates.
#[derive(Clone, Copy, Default)]
pub(crate) struct Truth {
    pub(crate) figures: Figures,
    /// Variances of the estimates.
    variances: Figures,
    /// The largest weight of a single sample.
    largest: Figures,
}

impl Truth {
    /// Counts a block of `size` bytes that was allocated (`sign` 1) or freed (−1), with one sample
    /// in `mean` bytes.
    pub(crate) fn count(&mut self, size: usize, mean: usize, sign: f64) {
        let size = size as f64;
        let chance = -(-size / mean as f64).exp_m1();
        // The variance of an estimate that is x/p with probability p: x² (1 − p)/p.
        let spread = (1.0 - chance) / chance;
        let figures = [1.0, size, 1.0, size];
        let all = if sign > 0.0 { 4 } else { 2 };
        for (at, figure) in figures.into_iter().enumerate().take(all) {
            self.figures[at] += sign * figure;
            self.variances[at] += sign * figure * figure * spread;
            self.largest[at] = self.largest[at].max(figure / chance);
        }
    }

    /// Returns how unlikely the worst of four estimates is: its probability is at most e to the
    /// minus this (Bernstein's inequality, which also holds for few samples).
    pub(crate) fn unlikelihood(&self, estimates: &Figures) -> f64 {
        let unlikelihood = |at: usize| {
            let rounding = 1.0 + 1e-6 * self.figures[at];
            let off = ((estimates[at] - self.figures[at]).abs() - rounding).max(0.0);
            let variance = self.variances[at].max(0.0) + 1e-9;
            off * off / 2.0 / (variance + self.largest[at] * off / 3.0)
        };
        (0..4).map(unlikelihood).fold(0.0, f64::max)
    }
}
