//! Which memory the kernel is told to use huge pages for, where the tuning says
//! [`Beyond`](HugePages::Beyond).
//!
//! The kernel chooses at the first touch, and a huge page takes 2 MiB wherever it is touched. So it is
//! told of memory that is known to be written densely, or whose like is: a table may be meant to stay mostly
//! untouched. What has huge pages seems to be dense whatever is written, so some of each [kind](Kind) does without, and is
//! what is asked about.
//!
//! | memory | is of huge pages |
//! |---|---|
//! | that a heap is extended by for pages of small blocks | if all huge pages of the heap together stay below what such pages take |
//! | that a heap is extended by for anything else, up to large blocks | if the last memory that it was extended by and that has none is written all over |
//! | that a heap is extended by for a large block | if the last large block that it was extended for and that has none is written all over |
//! | of a region all of which was written, is free, and goes back | always |
//! | of a new mapping | if the last mapping that has none, or that went back, is written all over, and at least half as long |
//! | that a heap, or a mapping, is extended by for a block that grows, or a mapping that such a block moves to, which begins with a huge page | if OS pages all over the block as it was take memory |
//! | any other | as the system is set |
//!
//! ```text
//! extent  | first bytes       | region    | region    | region    | …     regions of a huge page
//!         | small pages       | small     | a large   | small     |
//!                               advised ✓   block       ✓
//! ```
//! Where a large block gets memory that was advised for others, the advice is taken back, unless large blocks are
//! dense: what of it was given back to the system meanwhile would come again as huge pages.
//!
//! So it is where much of a region, but not all, [was found free](Huge::found_free) and went back: Linux looks through
//! advised memory all the time (`khugepaged`) and makes huge pages of regions in which a single OS page takes memory, so that
//! what went back would take memory again. Once all of such a region is free it is advised again. Where the system is set to
//! back all memory with huge pages, as Debian's kernels are, that concerns each region of the extent, whatever lies there.

use core::cell::Cell;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use super::apart::Apart;
use super::tuning::{HugePages, LARGEST_SLOT};
use crate::os;

/// Bytes of a huge page. Where they are larger, the kernel uses fewer.
pub(super) const HUGE: usize = 2 << 20;

/// Regions of a slot, at most.
const REGIONS: usize = LARGEST_SLOT / HUGE;

/// Of so many of a kind that is dense, one has no huge pages.
const WITHOUT: u8 = 16;

/// Bytes of a region that took memory when all of it was free, from which on it was written all over.
const WRITTEN: usize = HUGE / 8 * 7;

/// Free bytes of a region from which on it is better off without huge pages: fewer cost little when they come again.
const THIN: usize = HUGE / 8;

/// Regions without huge pages among others, in all heaps, at most: each may split a mapping in three, of which Linux lets a
/// process have some 65,530.
const MOST_THIN: usize = 1 << 14;

/// How many there are.
static ALL_THIN: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Whether the system is set to back all memory with huge pages, as far as it [was asked](ask_system).
static ALL_ARE_HUGE: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Asks the system how it is set, where that matters. To be called before the first heap is opened, and not later: then a
/// sandbox may kill for opening a file.
pub(super) fn ask_system(huge_pages: HugePages) {
    if huge_pages.follows() {
        ALL_ARE_HUGE.store(os::backs_all_with_huge_pages(), Relaxed);
    }
}

/// Memory of one kind, some of which may be meant to stay mostly untouched: whether the next will be written all over, as
/// far as is known from the last that has no huge pages.
#[derive(Debug)]
pub(super) struct Kind {
    /// Where that starts, and its bytes; 0: there is none.
    asked: Cell<(usize, usize)>,
    is_dense: Cell<bool>,
    /// How many had huge pages since.
    followed: Cell<u8>,
}

impl Kind {
    pub(super) const fn new() -> Self {
        Self { asked: Cell::new((0, 0)), is_dense: Cell::new(false), followed: Cell::new(0) }
    }

    /// Bytes of the last that has no huge pages.
    pub(super) fn asked_len(&self) -> usize {
        self.asked.get().1
    }

