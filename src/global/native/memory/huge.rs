//! Decides which memory the kernel is advised to back with huge pages, where the tuning says
//! [`Beyond`](HugePages::Beyond).
//!
//! The kernel chooses the page size at the first touch, and a huge page takes 2 MiB wherever it is
//! touched. So only memory that is, or will probably be, written densely gets the advice: a table
//! may be meant to stay mostly untouched. Memory on huge pages looks dense whatever was written. So
//! even of a dense [kind](DensityPredictor), one in [`SAMPLE_ONE_IN`] gets no huge pages; in a
//! small extent a larger share, so that at most [a half](SAMPLED_PART) of it rests on one
//! sample. The last memory without them is the *sample* that tells whether the kind is dense.
//!
//! | memory | gets huge pages |
//! |---|---|
//! | added to a heap for pages of small blocks | if all huge pages of the heap together take no more than its pages of small blocks |
//! | added to a heap for any other block below the large ones | if the sample, the last such memory without huge pages, is written all over |
//! | added to a heap for a large block | if the sample, the last such block without huge pages, is written all over |
//! | of a region that was written all over, is free, and goes back | always |
//! | of a new mapping | if the sample, the end of an earlier mapping, is written all over, and that mapping is at least half as long; without such a sample, the first 64 MiB that were not asked to be zeros, in blocks of at most 128 MiB ([`kept`](crate::global::native::heaps::kept)) |
//! | added to a heap or a mapping for a block that grows, or a mapping that starts on a huge page and that such a block moves to | if OS pages all over the old block are resident |
//! | any other | as the system is set |
//!
//! ```text
//! extent  | first bytes       | region    | region    | region    | …     regions of a huge page
//!         | small pages       | small     | a large   | small     |
//!                               advised ✓   block       ✓
//! ```
//! When a large block gets memory that was advised for other blocks, the advice is taken back,
//! unless large blocks are dense: the parts that went back to the system would return as huge
//! pages.
//!
//! The advice is also taken back from a region if much of it, but not all, [was found
//! free](Huge::note_free) and went back. Linux scans advised memory all the time (`khugepaged`) and
//! makes a huge page of any region with a single resident OS page, so the free part would take
//! memory again. Once all of the region is free, it is advised again. Where the system backs all
//! memory with huge pages, as Debian's kernels do, this applies to every region of the extent.

use core::cell::Cell;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use crate::global::native::base::apart::Apart;
use crate::global::tuning::{HugePages, LARGEST_SLOT};
use crate::os;

/// Bytes of a huge page. Where the system's are larger, the kernel uses fewer of them.
pub(in crate::global::native) const HUGE: usize = 2 << 20;

/// The most regions that a slot has.
const REGIONS: usize = LARGEST_SLOT / HUGE;

/// At least one in `SAMPLE_ONE_IN` of a dense kind gets no huge pages.
pub(in crate::global::native) const SAMPLE_ONE_IN: u8 = 16;

/// One sample decides on at most this part of the extent, a half, but on one region or block
/// at least: huge pages take memory in excess where the program writes less densely than in the
/// sample.
const SAMPLED_PART: usize = 2;

/// Resident bytes from which on a region counts as written all over, when all of it is free.
const WRITTEN: usize = HUGE / 8 * 7;

/// Free bytes from which on a region is better without huge pages; fewer cost little when resident.
const THIN: usize = HUGE / 8;

/// The most thinned regions in all heaps: each may split a mapping in three, and Linux allows a
/// process some 65,530.
const MOST_THIN: usize = 1 << 14;

/// Number of thinned regions in all heaps.
static ALL_THIN: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Whether the system backs all memory with huge pages, if it [was asked](ask_system).
static ALL_ARE_HUGE: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Asks how the system is set, where that matters. Call it before the first heap is opened; later a
/// sandbox may kill the process for opening a file.
pub(in crate::global::native) fn ask_system(huge_pages: HugePages) {
    if huge_pages.is_adaptive() {
        ALL_ARE_HUGE.store(os::backs_all_with_huge_pages(), Relaxed);
    }
}

