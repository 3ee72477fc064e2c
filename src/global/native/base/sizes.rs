//! Which quick list serves which size. The tables are settled once, before any thread has lists.
//! Two of them serve only the fast path, and change while blocks are
//! [sampled](crate::global::native::profile): then the table for frees names no list, and the one
//! for allocations names none for blocks larger than a trial, so that these take the slow path. The
//! table for frees also names no list once a small block is a mapping.
//!
//! A list is named by its [offset](crate::global::native::lists::quick) in the memory of a thread's
//! lists, the same in every thread; 0 names none.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize};

use super::mode;
use super::sealed::Sealed;
use crate::global::tuning::{CLASSES, GRANULE, HALF_UNIT, SMALL_MAX, Tuning, UNIT};

/// Table entries: one for each multiple of [`HALF_UNIT`].
const ENTRIES: usize = SMALL_MAX / HALF_UNIT + 1;

/// The entry of one unit. Entry 0, for blocks of no bytes, is the same, so that these are aligned to
/// a unit as well.
const OF_UNIT: usize = UNIT / HALF_UNIT;

/// Words of eight bytes from the start of a thread's lists to the first list.
pub(in crate::global::native) const FIRST: usize = 3954;
/// The same from each list to the next: its head, and its shadow's.
pub(in crate::global::native) const STEP: usize = 6;

/// The list of each multiple of [`HALF_UNIT`], and the size of its blocks in bytes.
#[derive(Debug)]
struct Tables {
    /// The offset of the list that serves each multiple; 0 if it is not small.
    offsets: [AtomicU16; ENTRIES],
    /// As `offsets`, for the fast path; or 0. Entries have 32 bits: a narrower load would need an
    /// instruction to widen it.
    popped: [AtomicU32; ENTRIES],
    /// As `offsets`, for blocks that are freed with their size; or all 0, or [`LOOKED_UP`].
    freed: [AtomicU32; ENTRIES],
    /// The size of the blocks on that list, bytes.
    sizes: [AtomicU16; ENTRIES],
    /// The size above which blocks try the [medium](crate::global::native::lists::medium) lists at
    /// once; `usize::MAX` if none do.
    most_small: AtomicUsize,
}

/// The lists of the default tuning at first. Where these are in force, no process writes to the
/// tables, so all share the pages of the program's file.
static TABLES: Sealed<Tables> = Sealed::new(Tables::of_default());

impl Tables {
    /// Returns the tables of the default tuning.
    const fn of_default() -> Self {
        let most = Tuning::new().pages.ffcrossover;
        let mut tables = Self {
            offsets: [const { AtomicU16::new(0) }; ENTRIES],
            popped: [const { AtomicU32::new(0) }; ENTRIES],
            freed: [const { AtomicU32::new(0) }; ENTRIES],
            sizes: [const { AtomicU16::new(0) }; ENTRIES],
            most_small: AtomicUsize::new(most),
        };
        let (mut entry, mut class) = (1, 0);
        while entry * HALF_UNIT <= most {
            if entry * HALF_UNIT > CLASSES[class] as usize {
                class += 1;
            }
            tables.set(entry, offset_of_list(class), CLASSES[class] as u16);
            if entry == OF_UNIT {
                tables.set(0, offset_of_list(class), CLASSES[class] as u16);
            }
            entry += 1;
        }
        tables
    }

    /// Sets an entry.
    const fn set(&mut self, entry: usize, offset: u32, size: u16) {
        self.offsets[entry] = AtomicU16::new(offset as u16);
        self.popped[entry] = AtomicU32::new(offset);
        self.freed[entry] = AtomicU32::new(offset);
        self.sizes[entry] = AtomicU16::new(size);
    }
}

/// Returns the offset of the list of a class.
pub(in crate::global::native) const fn offset_of_list(class: usize) -> u32 {
    (FIRST + class * STEP) as u32
}

/// Makes the tables read-only.
pub(in crate::global::native) fn seal() {
    TABLES.seal();
}

/// Sets the lists of these classes, block sizes in bytes below 64 KiB, for all sizes up to `most`
/// that they serve, and none for larger ones.
pub(in crate::global::native) fn set_classes(classes: impl Iterator<Item = usize>, most: usize) {
    let mut from = 1;
    for (class, size) in classes.enumerate() {
        let end = (size.min(most) / HALF_UNIT + 1).clamp(from, ENTRIES);
        set_entries(from..end, size, offset_of_list(class));
        from = end;
    }
    set_entries(from..ENTRIES, 0, 0);
    let of_unit = TABLES.offsets[OF_UNIT].load(Relaxed).into();
    set_entries(0..1, TABLES.sizes[OF_UNIT].load(Relaxed).into(), of_unit);
}

