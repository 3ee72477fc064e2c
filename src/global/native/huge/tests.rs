//! Which huge pages are advised, and when the advice is taken back.

use super::*;

/// As long as a slot may be.
const EXTENT: usize = if LARGEST_SLOT < 512 << 20 { LARGEST_SLOT } else { 512 << 20 };

/// Addresses for an extent, aligned to a huge page; nothing is there.
fn extent() -> *mut u8 {
    let memory = os::reserve(EXTENT + HUGE).expect("there are addresses");
    memory.with_addr(memory.addr().next_multiple_of(HUGE))
}

/// The huge pages that are advised.
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
fn pages_of_small_blocks_beyond_the_first_bytes_are() {
    let extent = extent();
    let end = |regions: usize| extent.wrapping_add(regions * HUGE);
    let most = end(20).addr() + 100;
    let mut huge = Huge::new(HugePages::Beyond(3 * HUGE - 100), extent.addr()..most, Marks::none());
    assert!(!huge.concerns(end(3).addr()) && huge.concerns(end(3).addr() + 1));

    // Nothing is allowed at first, and what was entered then is not advised later.
    huge.reach(end(4).wrapping_add(1));
    assert!(advised(&huge, extent).is_empty());
    // As many as are allowed.
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
    // None that ends beyond the extent.
    huge.allow(usize::MAX);
    huge.reach(end(20).wrapping_add(50));
    assert_eq!(advised(&huge, extent), [5, 6, 12, 13, 14, 15, 16, 17, 18, 19]);

    // Only what is advised may be a huge page.
    huge.only_where_advised();
    let may_be_huge = |huge: &Huge, region: usize| {
        let ends =
            [end(region), end(region + 1).wrapping_sub(1)].map(|at| huge.may_be_huge(at.addr()));
        assert_eq!(ends[0], ends[1], "{region}");
        ends[0]
    };
    let found: Vec<_> = (0..20).filter(|&region| may_be_huge(&huge, region)).collect();
    assert_eq!(found, [5, 6, 12, 13, 14, 15, 16, 17, 18, 19]);
    huge.all.set(true);
    assert!((0..20).all(|region| may_be_huge(&huge, region)));
    huge.only_where_advised();

    // A large block takes those that it touches.
    huge.take_back(end(6).wrapping_sub(100), 100);
    assert_eq!(advised(&huge, extent), [6, 12, 13, 14, 15, 16, 17, 18, 19]);
    huge.take_back(end(13).wrapping_add(HUGE - 16), HUGE + 17);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17, 18, 19]);
    huge.take_back(extent, 3 * HUGE);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17, 18, 19]);
    huge.take_back(end(18), 40 * HUGE);
    assert_eq!(advised(&huge, extent), [6, 12, 16, 17]);
    huge.take_back(extent, EXTENT);
    assert!(advised(&huge, extent).is_empty());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// So many accessible regions, nothing of which is written, from an address that is aligned to a huge page.
#[cfg(target_os = "linux")]
fn regions(count: usize) -> (*mut u8, (*mut u8, usize)) {
    let all = (count + 1) * HUGE;
    let memory = os::allocate(all).expect("there is memory");
    (memory.with_addr(memory.addr().next_multiple_of(HUGE)), (memory, all))
}