    /// Whether the last that has no huge pages lies there.
    pub(super) fn asks_within(&self, addresses: Range<usize>) -> bool {
        addresses.contains(&self.asked.get().0)
    }

    /// The memory has no huge pages, and is the last.
    pub(super) fn ask_about(&self, start: usize, len: usize) {
        self.asked.set((start, len));
    }

    /// Asks about the last; `any` is an address of the allocator's, for its provenance.
    pub(super) fn ask(&self, any: *mut u8) {
        let (start, len) = self.asked.get();
        self.learn(len > 0 && is_dense(any.with_addr(start), len));
    }

    /// Memory of the kind is written all over, or not.
    pub(super) fn learn(&self, is_dense: bool) {
        self.is_dense.set(is_dense);
    }

    /// Whether the kind is dense, as far as is known.
    pub(super) fn is_dense(&self) -> bool {
        self.is_dense.get()
    }

    /// One more of the kind: whether it is to be of huge pages, as all are but one in some if the kind is dense. One that is
    /// not is asked about next.
    pub(super) fn follows(&self, start: usize, len: usize) -> bool {
        if self.is_dense() {
            self.followed.set((self.followed.get() + 1) % WITHOUT);
            if self.followed.get() > 0 {
                return true;
            }
        }
        self.ask_about(start, len);
        false
    }
}

/// What a walk met of the region where it is: its start, bytes that are free, and bytes of these that took memory.
#[derive(Debug)]
pub(super) struct Walked {
    region: *mut u8,
    free: usize,
    written: usize,
}

impl Walked {
    pub(super) const NOTHING: Self = Self { region: ptr::null_mut(), free: 0, written: 0 };
}

// SAFETY: the region is an address for the system, and is not read or written.
unsafe impl Send for Walked {}

/// A bit for each region of an extent. They lie beside the heap, not within what is [`Huge`] of it: who opens a heap makes
/// that on the stack, of which a thread may have little. All zeros is a value: none.
#[derive(Debug)]
pub(super) struct Marks {
    /// Regions that are advised.
    advised: [Cell<u64>; REGIONS / 64],
    /// Those that have no huge pages since much of them was free.
    thinned: [Cell<u64>; REGIONS / 64],
}

#[cfg(test)]
impl Marks {
    /// None, for a test's own.
    pub(super) fn none() -> &'static Self {
        let none = || [const { Cell::new(0) }; REGIONS / 64];
        Box::leak(Box::new(Self { advised: none(), thinned: none() }))
    }
}

// SAFETY: they are reached through one `Huge`, and that under its heap's lock.
unsafe impl Sync for Marks {}

/// The huge pages of a heap's extent, as far as they are known. Invariants: `from` and `reached` are multiples
/// of [`HUGE`], and so is `start`; the mark of a region is set iff it is advised, `advised` counts them; none lies outside
/// `from..reached`.
#[derive(Debug)]
pub(super) struct Huge {
    /// From where on huge pages are considered; beyond all addresses: nowhere.
    from: usize,
    /// Up to where it was decided.
    reached: usize,
    /// The first region that lies in the extent as a whole; beyond all addresses: none is considered.
    start: usize,
    /// Where the extent ends at most.
    most: usize,
    marks: &'static Marks,
    advised: Cell<usize>,
    /// Whether the system is set to back all memory with huge pages.
    all: Cell<bool>,
    /// Bytes that may be of huge pages when the extent is extended next.
    allowed: Cell<usize>,
    /// Regions that are entered for other than pages of small blocks.
    regions: Kind,
    /// Large blocks that the extent is extended for.
    blocks: Kind,
    /// Whether the kernel was told of all of the slot.
    everywhere: bool,
}