/// Sets these entries, unless they have these values already. Only the first and the last are
/// compared: from entry 1 on the tables ascend, zeros last, so if both agree, all do.
fn set_entries(entries: Range<usize>, size: usize, offset: u32) {
    // Borrowed once: Miri takes milliseconds for each reference to all tables.
    let tables: &Tables = &TABLES;
    let is_set = |entry: usize| {
        let has = (tables.sizes[entry].load(Relaxed), tables.offsets[entry].load(Relaxed));
        has == (size as u16, offset as u16)
    };
    if entries.is_empty() || is_set(entries.start) && is_set(entries.end - 1) {
        return;
    }
    for entry in entries {
        tables.sizes[entry].store(size as u16, Relaxed);
        tables.offsets[entry].store(offset as u16, Relaxed);
        tables.popped[entry].store(offset, Relaxed);
        allow_freed(&tables.freed[entry], offset);
    }
}

/// In the table of freed sizes, for every size, once a small block may be outside all heaps: each
/// free then looks at the block's address. As an offset it names the second word of the dummy list,
/// which is all zeros as well, so a push fails there. (Offsets of lists are even.)
pub(in crate::global::native) const LOOKED_UP: u32 = 1;

/// Lets blocks of the sizes of an entry in the table of freed sizes be freed onto their list,
/// unless they are [looked up](LOOKED_UP).
fn allow_freed(entry: &AtomicU32, offset: u32) {
    let allow = |list: u32| (list != LOOKED_UP).then_some(offset);
    let _ = entry.fetch_update(Relaxed, Relaxed, allow);
}

/// Has blocks that are freed with a small size looked up by their addresses for good. Call before a
/// small block is put in no heap. Hardened mode always looks.
#[cold]
pub(in crate::global::native) fn look_up_freed() {
    if !mode::is_hardened() {
        TABLES.freed.iter().for_each(|entry| entry.store(LOOKED_UP, Relaxed));
    }
}

/// No size up to this one, in bytes, has a medium list.
pub(in crate::global::native) const NEVER_MEDIUM: usize = 14 << 10;

/// Sets whether medium blocks try the medium lists at once, or take the slow path. Called once the
/// tables are written.
pub(in crate::global::native) fn set_medium_fast_path(enabled: bool) {
    let served = TABLES.offsets.partition_point(|entry| entry.load(Relaxed) > 0);
    let most = served.saturating_sub(1) * HALF_UNIT;
    let most = if enabled { most.max(NEVER_MEDIUM) } else { usize::MAX };
    if most_small() != most {
        TABLES.most_small.store(most, Relaxed);
    }
}

/// Returns the size above which blocks try the medium lists at once; `usize::MAX` if none do.
#[inline(always)]
pub(in crate::global::native) fn most_small() -> usize {
    TABLES.most_small.load(Relaxed)
}

/// Makes frees with a size, and allocations of more than `most` bytes, take the slow path. Called
/// by one thread at a time, and only while the tables are not [read-only](seal).
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) fn disable_fast_paths(most: usize) {
    set_medium_fast_path(false);
    for entry in 0..ENTRIES {
        TABLES.freed[entry].fetch_and(LOOKED_UP, Relaxed);
        if entry * HALF_UNIT > most {
            TABLES.popped[entry].store(0, Relaxed);
        }
    }
}

/// Makes all blocks take the fast path again. Called under the same conditions.
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) fn enable_fast_paths() {
    set_medium_fast_path(true);
    for (entry, offset) in TABLES.offsets.iter().enumerate() {
        let offset = offset.load(Relaxed).into();
        allow_freed(&TABLES.freed[entry], offset);
        TABLES.popped[entry].store(offset, Relaxed);
    }
}