/// Regions are of huge pages where one before them that has none is written all over; one in some does without, and is
/// asked about next, once the extent goes beyond its neighbour.
#[cfg(target_os = "linux")]
#[test]
fn regions_like_a_dense_one_are() {
    let (extent, memory) = regions(32);
    let end = |regions: usize| extent.wrapping_add(regions * HUGE);
    // SAFETY: the regions are accessible.
    let write = |region: usize| unsafe { end(region).write_bytes(1, HUGE) };
    let mut huge =
        Huge::new(HugePages::Beyond(3 * HUGE), extent.addr()..end(30).addr() + 100, Marks::none());
    let mut reaches = |region: usize, expected: &[usize]| {
        huge.reach(end(region).wrapping_add(1));
        assert_eq!(advised(&huge, extent), expected, "{region}");
    };
    // The last but one before them is asked about, then the first of them.
    write(0);
    reaches(3, &[]);
    reaches(4, &[]);
    write(3);
    reaches(6, &[5, 6]);
    let mut found: Vec<_> = (5..20).collect();
    reaches(19, &found);
    reaches(20, &found);
    // What the last one told holds for the neighbour of that without.
    found.push(21);
    reaches(21, &found);
    reaches(22, &found);
    reaches(24, &found);
    write(24);
    reaches(25, &found);
    found.extend([26, 27]);
    reaches(27, &found);
    // None that ends beyond the extent.
    found.extend([28, 29]);
    reaches(30, &found);
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// A large block for which the extent is extended is of huge pages if the last one that has none is written all over; one in
/// some does without.
#[cfg(target_os = "linux")]
#[test]
fn large_blocks_like_a_dense_one_are() {
    const LEN: usize = HUGE + HUGE / 2;
    let (extent, memory) = regions(60);
    let block = |index: usize| extent.wrapping_add(index * 2 * HUGE);
    let mut huge =
        Huge::new(HugePages::Beyond(2 * HUGE), extent.addr()..block(30).addr(), Marks::none());
    let mut enters = |index: usize, is: bool| {
        huge.reach(block(index).wrapping_add(LEN));
        huge.enter(block(index), LEN);
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

    // As long as they are dense, one that gets memory of others leaves it as it is.
    huge.enter_again(block(20), LEN);
    assert_eq!(advised(&huge, extent).len(), 2 * 16);
    huge.reach(block(22).wrapping_add(LEN));
    (21..23).for_each(|index| huge.enter(block(index), LEN));
    // SAFETY: as above.
    unsafe { os::discard(block(19), LEN) };
    huge.enter(block(23), LEN);
    huge.enter_again(block(20), LEN);
    assert_eq!(advised(&huge, extent).len(), 2 * 17);

    // Where huge pages are not considered, or the kernel knows of all.
    for huge_pages in [HugePages::System, HugePages::Never, HugePages::Always] {
        let huge = Huge::new(huge_pages, extent.addr()..block(30).addr(), Marks::none());
        (1..4).for_each(|index| huge.enter(block(index), LEN));
        assert!(advised(&huge, extent).is_empty(), "{huge_pages:?}");
    }
    // SAFETY: the memory is whole, and not used any more.
    unsafe { os::release(memory.0, memory.1) };
}

/// Each of many huge pages is known by itself.
#[test]
fn of_many_one_is_taken_back() {
    let extent = extent();
    let at = |region: usize| extent.wrapping_add(region * HUGE);
    let mut huge =
        Huge::new(HugePages::Beyond(0), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.allow(EXTENT);
    huge.reach(extent.wrapping_add(EXTENT));
    let mut left: Vec<_> = (0..EXTENT / HUGE).collect();
    let regions = [70, 6, 64, 127, 128, 0, 255];
    for region in regions.into_iter().filter(|&region| region < EXTENT / HUGE) {
        huge.take_back(at(region), HUGE);
        left.retain(|&other| other != region);
        assert_eq!(advised(&huge, extent), left);
    }
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

#[test]
fn the_kernel_is_told_of_all_at_once_or_of_nothing() {
    let extent = extent();
    for (huge_pages, concerned) in
        [(HugePages::System, false), (HugePages::Never, false), (HugePages::Always, true)]
    {
        let mut huge =
            Huge::new(huge_pages, extent.addr() + 100..extent.addr() + EXTENT, Marks::none());
        assert_eq!(huge.concerns(extent.addr() + 1), concerned, "{huge_pages:?}");
        huge.allow(usize::MAX);
        huge.reach(extent.wrapping_add(EXTENT));
        assert!(advised(&huge, extent).is_empty(), "{huge_pages:?}");
        assert!(!huge_pages.follows());
        // What the kernel does of itself is not known.
        assert!(huge.may_be_huge(extent.addr() + 1));
    }
    assert!(HugePages::Beyond(0).follows());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// A block is dense if OS pages all over it take memory.
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

/// What is free in large part is no longer of huge pages, until all of it is free; so nothing comes again that went back.
#[test]
fn thin_regions_are_taken_back_until_they_are_free() {
    let extent = extent();
    let at = |eighths: usize| extent.wrapping_add(eighths * HUGE / 8);
    let mut huge =
        Huge::new(HugePages::Beyond(HUGE), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.only_where_advised();
    huge.allow(9 * HUGE);
    huge.reach(at(10 * 8));
    assert_eq!(advised(&huge, extent), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let walk = |pieces: &[Range<*mut u8>]| {
        let mut walked = Walked::NOTHING;
        pieces.iter().for_each(|piece| huge.found_free(&mut walked, Some((piece.clone(), 0))));
        huge.found_free(&mut walked, None);
        advised(&huge, extent)
    };
    assert_eq!(walk(&[]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Of 1 little is free; of 2 an eighth, in two pieces; of 3 half, of 4 and 5 all, of 6 an eighth; of 9 all but that.
    let little = at(9)..at(10).wrapping_sub(4096);
    let two = [at(17)..at(17).wrapping_add(4096), at(18)..at(19).wrapping_sub(4096)];
    let [first, second] = two;
    let pieces = [little, first, second, at(28)..at(49), at(73)..at(80)];
    assert_eq!(walk(&pieces), [1, 4, 5, 7, 8]);
    // What never was of huge pages is not now, nor is what a large block has taken.
    assert_eq!(walk(&[at(0)..at(8), at(96)..at(104)]), [1, 4, 5, 7, 8]);
    huge.take_back(at(8 * 8), HUGE);
    assert_eq!(walk(&[at(64)..at(72)]), [1, 4, 5, 7]);
    // Half of what is thin is in use again; then nothing.
    assert_eq!(walk(&[at(24)..at(28)]), [1, 4, 5, 7]);
    assert_eq!(walk(&[at(16)..at(20), at(20)..at(32), at(72)..at(80)]), [1, 2, 3, 4, 5, 7, 9]);
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// A region that was written all over is of huge pages once all of it is free: if it was as far as most of its bytes took
/// memory, in whatever steps they are met, and lies where huge pages are considered.
#[test]
fn regions_that_were_written_are_once_they_are_free() {
    let extent = extent();
    let at = |eighths: usize| extent.wrapping_add(eighths * HUGE / 8);
    let most = extent.addr() + 20 * HUGE + 100;
    let mut huge = Huge::new(HugePages::Beyond(4 * HUGE), extent.addr()..most, Marks::none());
    huge.only_where_advised();
    huge.reach(at(20 * 8));
    assert!(advised(&huge, extent).is_empty());
    let walk = |huge: &Huge, pieces: &[(Range<usize>, usize)]| {
        let mut walked = Walked::NOTHING;
        for (piece, written) in pieces {
            let piece = at(piece.start)..at(piece.end);
            huge.found_free(&mut walked, Some((piece, written * HUGE / 8)));
        }
        huge.found_free(&mut walked, None);
        advised(huge, extent)
    };
    // The first ones, and the last, are not considered. Of 5 an eighth is in use; of 6 too little was written; 7 was in two
    // steps, 8 and 9 in one.
    let pieces = [(0..8, 8), (40..47, 7), (48..56, 6), (56..60, 3), (60..64, 4), (64..80, 16)];
    assert_eq!(walk(&huge, &pieces), [7, 8, 9]);
    assert_eq!(walk(&huge, &[(160..168, 8)]), [7, 8, 9]);
    // Free still, nothing of them takes memory.
    assert_eq!(walk(&huge, &[(56..80, 0)]), [7, 8, 9]);
    // Where the system does so unasked, or the kernel knows of all, nothing is told.
    huge.all.set(true);
    assert_eq!(walk(&huge, &[(80..88, 8)]), [7, 8, 9]);
    let mut always = Huge::new(HugePages::Always, extent.addr()..most, Marks::none());
    always.only_where_advised();
    always.reach(at(20 * 8));
    assert!(walk(&always, &[(80..88, 8)]).is_empty());
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// No more regions are thin than a bound: of a process that has so many, the next one stays of huge pages.
#[test]
fn so_many_regions_are_thin() {
    crate::os::alone::passes("global::native::huge::tests::bounded");
}

#[test]
#[ignore = "in a process of its own"]
fn bounded() {
    let extent = extent();
    let at = |halves: usize| extent.wrapping_add(halves * HUGE / 2);
    let mut huge =
        Huge::new(HugePages::Beyond(HUGE), extent.addr()..extent.addr() + EXTENT, Marks::none());
    huge.only_where_advised();
    huge.allow(4 * HUGE);
    huge.reach(at(10));
    assert_eq!(advised(&huge, extent), [1, 2, 3, 4]);
    ALL_THIN.store(MOST_THIN - 1, Relaxed);
    let mut walked = Walked::NOTHING;
    for half in [4, 6] {
        huge.found_free(&mut walked, Some((at(half)..at(half + 1), 0)));
    }
    huge.found_free(&mut walked, None);
    assert_eq!((advised(&huge, extent), ALL_THIN.load(Relaxed)), (vec![1, 3, 4], MOST_THIN));
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}

/// Where the system backs all memory with huge pages, this holds for every region that lies in the extent, advised or not.
#[test]
fn where_all_are_huge_every_region_may_be_thin() {
    let extent = extent();
    let at = |halves: usize| extent.wrapping_add(halves * HUGE / 2);
    let last = EXTENT / HUGE - 1;
    let lies = extent.addr() + 100..extent.addr() + EXTENT - 100;
    for all in [false, true] {
        let mut huge = Huge::new(HugePages::Beyond(4 * HUGE), lies.clone(), Marks::none());
        huge.all.set(all);
        huge.allow(HUGE);
        huge.reach(at(2 * 7));
        assert_eq!(advised(&huge, extent), [5]);
        let thin = |pieces: &[usize], halves: usize| {
            let mut walked = Walked::NOTHING;
            for &region in pieces {
                let from = at(2 * region);
                let end = from.wrapping_add(halves * HUGE / 2);
                huge.found_free(&mut walked, Some((from..end, 0)));
            }
            huge.found_free(&mut walked, None);
            let is_thin = |&region: &usize| {
                let (word, bit) = huge.place(extent.addr() + region * HUGE);
                huge.marks.thinned[word].get() & bit != 0
            };
            (1..=last).filter(is_thin).collect::<Vec<_>>()
        };
        let first: &[usize] = if all { &[1, 3, 5, 8] } else { &[5] };
        assert_eq!(thin(&[0, 1, 3, 5, 8, last], 1), first);
        assert!(advised(&huge, extent).is_empty());
        let second: &[usize] = if all { &[3, 8] } else { &[] };
        assert_eq!(thin(&[1, 5], 2), second);
        // What the system does unasked counts as not advised.
        assert_eq!(advised(&huge, extent).len(), usize::from(!all));
        thin(&[3, 8], 2);
    }
    // SAFETY: nobody uses the addresses.
    unsafe { os::release(extent, EXTENT) };
}