impl Huge {
    /// The marks are zeros, and nobody else's.
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
        let regions = Kind::new();
        regions.ask_about(from.saturating_sub(2 * HUGE).max(start), HUGE);
        Self {
            from,
            reached: from,
            start,
            most: extent.end,
            marks,
            advised: Cell::new(0),
            all: Cell::new(ALL_ARE_HUGE.load(Relaxed)),
            allowed: Cell::new(0),
            regions,
            blocks: Kind::new(),
            everywhere: huge_pages.advice().is_some(),
        }
    }

    /// Whether the kernel may use huge pages below this address.
    pub(super) fn concerns(&self, end: usize) -> bool {
        end > self.from
    }

    /// Whether what lies there may be a huge page, as far as is known.
    pub(super) fn may_be_huge(&self, address: usize) -> bool {
        // As the system is set nothing is considered, and what it does is not known.
        let is_unknown = self.start > self.most;
        if self.everywhere || self.all.get() || is_unknown {
            return true;
        }
        address >= self.from && self.is_advised(address)
    }

    /// Says how many bytes of the extent may be of huge pages when it is next extended.
    #[inline(always)]
    pub(super) fn allow(&self, bytes: usize) {
        self.allowed.set(bytes);
    }

    /// Bytes advised.
    pub(super) fn advised(&self) -> usize {
        self.advised.get() * HUGE
    }

    /// The extent, accessible there, is used up to `end` now: decides on the regions it enters.
    pub(super) fn reach(&mut self, end: *mut u8) {
        while self.reached < end.addr() && !self.everywhere {
            let region = end.with_addr(self.reached);
            self.reached += HUGE;
            if self.reached > self.most {
                continue;
            }
            if self.advised() + HUGE <= self.allowed.get() || self.follows_dense(region) {
                self.advise(region, true);
            }
        }
    }

    /// Whether a region that is entered is to be of huge pages since its like is dense.
    fn follows_dense(&self, region: *mut u8) -> bool {
        // The one just left may not be written yet.
        let is_left = self.regions.asked.get().0 + HUGE < region.addr();
        if os::ADVISES_HUGE_PAGES && is_left {
            self.regions.ask(region);
        } else if !self.regions.is_dense() {
            return false;
        }
        self.regions.follows(region.addr(), HUGE)
    }

    /// The extent was extended for a large block: it is of huge pages, as far as they are considered, if its like is dense,
    /// or has none.
    #[cold]
    pub(super) fn enter(&self, block: *mut u8, len: usize) {
        if self.everywhere || !os::ADVISES_HUGE_PAGES {
            return self.take_back(block, len);
        }
        if !self.concerns(block.addr() + len) {
            return self.blocks.ask_about(block.addr(), len);
        }
        self.blocks.ask(block);
        match self.blocks.follows(block.addr(), len) {
            true => self.advise_all(block, len, true),
            false => self.take_back(block, len),
        }
    }

    /// A large block gets memory of the extent that others had: takes the advice back, unless such blocks are dense.
    #[inline]
    pub(super) fn enter_again(&self, block: *mut u8, len: usize) {
        if !self.blocks.is_dense() {
            self.take_back(block, len);
        }
    }

    #[inline]
    fn take_back(&self, block: *mut u8, len: usize) {
        if self.advised.get() > 0 && block.addr() + len > self.from {
            self.advise_all(block, len, false);
        }
    }

    /// Has the regions that a block touches be advised, or not.
    #[cold]
    fn advise_all(&self, block: *mut u8, len: usize, wanted: bool) {
        let first = block.addr().max(self.from) & !(HUGE - 1);
        // None that ends beyond the extent.
        let end = self.reached.min(block.addr() + len).min(self.most & !(HUGE - 1));
        for start in (first..end).step_by(HUGE) {
            if self.is_advised(start) != wanted {
                self.advise(block.with_addr(start), wanted);
            }
        }
    }

    /// A walk in address order meets whole OS pages of the extent that are free, and go back, so many bytes of which took
    /// memory: decides on the regions that lie behind it, of the last one if nothing is met any more. `walked` is what it met
    /// so far of the region where it is.
    pub(super) fn found_free(&self, walked: &mut Walked, free: Option<(Range<*mut u8>, usize)>) {
        let Some((Range { start, end }, mut written)) = free else { return self.decide(walked) };
        let mut at = start.with_addr(start.addr().max(self.start));
        while at < end {
            let region = at.with_addr(at.addr() & !(HUGE - 1));
            if region != walked.region {
                self.decide(walked);
                *walked = Walked { region, ..Walked::NOTHING };
            }
            let stop = end.min(region.wrapping_add(HUGE));
            let len = stop.addr() - at.addr();
            walked.free += len;
            // A few steps for each region: it does not matter in which part of one the bytes lie.
            walked.written += written.min(len);
            written -= written.min(len);
            at = stop;
        }
    }

    /// Takes huge pages from a region if that is [worth while](THIN), and gives them again once all of it is free; as it gives
    /// them to one that was [written all over](WRITTEN).
    fn decide(&self, &mut Walked { region, free, written }: &mut Walked) {
        let lies_within = self.start <= region.addr() && region.addr() < self.most & !(HUGE - 1);
        if free < THIN || !lies_within {
            return;
        }
        let (word, bit) = self.place(region.addr());
        let thinned = self.marks.thinned[word].get();
        let is_advised = self.is_advised(region.addr());
        if thinned & bit != 0 {
            if free >= HUGE {
                self.marks.thinned[word].set(thinned & !bit);
                ALL_THIN.fetch_sub(1, Relaxed);
                self.give_again(region);
            }
        } else if free >= HUGE {
            let follows = self.from <= region.addr() && !self.everywhere && !self.all.get();
            if follows && !is_advised && written >= WRITTEN {
                self.advise(region, true);
            }
        } else if (is_advised || !self.everywhere && self.all.get())
            && ALL_THIN.load(Relaxed) < MOST_THIN
        {
            self.marks.thinned[word].set(thinned | bit);
            ALL_THIN.fetch_add(1, Relaxed);
            if is_advised {
                self.advise(region, false);
            } else {
                // SAFETY: the region lies in the extent.
                unsafe { os::advise_huge_pages(region, HUGE, false) };
            }
        }
    }

    /// Gives a region huge pages again that it had by advice, or by the system's setting: then it counts as not advised.
    fn give_again(&self, region: *mut u8) {
        if self.all.get() {
            // SAFETY: the region lies in the extent.
            unsafe { os::advise_huge_pages(region, HUGE, true) };
        } else if !self.is_advised(region.addr()) {
            self.advise(region, true);
        }
    }

    /// As if the system did not back all memory with huge pages, whatever it does.
    #[cfg(test)]
    pub(super) fn only_where_advised(&self) {
        self.all.set(false);
    }

    fn advise(&self, region: *mut u8, wanted: bool) {
        // SAFETY: the region lies in the extent.
        unsafe { os::advise_huge_pages(region, HUGE, wanted) };
        let (word, bit) = self.place(region.addr());
        let advised = &self.marks.advised[word];
        advised.set(advised.get() ^ bit);
        self.advised.set(if wanted { self.advised.get() + 1 } else { self.advised.get() - 1 });
    }

    /// Whether the region that an address lies in is advised.
    fn is_advised(&self, address: usize) -> bool {
        let (word, bit) = self.place(address);
        self.marks.advised[word].get() & bit != 0
    }

    /// The word and the bit of the region that an address lies in.
    fn place(&self, start: usize) -> (usize, u64) {
        let region = (start - self.start) / HUGE % REGIONS;
        (region / 64, 1 << (region % 64))
    }
}

impl HugePages {
    /// What the kernel is told of a heap or a mapping before its first touch: nothing, or whether huge
    /// pages are wanted.
    pub(super) fn advice(self) -> Option<bool> {
        match self {
            Self::System | Self::Beyond(_) => None,
            Self::Never => Some(false),
            Self::Always => Some(true),
        }
    }

    /// Whether the kernel is told more once memory was written.
    pub(super) fn follows(self) -> bool {
        matches!(self, Self::Beyond(_))
    }
}

/// Whether memory is written all over, as far as a few of its OS pages show.
pub(super) fn is_dense(start: *mut u8, len: usize) -> bool {
    /// OS pages asked about.
    const ASKED: usize = 16;
    (1..=ASKED).all(|at| os::is_resident(start.wrapping_add((len - 1) / ASKED * at)))
}

#[cfg(all(test, not(miri)))]
mod tests;