/// One kind of memory, and a prediction whether the next of the kind will be written all over. The
/// sample, the last of the kind without huge pages, decides.
#[derive(Debug)]
pub(in crate::global::native) struct DensityPredictor {
    /// Start and bytes of the sample; 0 bytes: there is none.
    sample: Cell<(usize, usize)>,
    /// Whether the last sample was written all over.
    is_dense: Cell<bool>,
    /// Decisions made while the kind was dense, since a sample was last due.
    decisions: Cell<u8>,
}

impl DensityPredictor {
    /// Predicts that nothing will be written all over, until there was a sample.
    pub(in crate::global::native) const fn new() -> Self {
        Self { sample: Cell::new((0, 0)), is_dense: Cell::new(false), decisions: Cell::new(0) }
    }

    /// Returns the start and the bytes of the sample; 0 bytes if there is none.
    pub(in crate::global::native) fn sample(&self) -> (usize, usize) {
        self.sample.get()
    }

    /// Makes this memory, without huge pages, the sample.
    pub(in crate::global::native) fn set_sample(&self, start: usize, len: usize) {
        self.sample.set((start, len));
    }

    /// Notes whether the kind is dense: whether there is a sample, written all over. `any` is an
    /// address of the allocator, for its provenance.
    pub(in crate::global::native) fn check_sample(&self, any: *mut u8) {
        let (start, len) = self.sample.get();
        self.is_dense.set(len > 0 && is_dense(any.with_addr(start), len));
    }

    /// Returns whether the kind is dense, as far as is known.
    pub(in crate::global::native) fn is_dense(&self) -> bool {
        self.is_dense.get()
    }

    /// Decides whether the next memory of the kind gets huge pages: if the kind is dense, all but
    /// one in `one_in` do. Memory that gets none becomes the sample.
    pub(super) fn decide(&self, start: usize, len: usize, one_in: u8) -> bool {
        if self.is_dense() && !self.count_decision(one_in) {
            return true;
        }
        self.set_sample(start, len);
        false
    }

    /// Returns whether the next [decision](Self::count_decision) makes a sample due.
    pub(in crate::global::native) fn is_sample_next(&self, one_in: u8) -> bool {
        self.decisions.get() + 1 >= one_in
    }

    /// Counts a decision about a dense kind. Returns whether a new sample is due: once in `one_in`
    /// decisions.
    pub(in crate::global::native) fn count_decision(&self, one_in: u8) -> bool {
        let is_due = self.is_sample_next(one_in);
        self.decisions.set(if is_due { 0 } else { self.decisions.get() + 1 });
        is_due
    }
}

/// What a walk found so far in its current region: its start, its free bytes, and how many of these
/// were resident.
#[derive(Debug)]
pub(super) struct Walked {
    /// Where the region starts; null before the first one.
    region: *mut u8,
    /// Bytes of it that are free.
    free: usize,
    /// Free bytes of it that are resident.
    written: usize,
}

impl Walked {
    /// The state before the first region.
    pub(super) const NOTHING: Self = Self { region: ptr::null_mut(), free: 0, written: 0 };
}

// SAFETY: the region is an address for the system, and is not read or written.
unsafe impl Send for Walked {}

/// A bit for each region of an extent. They are apart from [`Huge`], which is built on the stack of
/// the thread that opens a heap: such a stack may be small. All zeros is a valid value: no region.
#[derive(Debug)]
pub(in crate::global::native) struct Marks {
    /// Regions that are advised.
    advised: [Cell<u64>; REGIONS / 64],
    /// Regions that are thinned, that is, lost their huge pages as much of them was free.
    thinned: [Cell<u64>; REGIONS / 64],
}

#[cfg(test)]
impl Marks {
    /// Returns marks of no region, for a test.
    pub(super) fn none() -> &'static Self {
        let none = || [const { Cell::new(0) }; REGIONS / 64];
        Box::leak(Box::new(Self { advised: none(), thinned: none() }))
    }
}

// SAFETY: marks are reached only through their `Huge`, under its heap's lock.
unsafe impl Sync for Marks {}