/// Returns the entry that serves `size` bytes, aligned to `align`, at most [`UNIT`]. The entries of
/// whole units name classes of whole units, whose blocks are aligned to one.
#[allow(
    clippy::manual_div_ceil,
    reason = "it would allow for an overflow, in two instructions more"
)]
#[inline(always)]
const fn entry(size: usize, align: usize) -> usize {
    debug_assert!(size <= SMALL_MAX && align <= UNIT);
    if align <= HALF_UNIT {
        (size + (HALF_UNIT - 1)) / HALF_UNIT
    } else {
        (size + (UNIT - 1)) / UNIT * OF_UNIT
    }
}

/// Returns the list for blocks of `size` bytes, at most [`SMALL_MAX`], at multiples of [`UNIT`].
#[inline(always)]
pub(in crate::global::native) fn offset(size: usize) -> u32 {
    offset_up_to_unit(size, UNIT)
}

/// As [`offset`], at multiples of `align`, at most a unit.
#[inline(always)]
pub(in crate::global::native) fn offset_up_to_unit(size: usize, align: usize) -> u32 {
    TABLES.offsets.get(entry(size, align)).map_or(0, |list| list.load(Relaxed).into())
}

/// As [`offset_up_to_unit`], for popping a block on the fast path; 0 names the slow path.
#[inline(always)]
pub(in crate::global::native) fn offset_of_popped(size: usize, align: usize) -> u32 {
    TABLES.popped.get(entry(size, align)).map_or(0, |list| list.load(Relaxed))
}

/// As [`offset_up_to_unit`], for a block that is freed with its size and alignment; 0 and
/// [`LOOKED_UP`] name the slow path.
#[inline(always)]
pub(in crate::global::native) fn offset_of_freed(size: usize, align: usize) -> u32 {
    TABLES.freed.get(entry(size, align)).map_or(0, |list| list.load(Relaxed))
}

/// As [`offset`], for blocks of any size and alignment; 0 if they are not small.
pub(in crate::global::native) fn offset_at_any(size: usize, align: usize, page_size: usize) -> u32 {
    size_aligned(size, align, page_size).map_or(0, |size| offset_up_to_unit(size, HALF_UNIT))
}

/// As [`offset_of_popped`], at multiples of any `align`.
#[inline(always)]
pub(in crate::global::native) fn offset_of_popped_at_any(size: usize, align: usize) -> u32 {
    size_aligned(size, align, GRANULE).map_or(0, |size| offset_of_popped(size, HALF_UNIT))
}

/// Returns a size whose class is the least that has blocks of this size and alignment, if the
/// blocks are small. Blocks start at multiples of their size in pages aligned to the page size,
/// `page_size` or more, so they are aligned to `align` iff their size is a multiple of it.
#[inline(always)]
fn size_aligned(size: usize, align: usize, page_size: usize) -> Option<usize> {
    // A block of no bytes is one of a unit, as by the tables.
    let mut wanted = if size == 0 { UNIT } else { size };
    while wanted <= SMALL_MAX && align <= page_size {
        let class = TABLES.sizes[wanted.div_ceil(HALF_UNIT)].load(Relaxed) as usize;
        if class == 0 || class & (align - 1) == 0 {
            return (class > 0).then_some(wanted);
        }
        wanted = (class + 1).next_multiple_of(align);
    }
    None
}

/// Returns the size of the blocks of a list, or of its shadow, in bytes, for callers that may have
/// no lists.
pub(in crate::global::native) fn class_size(offset: u32) -> usize {
    let is_before = |entry: u32| entry > 0 && entry + STEP as u32 <= offset;
    let (offsets, sizes) = (&TABLES.offsets[1..], &TABLES.sizes[1..]);
    let index = offsets.partition_point(|entry| is_before(entry.load(Relaxed).into()));
    sizes[index].load(Relaxed) as usize
}

/// Returns the class of the blocks of a list, or of its shadow, for callers that may have no lists.
pub(in crate::global::native) fn class(offset: u32) -> u32 {
    ((offset as usize).saturating_sub(FIRST) / STEP) as u32
}

