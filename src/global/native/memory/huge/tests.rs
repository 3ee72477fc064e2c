//! Which regions are advised, and when the advice is taken back.

use super::*;

/// The longest slot, but at most 512 MiB.
const EXTENT: usize = if LARGEST_SLOT < 512 << 20 { LARGEST_SLOT } else { 512 << 20 };

/// Returns unused addresses for an extent, aligned to a huge page.
fn extent() -> *mut u8 {
    let memory = os::reserve(EXTENT + HUGE).expect("there are addresses");
    memory.with_addr(memory.addr().next_multiple_of(HUGE))
}

/// Returns the indexes of the regions that are advised.
fn advised(huge: &Huge, extent: *mut u8) -> Vec<usize> {
    let regions = EXTENT / HUGE;
    let is_advised = |&region: &usize| {
        let start = extent.addr() + region * HUGE;
        start >= huge.from && huge.is_advised(start)
    };
    let found: Vec<_> = (0..regions).filter(is_advised).collect();
    assert_eq!(huge.advised(), found.len() * HUGE);
    found
}

#[test]
fn pages_of_small_blocks_beyond_the_first_bytes_are_advised() {
    let extent = extent();
    let end = |regions: usize| extent.wrapping_add(regions * HUGE);
    let most = end(20).addr() + 100;
    let mut huge = Huge::new(HugePages::Beyond(3 * HUGE - 100), extent.addr()..most, Marks::none());
    assert!(!huge.may_be_huge_below(end(3).addr()) && huge.may_be_huge_below(end(3).addr() + 1));

    // Nothing is allowed at first. Regions entered then are not advised later.
    huge.reach(end(4).wrapping_add(1));
    assert!(advised(&huge, extent).is_empty());
    // As many regions as are allowed.
    huge.allow(3 * HUGE - 1);
    huge.reach(end(4).wrapping_add(HUGE));
    assert!(advised(&huge, extent).is_empty());
    huge.reach(end(9));
    assert_eq!(advised(&huge, extent), [5, 6]);
    huge.reach(end(8));
    assert_eq!(advised(&huge, extent), [5, 6]);
    huge.allow(0);
    huge.reach(end(12));
    assert_eq!(advised(&huge, extent), [5, 6]);
    // Not the region that ends beyond the extent.
    huge.allow(usize::MAX);
    huge.reach(end(20).wrapping_add(50));
    assert_eq!(advised(&huge, extent), [5, 6, 12, 13, 14, 15, 16, 17, 18, 19]);

    // Only advised regions may be huge pages.
    huge.pretend_not_all_huge();
    let may_be_huge = |huge: &Huge, region: usize| {
        let ends =
            [end(region), end(region + 1).wrapping_sub(1)].map(|at| huge.may_be_huge(at.addr()));
        assert_eq!(ends[0], ends[1], "{region}");
        ends[0]
    };
    let found: Vec<_> = (0..20).filter(|&region| may_be_huge(&huge, region)).collect();
    assert_eq!(found, [5, 6, 12, 13, 14, 15, 16, 17, 18, 19]);
    huge.all_are_huge.set(true);
    assert!((0..20).all(|region| may_be_huge(&huge, region)));
    huge.pretend_not_all_huge();

    // A large block takes the advice from the regions that it touches.
    huge.unadvise(end(6).wrapping_sub(100), 100);
    assert_eq!(advised(&huge, extent), [6, 12, 13, 14, 15, 16, 17, 18, 19]);
    huge.unadvise(end(13).wrapping_add(HUGE - 16), HUGE + 17);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17, 18, 19]);
    huge.unadvise(extent, 3 * HUGE);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17, 18, 19]);
    huge.unadvise(end(18), 40 * HUGE);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17]);
    huge.unadvise(extent, EXTENT);
    assert!(advised(&huge, extent).is_empty());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// Bytes of an extent before the regions of a test. Behind so many, one sample decides on as many
/// regions, or blocks of two regions, as it ever does.
#[cfg(target_os = "linux")]
const AHEAD: usize = SAMPLE_ONE_IN as usize * SAMPLED_PART * 2 * HUGE;

/// Returns the huge pages of an extent that begins [`AHEAD`] bytes before `start`, and may reach
/// `end`. Regions are advised from `from` bytes behind `start` on.
#[cfg(target_os = "linux")]
fn long_extent(start: *mut u8, from: usize, end: *mut u8) -> Huge {
    let all = start.addr() - AHEAD..end.addr();
    Huge::new(HugePages::Beyond(AHEAD + from), all, Marks::none())
}