/// The known huge pages of a heap's extent.
///
/// Invariants: `from`, `reached` and `start` are multiples of [`HUGE`]. The mark of a region is set
/// iff it is advised, and `advised` counts them. No advised region is outside `from..reached`.
#[derive(Debug)]
pub(in crate::global::native) struct Huge {
    /// Address from which on regions are advised; beyond all addresses if none are.
    from: usize,
    /// Address up to which regions were decided on.
    reached: usize,
    /// The first region completely in the extent; beyond all addresses if none is considered.
    start: usize,
    /// Upper bound for the end of the extent.
    most: usize,
    /// The marks of the extent's regions.
    marks: &'static Marks,
    /// Number of advised regions.
    advised: Cell<usize>,
    /// Whether the system backs all memory with huge pages.
    all_are_huge: Cell<bool>,
    /// Bytes that may be advised when the extent is next extended.
    allowed: Cell<usize>,
    /// Regions that the extent enters for other blocks than small ones.
    region_density: DensityPredictor,
    /// Large blocks that the extent is extended for.
    block_density: DensityPredictor,
    /// Whether the advice was given for the whole slot at once.
    everywhere: bool,
}

impl Huge {
    /// Returns the huge pages of an extent that is still empty and may reach the end of `extent`.
    /// The marks are zeros, and only this value uses them.
    pub(super) fn new(huge_pages: HugePages, extent: Range<usize>, marks: &'static Marks) -> Self {
        let from = match huge_pages {
            HugePages::System | HugePages::Never => usize::MAX & !(HUGE - 1),
            HugePages::Always => extent.start & !(HUGE - 1),
            HugePages::Beyond(bytes) => {
                extent.start.saturating_add(bytes).min(extent.end).next_multiple_of(HUGE)
            }
        };
        let start = match huge_pages {
            HugePages::Beyond(_) => extent.start.next_multiple_of(HUGE).min(from),
            _ => from,
        };
        let region_density = DensityPredictor::new();
        region_density.set_sample(from.saturating_sub(2 * HUGE).max(start), HUGE);
        Self {
            from,
            reached: from,
            start,
            most: extent.end,
            marks,
            advised: Cell::new(0),
            all_are_huge: Cell::new(ALL_ARE_HUGE.load(Relaxed)),
            allowed: Cell::new(0),
            region_density,
            block_density: DensityPredictor::new(),
            everywhere: huge_pages.advice().is_some(),
        }
    }

    /// Returns whether the kernel may use huge pages somewhere below `end`.
    pub(in crate::global::native) fn may_be_huge_below(&self, end: usize) -> bool {
        end > self.from
    }

    /// Returns whether the memory at `address` may be part of a huge page, as far as is known.
    pub(super) fn may_be_huge(&self, address: usize) -> bool {
        // Without `Beyond` no region is considered, and the kernel's choice is unknown.
        let is_unknown = self.start > self.most;
        if self.everywhere || self.all_are_huge.get() || is_unknown {
            return true;
        }
        address >= self.from && self.is_advised(address)
    }

    /// Sets the bytes of the extent that may be advised when it is next extended.
    #[inline(always)]
    pub(in crate::global::native) fn allow(&self, bytes: usize) {
        self.allowed.set(bytes);
    }

    /// Returns the number of bytes that are advised.
    pub(in crate::global::native) fn advised(&self) -> usize {
        self.advised.get() * HUGE
    }

    /// Decides on the regions that the extent enters when it reaches `end`. It is accessible there.
    pub(super) fn reach(&mut self, end: *mut u8) {
        while self.reached < end.addr() && !self.everywhere {
            let region = end.with_addr(self.reached);
            self.reached += HUGE;
            if self.reached > self.most {
                continue;
            }
            if self.advised() + HUGE <= self.allowed.get() || self.decide_new_region(region) {
                self.advise(region, true);
            }
        }
    }

    /// Returns whether a region that is entered gets huge pages because its kind is dense.
    fn decide_new_region(&self, region: *mut u8) -> bool {
        // The region just before may not be completely written yet.
        let is_left = self.region_density.sample.get().0 + HUGE < region.addr();
        if os::ADVISES_HUGE_PAGES && is_left {
            self.region_density.check_sample(region);
        } else if !self.region_density.is_dense() {
            return false;
        }
        self.region_density.decide(region.addr(), HUGE, self.one_in(region, HUGE))
    }

    /// Returns the number of blocks or regions of `len` bytes that share one sample, itself
    /// included, when the extent ends at `end`: at most [`SAMPLED_PART`] of it rests on a sample.
    fn one_in(&self, end: *mut u8, len: usize) -> u8 {
        let most = end.addr().saturating_sub(self.start) / SAMPLED_PART / len;
        // Fits: it is at most `SAMPLE_ONE_IN`.
        most.clamp(1, usize::from(SAMPLE_ONE_IN) - 1) as u8 + 1
    }