/// Calls `visit` with the offset of every list.
pub(in crate::global::native) fn for_each(mut visit: impl FnMut(u32)) {
    let mut entry = 1;
    // The entries of sizes that are not small are 0, and come last.
    while let Some(offset) = TABLES.offsets.get(entry).map(|offset| offset.load(Relaxed))
        && offset > 0
    {
        visit(offset.into());
        entry = TABLES.sizes[entry].load(Relaxed) as usize / HALF_UNIT + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::Pagewise;
    use crate::global::native::lists::registry;
    use crate::global::tuning::{unit_of, unit_of_classes};
    use crate::sizemap::SizeMap;

    /// While no block is sampled, blocks are popped and freed by the list of their size.
    #[cfg(not(miri))]
    #[test]
    fn every_size_is_freed_where_it_was_popped() {
        crate::os::alone::passes("global::native::base::sizes::tests::lists");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn lists() {
        let sizes = served();
        let most = sizes[sizes.len() - 1];
        assert_eq!(most_small(), most);
        for size in 0..=SMALL_MAX {
            for align in [1, HALF_UNIT, UNIT] {
                let list = offset_up_to_unit(size, align);
                let fast = (offset_of_popped(size, align), offset_of_freed(size, align));
                assert_eq!(fast, (list, list), "{size} at {align}");
                assert_eq!(list > 0, size <= most, "{size} at {align}");
                let align = if size == 0 { UNIT } else { align };
                let serves = |&&served: &&usize| size <= served && served.is_multiple_of(align);
                let serves = sizes.iter().find(serves);
                assert!(list == 0 || Some(&class_size(list)) == serves, "{size} at {align}");
                // (Regression: blocks of no bytes had another list on the slow path.)
                let slow = offset_at_any(size, align, Tuning::new().pages.page_size);
                assert_eq!(slow, list, "{size} at {align}");
            }
            for align in [32, 64, 4096, GRANULE] {
                let list = offset_at_any(size, align, Tuning::new().pages.page_size);
                assert_eq!(offset_of_popped_at_any(size, align), list, "{size} at {align}");
            }
            assert_eq!(offset_of_popped_at_any(size, 2 * GRANULE), 0);
        }
    }

    /// While blocks are sampled, the fast path frees none by its size, and pops only those of up to
    /// a trial; afterwards it serves all again.
    #[cfg(all(feature = "profiler", target_os = "linux", not(miri)))]
    #[test]
    fn fast_paths_are_disabled_while_blocks_are_sampled() {
        crate::os::alone::passes("global::native::base::sizes::tests::disabled");
    }

    #[cfg(all(feature = "profiler", target_os = "linux", not(miri)))]
    #[test]
    #[ignore = "in a process of its own"]
    fn disabled() {
        const TRIAL: usize = 1024;
        let sizes = served();
        let lists = |size: usize| (offset_of_popped(size, UNIT), offset_of_freed(size, UNIT));
        disable_fast_paths(TRIAL);
        assert_eq!(most_small(), usize::MAX);
        for size in 0..=SMALL_MAX {
            let popped = if size <= TRIAL { offset(size) } else { 0 };
            assert_eq!(lists(size), (popped, 0), "{size}");
        }
        enable_fast_paths();
        assert_eq!(Some(&most_small()), sizes.last());
        assert!((0..=SMALL_MAX).all(|size| lists(size) == (offset(size), offset(size))));
    }

    /// Another tuning's lists take the place of those that the tables have at first, for larger
    /// sizes or fewer; sizes that are looked up stay so.
    #[cfg(not(miri))]
    #[test]
    fn the_tables_are_those_of_the_tuning() {
        crate::os::alone::passes("global::native::base::sizes::tests::more_classes");
        crate::os::alone::passes("global::native::base::sizes::tests::fewer_classes");
        crate::os::alone::passes("global::native::base::sizes::tests::half_classes");
        crate::os::alone::passes("global::native::base::sizes::tests::no_half_classes");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn more_classes() {
        serves(SizeMap::Linear, 20 << 10);
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn fewer_classes() {
        look_up_freed();
        serves(SizeMap::Classes(&[64, 128, 1024, 4000]), 1024);
        assert!((0..=SMALL_MAX).all(|size| offset_of_freed(size, HALF_UNIT) == LOOKED_UP));
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn half_classes() {
        serves(SizeMap::Classes(&[16, 24, 32, 40, 208, 256]), 256);
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn no_half_classes() {
        serves(SizeMap::Classes(&[16, 40, 48, 56, 256]), 256);
    }

    /// Classes that are odd multiples of half a unit come right behind the class before, and there
    /// are no more classes than a thread's lists have room for.
    #[test]
    fn half_units_are_a_limited_choice() {
        let whole: Vec<u32> = (1..=SMALL_MAX / UNIT).map(|units| (units * UNIT) as u32).collect();
        let one_more: Vec<u32> = [HALF_UNIT as u32].into_iter().chain(whole.clone()).collect();
        let choices: [(&[u32], usize); 8] = [
            (&whole, HALF_UNIT),
            (&one_more, UNIT),
            (&[8, 16, 24, 32, 40, 48, 56], UNIT),
            (&[8, 24], UNIT),
            (&[16, 20], UNIT),
            (&[4, 8], UNIT),
            (&[8], HALF_UNIT),
            (CLASSES, HALF_UNIT),
        ];
        for (classes, unit) in choices {
            assert_eq!(unit_of_classes(classes), unit, "{classes:?}");
        }
        assert_eq!(unit_of(&SizeMap::Linear), UNIT);
    }

    /// Checks the tables of a process that opens with this SIZEMAP.
    #[cfg(not(miri))]
    fn serves(sizemap: SizeMap, ffcrossover: usize) {
        let mut tuning = Tuning::new();
        (tuning.pages.sizemap, tuning.pages.ffcrossover) = (sizemap, ffcrossover);
        let pagewise = Pagewise::with(tuning);
        // SAFETY: the block is freed once.
        unsafe { pagewise.free(pagewise.allocate(1)) };
        let pages = tuning.pages;
        let classes = sizemap.classes(unit_of(&sizemap), ffcrossover, pages.page_size);
        let classes: Vec<usize> = classes.collect();
        for (size, align) in (1..=SMALL_MAX).flat_map(|size| [(size, HALF_UNIT), (size, UNIT)]) {
            let holds = |&least: &usize| least >= size && least.is_multiple_of(align);
            let class = classes.iter().position(holds).filter(|_| size <= ffcrossover);
            let list = class.map_or(0, offset_of_list);
            let found = (offset_up_to_unit(size, align), offset_of_popped(size, align));
            assert_eq!(found, (list, list), "{size} at {align}");
            assert!(class.is_none_or(|class| class_size(list) == classes[class]));
            assert!(class.is_none_or(|class| self::class(list) as usize == class));
            let freed = offset_of_freed(size, align);
            assert!(freed == list || freed == LOOKED_UP, "{size} at {align}");
        }
        assert_eq!(most_small(), ffcrossover.max(NEVER_MEDIUM));
    }

    /// Returns the sizes of all lists in ascending order.
    fn served() -> Vec<usize> {
        // The first allocation writes the tables.
        registry::heap_for_test();
        let mut sizes = Vec::new();
        for_each(|offset| sizes.push(class_size(offset)));
        sizes
    }

    #[test]
    fn a_size_is_served_by_the_least_list_that_holds_it() {
        let served = served();
        assert!(served.is_sorted_by(|a, b| a < b) && served[0] <= 2 * UNIT);
        let most = Tuning::new().pages.ffcrossover;
        for (size, align) in (1..=SMALL_MAX).flat_map(|size| [(size, HALF_UNIT), (size, UNIT)]) {
            let list = offset_up_to_unit(size, align);
            let holds = |&&class: &&usize| class >= size && class.is_multiple_of(align);
            match served.iter().find(holds).filter(|_| size <= most) {
                Some(&class) => {
                    assert_eq!(class_size(list), class, "{size} bytes at {align}");
                    let index = served.iter().position(|&other| other == class);
                    assert_eq!(Some(self::class(list) as usize), index, "{size} bytes");
                }
                None => assert_eq!(list, 0, "{size} bytes at {align}"),
            }
        }
    }

    #[test]
    fn an_aligned_size_is_served_by_the_least_list_of_multiples() {
        let served = served();
        let page = Tuning::new().pages.page_size;
        for log2 in 0..20 {
            let align = 1 << log2;
            for size in (0..SMALL_MAX + 100).step_by(23) {
                let list = offset_at_any(size, align, page);
                let holds = |&&class: &&usize| class >= size && class.is_multiple_of(align);
                let least = served.iter().find(holds).filter(|_| align <= page);
                let found = (list != 0).then(|| class_size(list));
                // A size above FFCROSSOVER has no list.
                assert!(size == 0 || found.is_none() || found == least.copied(), "{size}");
                if size <= served[served.len() - 1] && align <= UNIT {
                    // Without bytes, it is a block of a unit.
                    let least = if size == 0 { Some(&UNIT) } else { least };
                    assert_eq!(found, least.copied(), "{size} at {align}");
                }
            }
        }
    }
}