/// Returns `count` accessible regions that are not written, aligned to a huge page, and the
/// mapping.
#[cfg(target_os = "linux")]
fn regions(count: usize) -> (*mut u8, (*mut u8, usize)) {
    let all = (count + 1) * HUGE;
    let memory = os::allocate(all).expect("there is memory");
    (memory.with_addr(memory.addr().next_multiple_of(HUGE)), (memory, all))
}

/// Regions get huge pages if the sample before them is written all over. One in some goes without,
/// and is the next sample once the extent has passed its neighbour.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no huge pages are asked for there")]
fn regions_like_a_dense_one_are_advised() {
    let (extent, memory) = regions(32);
    let end = |regions: usize| extent.wrapping_add(regions * HUGE);
    // SAFETY: the regions are accessible.
    let write = |region: usize| unsafe { end(region).write_bytes(1, HUGE) };
    let mut huge = long_extent(extent, 3 * HUGE, end(30).wrapping_add(100));
    let mut reaches = |region: usize, expected: &[usize]| {
        huge.reach(end(region).wrapping_add(1));
        assert_eq!(advised(&huge, extent), expected, "{region}");
    };
    // The first sample is the last but one before them, the next is their first.
    write(0);
    reaches(3, &[]);
    reaches(4, &[]);
    write(3);
    reaches(6, &[5, 6]);
    let mut found: Vec<_> = (5..20).collect();
    reaches(19, &found);
    reaches(20, &found);
    // The old sample holds for the neighbour of a region without.
    found.push(21);
    reaches(21, &found);
    reaches(22, &found);
    reaches(24, &found);
    write(24);
    reaches(25, &found);
    found.extend([26, 27]);
    reaches(27, &found);
    // Not the region that ends beyond the extent.
    found.extend([28, 29]);
    reaches(30, &found);
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// The first heaps get huge pages after fewer bytes.
#[test]
fn the_first_heaps_begin_earlier() {
    let of_heap = |slot| HugePages::Beyond(8 << 20).of_heap(slot);
    let begin = [2, 4, 6, 8, 8].map(|mib| HugePages::Beyond(mib << 20));
    assert_eq!([0, 1, 2, 3, 100].map(of_heap), begin);
    for other in [HugePages::System, HugePages::Never, HugePages::Always] {
        assert_eq!(other.of_heap(0), other);
    }
}

/// One sample decides on no more than a part of the extent, and on one region at least. (Regression:
/// it decided on fifteen regions of twenty, which took 30 MiB though nothing more was written.)
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no huge pages are asked for there")]
fn one_sample_decides_on_a_part_of_the_extent() {
    const WRITTEN: usize = 12;
    let (extent, memory) = regions(32);
    let end = |regions: usize| extent.wrapping_add(regions * HUGE);
    let all = extent.addr()..end(32).addr();
    let mut huge = Huge::new(HugePages::Beyond(2 * HUGE), all, Marks::none());
    for region in 0..WRITTEN {
        huge.reach(end(region + 1));
        // SAFETY: the region is accessible.
        unsafe { end(region).write_bytes(1, HUGE) };
    }
    // Behind two regions, one of two; behind four, three of four; behind eight, four of five.
    assert_eq!(advised(&huge, extent), [2, 4, 5, 6, 8, 9, 10, 11]);
    // Nothing more is written. Region 7 is the last sample that was, and decides up to the next,
    // 15, and for its neighbour.
    huge.reach(end(32));
    assert_eq!(advised(&huge, extent), [2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 16]);
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// A large block gets huge pages if the last one without is written all over. One in some goes
/// without.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no huge pages are asked for there")]
fn large_blocks_like_a_dense_one_are_advised() {
    const LEN: usize = HUGE + HUGE / 2;
    let (extent, memory) = regions(60);
    let block = |index: usize| extent.wrapping_add(index * 2 * HUGE);
    let mut huge = long_extent(extent, 2 * HUGE, block(30));
    let mut enters = |index: usize, is: bool| {
        huge.reach(block(index).wrapping_add(LEN));
        huge.advise_new_block(block(index), LEN);
        let found = advised(&huge, extent);
        let expected = [2 * index, 2 * index + 1].map(|region| found.contains(&region));
        assert_eq!(expected, [is; 2], "{index}: {found:?}");
    };
    enters(0, false);
    enters(1, false);
    // SAFETY: the blocks are accessible.
    unsafe { block(1).write_bytes(1, LEN) };
    (2..17).for_each(|index| enters(index, true));
    enters(17, false);
    enters(18, false);
    // SAFETY: as above.
    unsafe { block(18).write_bytes(1, LEN - HUGE / 4) };
    enters(19, false);
    // SAFETY: as above.
    unsafe { block(19).write_bytes(1, LEN) };
    enters(20, true);

    // While large blocks are dense, one in memory of others leaves the advice in place.
    huge.unadvise_reused_block(block(20), LEN);
    assert_eq!(advised(&huge, extent).len(), 2 * 16);
    huge.reach(block(22).wrapping_add(LEN));
    (21..23).for_each(|index| huge.advise_new_block(block(index), LEN));
    // SAFETY: as above.
    unsafe { os::discard(block(19), LEN) };
    huge.advise_new_block(block(23), LEN);
    huge.unadvise_reused_block(block(20), LEN);
    assert_eq!(advised(&huge, extent).len(), 2 * 17);

    // Nothing is advised where huge pages are not considered, or the whole slot has the advice.
    for huge_pages in [HugePages::System, HugePages::Never, HugePages::Always] {
        let huge = Huge::new(huge_pages, extent.addr()..block(30).addr(), Marks::none());
        (1..4).for_each(|index| huge.advise_new_block(block(index), LEN));
        assert!(advised(&huge, extent).is_empty(), "{huge_pages:?}");
    }
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// A block that is partly in regions that are considered gets huge pages there: not before them,
/// and not in a region that ends beyond the extent.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no huge pages are asked for there")]
fn only_the_regions_that_are_considered_are_advised() {
    let (extent, memory) = regions(8);
    let at = |halves: usize| extent.wrapping_add(halves * HUGE / 2);
    let mut huge = long_extent(extent, 3 * HUGE, at(13));
    huge.reach(at(13));
    huge.advise_new_block(at(0), HUGE);
    assert!(advised(&huge, extent).is_empty(), "nothing is known");
    // SAFETY: the memory is accessible.
    unsafe { at(0).write_bytes(1, HUGE) };
    huge.advise_new_block(at(3), 2 * HUGE);
    assert_eq!(advised(&huge, extent), [3]);
    huge.advise_new_block(at(9), 2 * HUGE);
    assert_eq!(advised(&huge, extent), [3, 4, 5]);
    // Where no region is complete, none is considered.
    let huge = Huge::new(HugePages::Beyond(0), at(0).addr() + 100..at(2).addr(), Marks::none());
    huge.pretend_not_all_huge();
    assert!(!huge.may_be_huge(at(0).addr() + 100));
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// Each of many regions is tracked by itself.
#[test]
fn each_region_is_unadvised_by_itself() {
    let extent = extent();
    let at = |region: usize| extent.wrapping_add(region * HUGE);
    let mut huge =
        Huge::new(HugePages::Beyond(0), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.allow(EXTENT);
    huge.reach(extent.wrapping_add(EXTENT));
    let mut left: Vec<_> = (0..EXTENT / HUGE).collect();
    let regions = [70, 6, 64, 127, 128, 0, 255];
    for region in regions.into_iter().filter(|&region| region < EXTENT / HUGE) {
        huge.unadvise(at(region), HUGE);
        left.retain(|&other| other != region);
        assert_eq!(advised(&huge, extent), left);
    }
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

#[test]
fn without_beyond_no_region_is_advised_by_itself() {
    let extent = extent();
    for (huge_pages, concerned) in
        [(HugePages::System, false), (HugePages::Never, false), (HugePages::Always, true)]
    {
        let mut huge =
            Huge::new(huge_pages, extent.addr() + 100..extent.addr() + EXTENT, Marks::none());
        assert_eq!(huge.may_be_huge_below(extent.addr() + 1), concerned, "{huge_pages:?}");
        huge.allow(usize::MAX);
        huge.reach(extent.wrapping_add(EXTENT));
        assert!(advised(&huge, extent).is_empty(), "{huge_pages:?}");
        assert!(!huge_pages.is_adaptive());
        // What the kernel does by itself is unknown.
        assert!(huge.may_be_huge(extent.addr() + 1));
    }
    assert!(HugePages::Beyond(0).is_adaptive());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// A block is dense if OS pages all over it are resident.
#[test]
fn a_block_is_dense_if_it_is_written_all_over() {
    const LEN: usize = 16 << 20;
    let memory = os::allocate(LEN).expect("there is memory");
    assert!(!is_dense(memory, LEN));
    // SAFETY: the memory is this long.
    unsafe { memory.write_bytes(1, LEN / 2) };
    assert!(!is_dense(memory, LEN) && is_dense(memory, LEN / 2));
    // SAFETY: as above.
    unsafe { memory.add(LEN / 2).write_bytes(1, LEN / 2) };
    assert!(is_dense(memory, LEN));
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory, LEN) };
}

/// Memory of which one half is written, in pieces at equal distances, is not dense, as blocks are
/// that begin at multiples of twice their size. (Regression: that of aligned blocks of 64 KiB was.)
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "huge pages cannot be refused there")]
fn memory_written_here_and_there_is_not_dense() {
    let page = os::page_size();
    for piece in (0..).map(|shift| page << shift).take_while(|&piece| piece < HUGE) {
        for first in [0, piece] {
            let memory = os::allocate(HUGE).expect("there is memory");
            // SAFETY: the memory is the test's own, and is not used after its end.
            unsafe {
                os::advise_huge_pages(memory, HUGE, false);
                for at in (first..HUGE).step_by(2 * piece) {
                    memory.add(at).write_bytes(1, piece);
                }
                assert!(!is_dense(memory, HUGE), "pieces of {piece} bytes from {first} on");
                memory.write_bytes(1, HUGE);
                assert!(is_dense(memory, HUGE));
                os::release(memory, HUGE);
            }
        }
    }
}

/// A mostly free region gets no huge pages until all of it is free, so that memory stays away.
#[test]
fn thin_regions_are_taken_back_until_they_are_free() {
    let extent = extent();
    let at = |eighths: usize| extent.wrapping_add(eighths * HUGE / 8);
    let mut huge =
        Huge::new(HugePages::Beyond(HUGE), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.pretend_not_all_huge();
    huge.allow(9 * HUGE);
    huge.reach(at(10 * 8));
    assert_eq!(advised(&huge, extent), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let walk = |pieces: &[Range<*mut u8>]| {
        let mut walked = Walked::NOTHING;
        pieces.iter().for_each(|piece| huge.note_free(&mut walked, Some((piece.clone(), 0))));
        huge.note_free(&mut walked, None);
        advised(&huge, extent)
    };
    assert_eq!(walk(&[]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Little of region 1 is free, an eighth of 2 in two pieces, half of 3, all of 4 and 5, an
    // eighth of 6, and seven eighths of 9.
    let little = at(9)..at(10).wrapping_sub(4096);
    let two = [at(17)..at(17).wrapping_add(4096), at(18)..at(19).wrapping_sub(4096)];
    let [first, second] = two;
    let pieces = [little, first, second, at(28)..at(49), at(73)..at(80)];
    assert_eq!(walk(&pieces), [1, 4, 5, 7, 8]);
    // A region without advice is left alone, as is one that a large block has taken.
    assert_eq!(walk(&[at(0)..at(8), at(96)..at(104)]), [1, 4, 5, 7, 8]);
    huge.unadvise(at(8 * 8), HUGE);
    assert_eq!(walk(&[at(64)..at(72)]), [1, 4, 5, 7]);
    // First half of a thin region is in use again, then nothing of it.
    assert_eq!(walk(&[at(24)..at(28)]), [1, 4, 5, 7]);
    assert_eq!(walk(&[at(16)..at(20), at(20)..at(32), at(72)..at(80)]), [1, 2, 3, 4, 5, 7, 9]);
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// A region that was written all over gets huge pages once it is free: if most of its bytes were
/// resident, in whatever steps they are met, and huge pages are considered there.
#[test]
fn written_regions_are_advised_once_they_are_free() {
    let extent = extent();
    let at = |eighths: usize| extent.wrapping_add(eighths * HUGE / 8);
    let most = extent.addr() + 20 * HUGE + 100;
    let mut huge = Huge::new(HugePages::Beyond(4 * HUGE), extent.addr()..most, Marks::none());
    huge.pretend_not_all_huge();
    huge.reach(at(20 * 8));
    assert!(advised(&huge, extent).is_empty());
    let walk = |huge: &Huge, pieces: &[(Range<usize>, usize)]| {
        let mut walked = Walked::NOTHING;
        for (piece, written) in pieces {
            let piece = at(piece.start)..at(piece.end);
            huge.note_free(&mut walked, Some((piece, written * HUGE / 8)));
        }
        huge.note_free(&mut walked, None);
        advised(huge, extent)
    };
    // The first regions and the last one are not considered. An eighth of region 5 is in use; too
    // little of 6 was written; the walk meets 7 in two steps, and 8 and 9 in one.
    let pieces = [(0..8, 8), (40..47, 7), (48..56, 6), (56..60, 3), (60..64, 4), (64..80, 16)];
    assert_eq!(walk(&huge, &pieces), [7, 8, 9]);
    assert_eq!(walk(&huge, &[(160..168, 8)]), [7, 8, 9]);
    // Still free, but no longer resident.
    assert_eq!(walk(&huge, &[(56..80, 0)]), [7, 8, 9]);
    // As many bytes were resident as one of the two regions has.
    assert_eq!(walk(&huge, &[(88..104, 8)]), [7, 8, 9, 11]);
    // No advice where the system uses huge pages by itself, or the whole slot has the advice.
    huge.all_are_huge.set(true);
    assert_eq!(walk(&huge, &[(80..88, 8)]), [7, 8, 9, 11]);
    let mut always = Huge::new(HugePages::Always, extent.addr()..most, Marks::none());
    always.pretend_not_all_huge();
    always.reach(at(20 * 8));
    assert!(walk(&always, &[(80..88, 8)]).is_empty());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// Thin regions are bounded: beyond that, the next region keeps its huge pages.
#[test]
fn thinned_regions_are_bounded() {
    crate::os::alone::passes("global::native::memory::huge::tests::bounded");
}

#[test]
#[ignore = "in a process of its own"]
fn bounded() {
    let extent = extent();
    let at = |halves: usize| extent.wrapping_add(halves * HUGE / 2);
    let mut huge =
        Huge::new(HugePages::Beyond(HUGE), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.pretend_not_all_huge();
    huge.allow(4 * HUGE);
    huge.reach(at(10));
    assert_eq!(advised(&huge, extent), [1, 2, 3, 4]);
    ALL_THIN.store(MOST_THIN - 1, Relaxed);
    let mut walked = Walked::NOTHING;
    for half in [4, 6] {
        huge.note_free(&mut walked, Some((at(half)..at(half + 1), 0)));
    }
    huge.note_free(&mut walked, None);
    assert_eq!((advised(&huge, extent), ALL_THIN.load(Relaxed)), (vec![1, 3, 4], MOST_THIN));
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// Where the system backs all memory with huge pages, any region may become thin, advised or not.
#[test]
fn where_all_are_huge_every_region_may_be_thin() {
    let extent = extent();
    let at = |halves: usize| extent.wrapping_add(halves * HUGE / 2);
    let last = EXTENT / HUGE - 1;
    let lies = extent.addr() + 100..extent.addr() + EXTENT - 100;
    for all in [false, true] {
        let mut huge = Huge::new(HugePages::Beyond(4 * HUGE), lies.clone(), Marks::none());
        huge.all_are_huge.set(all);
        huge.allow(HUGE);
        huge.reach(at(2 * 7));
        assert_eq!(advised(&huge, extent), [5]);
        let thin = |pieces: &[usize], halves: usize| {
            let mut walked = Walked::NOTHING;
            for &region in pieces {
                let from = at(2 * region);
                let end = from.wrapping_add(halves * HUGE / 2);
                huge.note_free(&mut walked, Some((from..end, 0)));
            }
            huge.note_free(&mut walked, None);
            let is_thin = |&region: &usize| {
                let (word, bit) = Huge::bit_of(extent.addr() + region * HUGE);
                huge.marks.thinned[word].get() & bit != 0
            };
            (1..=last).filter(is_thin).collect::<Vec<_>>()
        };
        let first: &[usize] = if all { &[1, 3, 5, 8] } else { &[5] };
        assert_eq!(thin(&[0, 1, 3, 5, 8, last], 1), first);
        assert!(advised(&huge, extent).is_empty());
        let second: &[usize] = if all { &[3, 8] } else { &[] };
        assert_eq!(thin(&[1, 5], 2), second);
        // Huge pages by the system's setting do not count as advised.
        assert_eq!(advised(&huge, extent).len(), usize::from(!all));
        thin(&[3, 8], 2);
    }
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}