    /// Advises a large block that the extent was extended for if such blocks are dense, and takes
    /// the advice back otherwise.
    #[cold]
    pub(in crate::global::native) fn advise_new_block(&self, block: *mut u8, len: usize) {
        if self.everywhere || !os::ADVISES_HUGE_PAGES {
            return self.unadvise(block, len);
        }
        if !self.may_be_huge_below(block.addr() + len) {
            return self.block_density.set_sample(block.addr(), len);
        }
        self.block_density.check_sample(block);
        match self.block_density.decide(block.addr(), len, self.one_in(block, len)) {
            true => self.advise_all(block, len, true),
            false => self.unadvise(block, len),
        }
    }

    /// Takes the advice back from a large block in memory that others had, unless such blocks are
    /// dense.
    #[inline]
    pub(in crate::global::native) fn unadvise_reused_block(&self, block: *mut u8, len: usize) {
        if !self.block_density.is_dense() {
            self.unadvise(block, len);
        }
    }

    /// Takes the advice back from the regions that a block touches, if any may have it.
    #[inline]
    fn unadvise(&self, block: *mut u8, len: usize) {
        if self.advised.get() != 0 && self.may_be_huge_below(block.addr() + len) {
            self.advise_all(block, len, false);
        }
    }

    /// Advises the regions that a block touches, or takes their advice back.
    #[cold]
    fn advise_all(&self, block: *mut u8, len: usize, wanted: bool) {
        let first = block.addr().max(self.from) & !(HUGE - 1);
        // Exclude the region that ends beyond the extent.
        let end = self.reached.min(block.addr() + len).min(self.most & !(HUGE - 1));
        for start in (first..end).step_by(HUGE) {
            if self.is_advised(start) != wanted {
                self.advise(block.with_addr(start), wanted);
            }
        }
    }

    /// Notes free OS pages that a walk in address order gives back, and how many bytes of them were
    /// resident. Decides on each region once the walk has left it; `None` ends the walk. `walked`
    /// is the walk's state in its current region.
    pub(super) fn note_free(&self, walked: &mut Walked, free: Option<(Range<*mut u8>, usize)>) {
        let Some((Range { start, end }, mut written)) = free else {
            return self.decide_walked(walked);
        };
        let mut at = start.with_addr(start.addr().max(self.start));
        while at < end {
            let region = at.with_addr(at.addr() & !(HUGE - 1));
            if region != walked.region {
                self.decide_walked(walked);
                *walked = Walked { region, ..Walked::NOTHING };
            }
            let stop = end.min(region.wrapping_add(HUGE));
            let len = stop.addr() - at.addr();
            walked.free += len;
            // A region is met in few steps, so it does not matter which part of a step was
            // resident.
            walked.written += written.min(len);
            written -= written.min(len);
            at = stop;
        }
    }

    /// Takes huge pages from a region with [much](THIN) free memory until all of it is free, and
    /// gives them to a free region that was [written all over](WRITTEN).
    fn decide_walked(&self, &mut Walked { region, free, written }: &mut Walked) {
        let lies_within = self.start <= region.addr() && region.addr() < self.most & !(HUGE - 1);
        if free < THIN || !lies_within {
            return;
        }
        let (word, bit) = Self::bit_of(region.addr());
        let thinned = &self.marks.thinned[word];
        let is_advised = self.is_advised(region.addr());
        if thinned.get() & bit != 0 {
            if free >= HUGE {
                flip(thinned, bit);
                ALL_THIN.fetch_sub(1, Relaxed);
                self.restore_huge_pages(region);
            }
        } else if free >= HUGE {
            let may_advise =
                self.from <= region.addr() && !self.everywhere && !self.all_are_huge.get();
            if may_advise && !is_advised && written >= WRITTEN {
                self.advise(region, true);
            }
        } else if (is_advised || !self.everywhere && self.all_are_huge.get())
            && ALL_THIN.load(Relaxed) < MOST_THIN
        {
            flip(thinned, bit);
            ALL_THIN.fetch_add(1, Relaxed);
            if is_advised {
                self.advise(region, false);
            } else {
                // SAFETY: the region is in the extent; advice changes no contents.
                unsafe { os::advise_huge_pages(region, HUGE, false) };
            }
        }
    }

    /// Lets a thinned region use huge pages again: by advice, or by the system's setting, which
    /// does not count as advice.
    fn restore_huge_pages(&self, region: *mut u8) {
        if self.all_are_huge.get() {
            // SAFETY: the region is in the extent; advice changes no contents.
            unsafe { os::advise_huge_pages(region, HUGE, true) };
        } else if !self.is_advised(region.addr()) {
            self.advise(region, true);
        }
    }

    /// Pretends that the system does not back all memory with huge pages.
    #[cfg(test)]
    pub(super) fn pretend_not_all_huge(&self) {
        self.all_are_huge.set(false);
    }

    /// Advises a region of the extent that is not advised, or takes its advice back (`wanted` is
    /// false).
    fn advise(&self, region: *mut u8, wanted: bool) {
        // SAFETY: the region is in the extent; advice changes no contents.
        unsafe { os::advise_huge_pages(region, HUGE, wanted) };
        let (word, bit) = Self::bit_of(region.addr());
        flip(&self.marks.advised[word], bit);
        self.advised.set(if wanted { self.advised.get() + 1 } else { self.advised.get() - 1 });
    }

    /// Returns whether the region of `address` is advised.
    fn is_advised(&self, address: usize) -> bool {
        let (word, bit) = Self::bit_of(address);
        self.marks.advised[word].get() & bit != 0
    }

    /// Returns the word and the bit of the region of an address; no two regions of a slot share
    /// one.
    fn bit_of(address: usize) -> (usize, u64) {
        let region = address / HUGE % REGIONS;
        (region / 64, 1 << (region % 64))
    }
}

/// Sets or clears a mark.
fn flip(marks: &Cell<u64>, bit: u64) {
    marks.set(marks.get() ^ bit);
}

impl HugePages {
    /// Returns where the memory of a slot's heap may be huge pages. Beyond a quarter of the bytes
    /// that [`Beyond`](Self::Beyond) names in the first heap, a half in the second, and so on up to
    /// all of them: a program with several heaps has partly used huge pages in each.
    pub(in crate::global::native) fn of_heap(self, slot: usize) -> Self {
        match self {
            Self::Beyond(bytes) => Self::Beyond(bytes / 4 * (slot + 1).min(4)),
            other => other,
        }
    }

    /// Returns the advice given to the kernel for a heap or a mapping before its first touch, if
    /// any: whether huge pages are wanted.
    pub(in crate::global::native) fn advice(self) -> Option<bool> {
        match self {
            Self::System | Self::Beyond(_) => None,
            Self::Never => Some(false),
            Self::Always => Some(true),
        }
    }

    /// Returns whether the kernel gets more advice after memory was written.
    pub(in crate::global::native) fn is_adaptive(self) -> bool {
        matches!(self, Self::Beyond(_))
    }
}

/// Returns whether memory is written all over, judging by a few of its OS pages.
pub(in crate::global::native) fn is_dense(start: *mut u8, len: usize) -> bool {
    asked_pages(start, len).all(os::is_resident)
}

/// Returns whether memory is not written at all, judging as [`is_dense`].
pub(in crate::global::native) fn is_untouched(start: *mut u8, len: usize) -> bool {
    !asked_pages(start, len).any(os::is_resident)
}

/// Returns addresses in a few OS pages all over the memory: one anywhere in each sixteenth, and one
/// at the end. At equal distances, all might be in blocks though half of the memory was never
/// written: blocks aligned to 64 KiB may be 128 KiB apart.
fn asked_pages(start: *mut u8, len: usize) -> impl Iterator<Item = *mut u8> {
    /// Number of OS pages to ask about.
    const ASKED: usize = 16;
    let part = (len - 1) / ASKED;
    // How far into its part each page lies, in 256ths: the same for each call, in no order.
    (1..ASKED)
        .map(move |at| part * (at - 1) + (part >> 8) * ((at * 0x9e37) >> 8 & 0xff))
        .chain([part * ASKED])
        .map(move |offset| start.wrapping_add(offset))
}

#[cfg(all(test, not(miri)))]
mod tests;
