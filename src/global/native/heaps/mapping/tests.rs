//! Random mappings against a model: where each block is, how long it is, and what is counted.

use core::ops::Range;

use super::header::mark;
use super::in_use::MappingUsage;
use super::*;
#[cfg(unix)]
use crate::global::native::lists::registry;
#[cfg(target_os = "linux")]
use crate::global::native::memory::space::SPACE;
use crate::global::{Hardening, Pagewise, Tuning};
use crate::os::alone;

const MIB: usize = 1 << 20;

const LENGTHEN: [Lengthen; 4] =
    [Lengthen::No, Lengthen::Plainly, Lengthen::Adaptively, Lengthen::InOnePiece];

/// Xorshift numbers with a fixed seed, and block sizes.
struct Random {
    state: u64,
    /// Binary logarithms of the sizes.
    magnitudes: Range<usize>,
}

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 8) as usize % bound
    }

    /// Returns a block size in bytes: of every magnitude, or less.
    fn size(&mut self) -> usize {
        let most = 1 << (self.magnitudes.start + 1 + self.below(self.magnitudes.len()));
        self.below(most)
    }
}

/// A block in use.
struct Block {
    at: NonNull<u8>,
    align: usize,
    size: usize,
    /// Value of the first byte of each 4 KiB, and of the last.
    mark: u8,
    /// Bytes of the mapping.
    len: usize,
    /// Whether it may be several to the system, which then cannot move it.
    is_pieced: bool,
}

impl Block {
    fn new(at: NonNull<u8>, align: usize, size: usize, mark: u8) -> Self {
        let mut block = Self { at, align, size, mark, len: 0, is_pieced: false };
        block.measure();
        block.write();
        block
    }

    fn header(&self) -> &Header {
        // SAFETY: the block is in use, so its header can be read.
        unsafe { &*header(self.at.as_ptr()) }
    }

    /// Returns the bytes from the mapping's start to the end of the last OS page that the block
    /// needs.
    fn needed(&self) -> usize {
        self.needed_for(self.size)
    }

    /// As [`needed`](Self::needed), if the block had `size` bytes.
    fn needed_for(&self, size: usize) -> usize {
        let behind = if mode::has_guards() { BEHIND } else { 0 };
        let end = self.at.addr().get() + size + behind;
        end.next_multiple_of(os::page_size()) - self.header().base.addr()
    }

    /// Checks the block's place, its header, and the sizes reported for it.
    fn measure(&mut self) {
        let (page, start) = (os::page_size(), self.at.addr().get());
        let &Header { base, len, guard, size, .. } = self.header();
        assert!(start.is_multiple_of(self.align.max(HEADER)));
        assert!(base.addr().is_multiple_of(page) && len.is_multiple_of(page));
        assert!(base.addr() + HEADER <= start && base.addr() + page >= start - HEADER);
        assert!(len >= self.needed());
        assert_eq!((size, guard > 0), (self.size, mode::has_guards()));
        #[cfg(target_os = "linux")]
        for beside in
            [base.wrapping_sub(1), base.wrapping_add(len)].into_iter().filter(|_| guard > 0)
        {
            assert!(!os::is_readable(beside), "a guard page is open");
        }
        self.len = len;
        // SAFETY: the block is in use.
        let (len, asked) = unsafe { (len_of(self.at.as_ptr()), requested(self.at.as_ptr())) };
        assert_eq!(asked, self.size);
        let whole = base.addr() + self.len - start;
        assert_eq!(len, if mode::has_guards() { self.size } else { whole });
    }

    fn write(&self) {
        let last = self.size.checked_sub(1);
        // SAFETY: the block is in use, and has as many bytes.
        (0..self.size).step_by(4096).chain(last).for_each(|at| unsafe {
            self.at.add(at).write(self.mark);
        });
    }

    /// Checks that what was written is there, in the first `size` bytes.
    fn check(&self, size: usize) {
        assert!((0..size).step_by(4096).all(|at| self.byte(at) == self.mark));
    }

    /// Checks that all that was written is there.
    fn check_whole(&self) {
        self.check(self.size);
        assert!(self.size == 0 || self.byte(self.size - 1) == self.mark);
    }

    /// Returns the byte at offset `at`.
    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.size);
        // SAFETY: the block is in use, and has as many bytes.
        unsafe { self.at.add(at).read() }
    }
}

/// The blocks in use, and the most bytes ever in use and kept.
struct Model {
    blocks: Vec<Block>,
    peak: usize,
}

impl Model {
    fn agrees(&mut self) {
        let bytes = self.blocks.iter().map(|block| block.len).sum();
        self.peak = self.peak.max(bytes + kept::bytes());
        let expected = MappingUsage { count: self.blocks.len(), bytes, peak: self.peak };
        assert_eq!(usage(), expected);
    }

    fn allocates(&mut self, random: &mut Random) {
        let (size, align) = (random.size(), 1 << random.below(23));
        let block = allocate(size, align, None).expect("there is memory");
        let block = Block::new(block, align, size, 0);
        assert_eq!(block.len, block.needed(), "no more is taken");
        let is_huge = size >= HUGE && !mode::has_guards() && !os::NEEDS_RESERVATION;
        let before = block.at.addr().get() - block.header().base.addr();
        if is_huge {
            assert!(block.at.addr().get().is_multiple_of(HUGE));
        } else if align <= os::page_size() {
            assert_eq!(before, HEADER.max(align), "it lies as near to the start as it can");
        }
        assert!((0..size).step_by(4000).all(|at| block.byte(at) == 0));
        let mark = random.below(255) as u8 + 1;
        self.blocks.push(Block::new(block.at, align, size, mark));
    }

    /// Kept memory serves, or begins, only blocks of at least a huge page; they may hold anything.
    fn allocates_kept(&mut self, random: &mut Random) {
        let size = random.below(2 << random.magnitudes.end);
        let align = 1 << random.below(23);
        let mark = random.below(255) as u8 + 1;
        let lengthen = LENGTHEN[random.below(4)];
        if let Some(block) = allocate_kept(size, align, 60_000, lengthen) {
            assert!(size >= HUGE && align <= HUGE && !mode::is_hardened());
            assert!(block.addr().get().is_multiple_of(HUGE));
            let mut block = Block::new(block, align, size, mark);
            block.is_pieced = true;
            assert_eq!(block.len, block.needed());
            self.blocks.push(block);
        }
    }

    fn resizes(&mut self, random: &mut Random) {
        let Some(index) = random.below(self.blocks.len() + 1).checked_sub(1) else { return };
        let new_size = random.size();
        let is_adaptive = mode::has_guards() && random.below(2) == 0;
        let block = &mut self.blocks[index];
        let before = (block.at, block.size, block.len);
        let kept_before = kept::bytes();
        block.check_whole();
        // SAFETY: the block is in use, at a multiple of this alignment.
        let resized = unsafe { resize(block.at.as_ptr(), block.align, new_size, is_adaptive) };
        let Some(at) = resized else {
            let grows = block.needed_for(new_size) > block.len;
            let stays = if grows { !os::MOVES || block.is_pieced } else { mode::has_guards() };
            assert!(stays || block.align > os::page_size() || os::NEEDS_RESERVATION);
            block.measure();
            return;
        };
        let kept = before.1.min(new_size);
        (block.at, block.size) = (at, new_size);
        // It may have taken the kept pages behind it.
        block.is_pieced |= at == before.0 && kept::bytes() < kept_before;
        block.measure();
        block.check(kept);
        assert!(kept == 0 || kept < before.1 || block.byte(kept - 1) == block.mark);
        let needed = block.needed();
        match mode::has_guards() {
            // The block moved and has room to grow, or it stayed.
            true if block.len > before.2 => {
                assert!((needed..=needed + needed / 8 + os::page_size()).contains(&block.len));
            }
            true => assert!(block.len == before.2 && needed >= before.2 / 2),
            false => assert!(block.len == needed || os::NEEDS_RESERVATION),
        }
        block.write();
    }

    fn frees(&mut self, random: &mut Random) {
        if self.blocks.is_empty() {
            return;
        }
        let mut block = self.blocks.swap_remove(random.below(self.blocks.len()));
        block.measure();
        block.check_whole();
        let (before, given) = (kept::bytes(), kept::given());
        // SAFETY: the block is in use, and not used any more.
        let is_kept = unsafe { deallocate(block.at.as_ptr(), 60_000) };
        // In a decline, some go back.
        let gone = (kept::given() - given) as usize;
        assert_eq!(kept::bytes() + gone, before + if is_kept { block.len } else { 0 });
        assert!(!is_kept || block.size >= HUGE - block.len % HUGE && !mode::is_hardened());
    }
}

/// Allocates, resizes and frees blocks of these magnitudes at random. Returns whether any mapping
/// was kept.
fn session(magnitudes: Range<usize>, rounds: usize) -> bool {
    let mut random = Random { state: 0x9e37_79b9_7f4a_7c15, magnitudes };
    let mut model = Model { blocks: Vec::new(), peak: 0 };
    let mut any_kept = false;
    for round in 0..rounds {
        // The number of blocks swells and shrinks.
        let swells = (round * 12 / rounds).is_multiple_of(2);
        match random.below(7) {
            0 | 1 if swells => model.allocates(&mut random),
            0 | 1 => model.allocates_kept(&mut random),
            2 if swells => model.allocates(&mut random),
            2..5 => model.frees(&mut random),
            _ => model.resizes(&mut random),
        }
        any_kept |= kept::bytes() > 0;
        model.agrees();
    }
    while !model.blocks.is_empty() {
        model.frees(&mut random);
        model.agrees();
    }
    any_kept
}

/// Impossible sizes are refused, and nothing is counted for them.
fn refuses() {
    let before = usage();
    for (size, align) in [
        (isize::MAX as usize, 64),
        (isize::MAX as usize - 63, 64),
        (usize::MAX, 1),
        (usize::MAX - 100, 64),
        (isize::MAX as usize / 2, isize::MAX as usize / 2 + 1),
    ] {
        assert_eq!(allocate(size, align, None), None, "{size}, {align}");
        assert_eq!(allocate_kept(size, align, 1000, Lengthen::Adaptively), None, "{size}, {align}");
    }
    let block = allocate(MIB, 64, None).expect("there is memory");
    for size in [isize::MAX as usize, usize::MAX, usize::MAX - 200] {
        // SAFETY: the block is in use, and stays so.
        assert_eq!(unsafe { resize(block.as_ptr(), 64, size, true) }, None, "{size}");
    }
    // SAFETY: the block is in use, and not used any more.
    unsafe { deallocate(block.as_ptr(), u32::MAX) };
    assert_eq!((usage().count, usage().bytes), (before.count, before.bytes));
}

#[test]
fn mappings_are_as_the_model_has_them() {
    alone::passes("global::native::heaps::mapping::tests::usual");
}

#[test]
#[ignore = "in a process of its own"]
fn usual() {
    assert!(session(0..23, 3_000) || os::NEEDS_RESERVATION, "some mappings were kept");
    refuses();
}

/// Blocks so long that they are put together of several kept mappings.
#[test]
fn long_mappings_are_as_the_model_has_them() {
    alone::passes("global::native::heaps::mapping::tests::long");
}

#[test]
#[ignore = "in a process of its own"]
fn long() {
    assert!(session(21..25, 600) || os::NEEDS_RESERVATION, "some mappings were kept");
}

#[test]
fn mappings_between_guard_pages_are_as_the_model_has_them() {
    alone::passes("global::native::heaps::mapping::tests::guarded");
}

#[test]
#[ignore = "in a process of its own"]
fn guarded() {
    mode::open(&Tuning::new().hardening(Hardening::CHECKS.guards(true)));
    assert!(!session(0..23, 3_000), "none was kept");
    refuses();
}

/// A block between guard pages that was written all over moves to huge pages when it grows, as far
/// as they are asked for; one that was not does not.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "nothing moves there")]
fn a_dense_block_between_guard_pages_grows_into_huge_pages() {
    alone::passes("global::native::heaps::mapping::tests::guarded_and_dense");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn guarded_and_dense() {
    mode::open(&Tuning::new().hardening(Hardening::CHECKS.guards(true)));
    for (dense, is_adaptive) in [(true, true), (true, false), (false, true)] {
        let mut aligned = 0;
        for _ in 0..8 {
            let block = if dense { Some(written(3 * MIB)) } else { None };
            let block = block
                .unwrap_or_else(|| allocate(3 * MIB, 64, None).expect("there is memory").as_ptr());
            // SAFETY: the block is in use, and replaced by the one returned.
            let grown = unsafe { resize(block, 64, 6 * MIB, is_adaptive) };
            let grown = grown.expect("there is memory").as_ptr();
            assert!(!dense || holds(grown, 3 * MIB));
            let page = os::page_size();
            aligned += usize::from((grown.addr() - HEADER + page).is_multiple_of(HUGE));
            // SAFETY: the block is in use, so its header can be read.
            let &Header { base, len, .. } = unsafe { &*header(grown) };
            for beside in [base.wrapping_sub(1), base.wrapping_add(len)] {
                assert!(!os::is_readable(beside), "a guard page is open");
            }
            // SAFETY: the block is in use, and not used any more.
            unsafe { deallocate(grown, 0) };
        }
        assert_eq!(aligned == 8, dense && is_adaptive, "{dense} {is_adaptive}: {aligned}");
    }
}

/// Returns a block outside of huge pages, with the first byte of each OS page written.
#[cfg(target_os = "linux")]
fn written(size: usize) -> *mut u8 {
    let block = allocate(size, 64, None).expect("there is memory").as_ptr();
    // SAFETY: the block is in use, and has as many bytes.
    unsafe { (0..size).step_by(4096).for_each(|at| block.add(at).write(at as u8 ^ 0x5a)) };
    block
}

/// Returns whether the block holds what [`written`] wrote.
#[cfg(target_os = "linux")]
fn holds(block: *mut u8, size: usize) -> bool {
    // SAFETY: the block is in use, and has as many bytes.
    (0..size).step_by(4096).all(|at| unsafe { block.add(at).read() } == at as u8 ^ 0x5a)
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn addresses_the_system_refuses_to_unmap_go_back_later() {
    alone::passes("global::native::heaps::mapping::tests::refuses_to_unmap");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has no more mappings"]
fn refuses_to_unmap() {
    const SIZE: usize = MIB;
    // The first blocks fill existing gaps; the others are adjacent, and one mapping to the system.
    // One in a gap is a mapping of its own, which always goes. Then the system has room for one
    // mapping more, and another block goes as well. So only blocks between two others are freed.
    let blocks: Vec<_> = (0..60).map(|_| written(SIZE)).collect();
    let is_between = |blocks: &&[*mut u8]| {
        blocks.windows(2).all(|two| two[0].addr().abs_diff(two[1].addr()) < 2 * SIZE)
    };
    let freed = blocks[20..].windows(3).step_by(2).filter(is_between).map(|three| three[1]);
    let freed: Vec<_> = freed.collect();
    alone::without_more_mappings(|| {
        for &block in &freed {
            // SAFETY: the block is in use, and not used any more.
            unsafe { deallocate(block, u32::MAX) };
            assert!(!os::is_resident(block), "its memory goes");
        }
        assert!(refused::has_any(), "its addresses cannot go");
        assert!(!refused::retry(&mut Visit::unbounded()));
        assert!(freed.iter().any(|&block| os::is_readable(block)));
    });
    crate::global::Pagewise::new().purge();
    assert!(!refused::has_any());
    assert!(freed.iter().all(|&block| !os::is_readable(block)), "addresses are lost");
    assert!(blocks.iter().filter(|block| !freed.contains(block)).all(|&block| holds(block, SIZE)));
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no mapping is lengthened there")]
fn a_block_that_grows_does_not_move_to_where_heaps_lie() {
    alone::passes("global::native::heaps::mapping::tests::moves_on");
    alone::passes("global::native::heaps::mapping::tests::moves_back");
}

/// Grows a block that has no room in place. `slots` gets the block's base and the place that it
/// would move to, and returns where the slots are. Returns where the block was, and where it is
/// now.
#[cfg(target_os = "linux")]
fn grows_beside(
    slots: impl FnOnce(*mut u8, *mut u8) -> (*mut u8, usize),
) -> (*mut u8, Option<NonNull<u8>>) {
    const SIZE: usize = MIB;
    const GROWN: usize = 64 * MIB;
    let block = written(SIZE);
    // SAFETY: the block is in use; its neighbour is the test's.
    unsafe {
        let (base, len) = ((*header(block)).base, (*header(block)).len);
        os::map_at(base.add(len), os::page_size());
        let next = os::reserve(GROWN + os::page_size()).expect("there are addresses");
        assert!(os::release(next, GROWN + os::page_size()));
        let (start, bytes) = slots(base, next);
        SPACE.pretend(start, bytes);
        let grown = resize(block, 64, GROWN, false);
        let there = grown.map_or(block, NonNull::as_ptr);
        assert!(!SPACE.overlaps(there, SIZE), "it lies where heaps do");
        assert!(holds(there, SIZE));
        assert_eq!(requested(there), if grown.is_some() { GROWN } else { SIZE });
        if grown.is_some() {
            there.add(GROWN - 1).write(1);
        }
        deallocate(there, u32::MAX);
        (block, grown)
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has slots there"]
fn moves_on() {
    let (block, grown) = grows_beside(|_, next| (next, 65 * MIB));
    assert!(grown.is_some_and(|grown| grown.as_ptr() != block));
}

/// All addresses below the block belong to slots.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has slots there"]
fn moves_back() {
    let first = core::ptr::without_provenance_mut::<u8>(1 << 16);
    let (_, grown) = grows_beside(|base, _| (first, base.addr() - first.addr()));
    assert!(grown.is_none());
}

/// A block that is longer than the kept run begins with that run. If no memory can be added, the
/// run stays kept.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no mapping is lengthened there")]
fn a_longer_block_begins_with_what_is_kept() {
    alone::passes("global::native::heaps::mapping::tests::longer");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn longer() {
    // Mappings count as wanted again, though none was freed before.
    for _ in 0..2 {
        let block = allocate(4 * HUGE, 64, None).expect("there is memory");
        let block = Block::new(block, 64, 4 * HUGE, 7);
        // SAFETY: the block has these bytes, and is not used any more.
        unsafe {
            block.at.write_bytes(7, block.size);
            deallocate(block.at.as_ptr(), 60_000);
        }
        assert_eq!(allocate_kept(5 * HUGE, 64, 60_000, Lengthen::No), None, "it fits in none");
    }
    let before = kept::bytes();
    assert!(before >= 4 * HUGE, "it stays");

    let no_more = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    let any = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, ..no_more };
    // SAFETY: the process is the test's, and maps nothing meanwhile.
    let refused = unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const no_more), 0);
        let refused = allocate_kept(6 * HUGE, 64, 60_000, Lengthen::Adaptively);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const any), 0);
        refused
    };
    assert_eq!((refused, kept::bytes()), (None, before), "it stays where it was");

    let block =
        allocate_kept(6 * HUGE, HUGE, 60_000, Lengthen::Adaptively).expect("there is memory");
    let block = Block {
        at: block,
        align: HUGE,
        size: 6 * HUGE,
        mark: 7,
        len: before + 2 * HUGE,
        is_pieced: false,
    };
    assert_eq!((kept::bytes(), usage().bytes), (0, block.len));
    assert!((0..4 * HUGE).step_by(4096).all(|at| block.byte(at) == 7), "it begins there");
    assert!((4 * HUGE..6 * HUGE).step_by(4096).all(|at| block.byte(at) == 0), "and goes on");
    // SAFETY: the block is not used any more.
    unsafe { deallocate(block.at.as_ptr(), 0) };
}

/// A block that is longer than every kept run is put together of several, and of new memory only
/// where they do not suffice.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "nothing can be moved there")]
fn a_longer_block_is_put_together_of_several_runs() {
    alone::passes("global::native::heaps::mapping::tests::put_together");
}

/// Keeps blocks of these numbers of huge pages, written all over; each mapping is an OS page
/// longer. Before, a block of `first` bytes was in use.
#[cfg(target_os = "linux")]
fn keep(first: usize, huge_pages: &[usize]) {
    let first = allocate(first, 64, None).expect("there is memory");
    // SAFETY: the block is not used any more. The next mapping counts as wanted again.
    unsafe { deallocate(first.as_ptr(), 60_000) };
    let allocate = |&count: &usize| {
        let block = allocate(count * HUGE, 64, None).expect("there is memory");
        // So that no two are one run.
        let between = os::reserve(3 * HUGE).expect("there are addresses");
        (Block::new(block, 64, count * HUGE, count as u8), between)
    };
    let blocks: Vec<_> = huge_pages.iter().map(allocate).collect();
    assert_eq!(allocate_kept(HUGE, 64, 60_000, Lengthen::No), None, "none is kept");
    for (block, _) in &blocks {
        // SAFETY: the block is not used any more.
        assert!(unsafe { deallocate(block.at.as_ptr(), 60_000) });
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn put_together() {
    let page = os::page_size();
    keep(HUGE, &[5, 4, 3]);
    let taken = |size: usize| {
        let before = kept::bytes();
        let block = allocate_kept(size, HUGE, 60_000, Lengthen::Plainly).expect("there is memory");
        let pages = (0..size).step_by(page).map(|at| block.as_ptr().wrapping_add(at));
        let new = pages.filter(|&page| !os::is_resident(page)).count();
        (Block::new(block, HUGE, size, 9), before - kept::bytes(), new)
    };

    // All of the longest run, two huge pages of the shortest, and the end of another.
    let (mut block, used, new) = taken(7 * HUGE + 2 * page);
    assert!((7 * HUGE + 3 * page..7 * HUGE + kept::LEAST).contains(&used) && new == 0, "{used}");
    // It may grow where it is, though it is several mappings.
    // SAFETY: the block is in use.
    let grown = unsafe { resize(block.at.as_ptr(), HUGE, 7 * HUGE + 9 * page, false) };
    if grown.is_some() {
        assert_eq!(grown, Some(block.at), "several mappings do not move");
        block.size = 7 * HUGE + 9 * page;
        block.write();
    }
    block.check_whole();

    // Its pieces serve again, and what is missing is new.
    // SAFETY: the block is not used any more.
    assert!(unsafe { deallocate(block.at.as_ptr(), 60_000) });
    let (block, _, new) = taken(14 * HUGE);
    assert!((2 * HUGE..=4 * HUGE).contains(&(new * page)), "{new} new pages");
    assert!(kept::bytes() < 3 * HUGE);
    // SAFETY: the block is not used any more.
    unsafe { deallocate(block.at.as_ptr(), u32::MAX) };
    assert_eq!((usage().count, usage().bytes), (0, 0));
}

/// A block that moves keeps an alignment of more than a huge page.
#[test]
fn a_block_that_moves_keeps_its_alignment() {
    alone::passes("global::native::heaps::mapping::tests::aligned");
}

#[test]
#[ignore = "in a process of its own"]
fn aligned() {
    for round in 0..4 {
        let (align, size) = (16 * MIB, 3 * MIB);
        let block = allocate(size, align, None).expect("there is memory");
        let block = Block::new(block, align, size, 9);
        let end = block.header().base.wrapping_add(block.len);
        // SAFETY: if nothing is mapped there, it is the test's; the block is in use.
        let moved = unsafe {
            os::map_at(end, os::page_size());
            resize(block.at.as_ptr(), align, 5 * MIB + round * HUGE, false)
        };
        if let Some(at) = moved {
            assert!(at.addr().get().is_multiple_of(align), "{round}: {at:?}");
            Block { at, ..block }.check_whole();
        }
    }
}

/// Where there are more pieces than one block is made of, the others stay kept.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "nothing can be moved there")]
fn pieces_beyond_the_most_stay_kept() {
    alone::passes("global::native::heaps::mapping::tests::pieces");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn pieces() {
    const PIECES: usize = 2 * assembly::PIECES;
    let (page, size) = (os::page_size(), 2 * HUGE + PIECES * kept::LEAST);
    // More was in use before: nothing goes back.
    keep(2 * size, &[2]);
    let memory = os::allocate(2 * PIECES * kept::LEAST).expect("there is memory");
    for index in 0..PIECES {
        // SAFETY: the memory is the test's, which uses every second piece no more.
        unsafe {
            let piece = memory.add(2 * index * kept::LEAST);
            piece.write_bytes(1, kept::LEAST);
            kept::put_back(piece, kept::LEAST);
        }
    }
    let before = kept::bytes();
    let block = allocate_kept(size, 64, 60_000, Lengthen::Plainly).expect("there is memory");
    let is_new = |at: usize| !os::is_resident(block.as_ptr().wrapping_add(at));
    let new = (0..size).step_by(page).filter(|&at| is_new(at)).count() * page;
    assert_eq!(before - kept::bytes(), size + page - new, "none is lost");
    assert_eq!(new, size - 2 * HUGE - (assembly::PIECES - 1) * kept::LEAST);
}

/// If the system refuses addresses, or to move pages, the runs stay kept.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "nothing can be moved there")]
fn runs_stay_where_nothing_can_be_put_together() {
    alone::passes("global::native::heaps::mapping::tests::not_together");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn not_together() {
    keep(HUGE, &[5, 4, 3]);
    let before = kept::bytes();
    let no_more = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    let any = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, ..no_more };
    // SAFETY: the process is the test's, and maps nothing meanwhile.
    let refused = unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const no_more), 0);
        let refused = allocate_kept(9 * HUGE, 64, 60_000, Lengthen::Plainly);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const any), 0);
        refused
    };
    assert_eq!((refused, kept::bytes()), (None, before));

    for flags in [libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, 0] {
        refuse_mremap(flags);
        let refused = allocate_kept(9 * HUGE, 64, 60_000, Lengthen::Plainly);
        assert_eq!((refused, kept::bytes()), (None, before), "flags {flags}");
    }
    assert!(allocate_kept(5 * HUGE, 64, 60_000, Lengthen::No).is_some(), "they serve as they are");
}

/// A length for which the system has no memory is refused, and the huge pages that are kept stay.
/// (Regression: it was put together from kept memory and a reservation made accessible, of any
/// length.)
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "nothing can be moved there")]
fn nothing_is_put_together_beyond_the_memory_there_is() {
    alone::passes("global::native::heaps::mapping::tests::beyond_memory");
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
#[ignore = "in a process of its own"]
fn beyond_memory() {
    keep(HUGE, &[5, 4, 3]);
    let before = kept::bytes();
    for doublings in 40..usize::BITS - 18 {
        let len = 1 << doublings;
        if let Some(memory) = os::allocate(len) {
            // The system grants any length.
            // SAFETY: the pages were just mapped, and nobody uses them.
            assert!(unsafe { os::release(memory, len) });
            continue;
        }
        assert_eq!(allocate_kept(len, 64, 60_000, Lengthen::Adaptively), None, "{len} bytes");
    }
    // The OS page before the huge pages of each run may have gone back.
    assert!(kept::bytes() >= before - 3 * os::page_size());
}

/// Has the system refuse `mremap` with these flags from now on.
#[cfg(target_os = "linux")]
fn refuse_mremap(flags: i32) {
    /// Offset of the fourth argument in `seccomp_data`, whose low half comes first.
    const FLAGS: u32 = 16 + 3 * 8;
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::SYS_mremap as u32),
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, FLAGS),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, flags as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 6, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
}

/// A mapping whose end is without huge pages is two for the system, which refuses to lengthen it as
/// it is.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no mapping is lengthened there")]
fn a_mapping_with_a_sample_grows() {
    alone::passes("global::native::heaps::mapping::tests::grows_with_sample");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has made no mapping"]
fn grows_with_sample() {
    let size = 4 * HUGE;
    for eighths in [1, 8] {
        let block = allocate(size, 64, None).expect("there is memory").as_ptr();
        let advised = kept::decide_huge_pages(block, size, kept::Contents::Anything);
        assert!(advised > 0 && advised < size);
        // SAFETY: the block is in use; after each call the one returned is.
        unsafe {
            advise_huge_pages(block, advised);
            block.write_bytes(7, size / 8 * eighths);
            let block = resize(block, 64, 2 * size, true).expect("it is lengthened").as_ptr();
            assert!((0..size / 8 * eighths).all(|at| block.add(at).read() == 7));
            block.add(2 * size - 1).write(7);
            deallocate(block, 0);
        }
    }
}

/// Returns whether the kernel was advised to use huge pages at an address; `None` if it does not
/// tell.
#[cfg(target_os = "linux")]
fn is_advised(address: *mut u8) -> Option<bool> {
    let all = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mut lies_within = false;
    for line in all.lines() {
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = line.split(' ').next()?.split_once('-');
        if let Some((start, end)) = range.and_then(|(start, end)| number(start).zip(number(end))) {
            lies_within = (start..end).contains(&address.addr());
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| lies_within) {
            return Some(flags.split(' ').any(|flag| flag == "hg"));
        }
    }
    None
}

/// A block that begins with a kept run gets huge pages if the run was written all over and the
/// tuning is adaptive.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "no mapping is lengthened there")]
fn a_longer_block_gets_huge_pages_if_the_kept_run_is_dense() {
    alone::passes("global::native::heaps::mapping::tests::dense");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own"]
fn dense() {
    const LEN: usize = 4 * HUGE;
    // The kernel may not know of huge pages.
    let block = allocate(LEN, 64, Some(true)).expect("there is memory").as_ptr();
    let knows = is_advised(block).unwrap_or(false);
    // SAFETY: the block is in use, and not used any more; the first mapping is not kept.
    unsafe { deallocate(block, 60_000) };
    for (lengthen, is_written) in [
        (Lengthen::Adaptively, true),
        (Lengthen::Adaptively, false),
        (Lengthen::Plainly, true),
        (Lengthen::Plainly, false),
    ] {
        // Mappings count as wanted again.
        assert_eq!(allocate_kept(9 * LEN, 64, 60_000, Lengthen::No), None);
        let block = allocate(LEN, 64, None).expect("there is memory").as_ptr();
        // SAFETY: the block has these bytes, and is freed once; the next one as well.
        unsafe {
            if is_written {
                block.write_bytes(7, LEN);
            }
            assert!(deallocate(block, 60_000), "it is kept");
            let longer = allocate_kept(2 * LEN, 64, 60_000, lengthen);
            let longer = longer.expect("there is memory").as_ptr();
            let expected = knows && lengthen == Lengthen::Adaptively && is_written;
            assert_eq!(is_advised(longer).unwrap_or(false), expected, "{lengthen:?}, {is_written}");
            deallocate(longer, u32::MAX);
        }
    }
}

/// A kept mapping gets one advice for all of it, by its sample: huge pages only if that was written
/// all over.
#[cfg(target_os = "linux")]
#[test]
fn a_kept_mapping_is_advised_by_its_sample() {
    alone::passes("global::native::heaps::mapping::tests::advised_by_sample");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has made no mapping"]
fn advised_by_sample() {
    const LEN: usize = 4 * HUGE;
    for step in [3, 1] {
        // Mappings count as wanted again.
        let first = allocate(LEN, 64, None).expect("there is memory").as_ptr();
        // SAFETY: the block is in use, and not used any more.
        unsafe { deallocate(first, 60_000) };
        assert_eq!(allocate_kept(9 * LEN, 64, 60_000, Lengthen::No), None);
        let block = allocate(LEN, 64, None).expect("there is memory").as_ptr();
        kept::give_back(usize::MAX);
        let advised = kept::decide_huge_pages(block, LEN, kept::Contents::Anything);
        assert!(if step == 3 { advised == 3 * HUGE } else { advised == 0 }, "{advised}");
        // SAFETY: the block has these bytes, and is freed once.
        unsafe {
            advise_huge_pages(block, LEN - HUGE);
            let knows = is_advised(block).unwrap_or(false);
            (0..LEN).step_by(step * os::page_size()).for_each(|at| block.add(at).write(7));
            assert!(deallocate(block, 60_000), "it is kept");
            assert_eq!(is_advised(block).unwrap_or(false), knows && step == 1);
            kept::give_back(usize::MAX);
        }
    }
}

/// What a mapping's sample tells is learned before the sample goes, also if the mapping shrinks, or
/// is not kept. (Regression: the sample was looked at later, at addresses where nothing was.)
#[cfg(target_os = "linux")]
#[test]
fn a_sample_that_goes_is_learned_from() {
    alone::passes("global::native::heaps::mapping::tests::sample_goes");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has made no mapping"]
fn sample_goes() {
    const LEN: usize = 4 * HUGE;
    for shrinks in [true, false] {
        let block = allocate(LEN, 64, None).expect("there is memory").as_ptr();
        while kept::decide_huge_pages(block, LEN, kept::Contents::Anything) == LEN {}
        // SAFETY: the block has these bytes; it shrinks, or is not kept, and is not used any more.
        unsafe {
            block.write_bytes(7, LEN);
            if shrinks {
                assert_eq!(resize(block, 64, HUGE, true), NonNull::new(block));
            } else {
                assert!(!deallocate(block, 0));
            }
        }
        let next = allocate(LEN, 64, None).expect("there is memory").as_ptr();
        assert_eq!(kept::decide_huge_pages(next, LEN, kept::Contents::Anything), LEN);
    }
}

/// The first mapping of a program gets huge pages but for its end, before anything is known of it;
/// one that must be zeros gets none.
#[cfg(target_os = "linux")]
#[test]
fn a_new_mapping_is_advised() {
    alone::passes("global::native::heaps::mapping::tests::new_mapping");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, which has made no mapping"]
fn new_mapping() {
    const PAGEWISE: Pagewise = Pagewise::new();
    const LEN: usize = 40 * MIB;
    // The kernel may not know of huge pages.
    let advised = allocate(4 * HUGE, 64, Some(true)).expect("there is memory").as_ptr();
    let knows = is_advised(advised).unwrap_or(false);
    let (zeroed, block) = (PAGEWISE.allocate_zeroed(LEN), PAGEWISE.allocate(LEN));
    let places = [zeroed, block, block.wrapping_add(LEN - 1)];
    assert_eq!(places.map(|at| is_advised(at).unwrap_or(false)), [false, knows, false]);
    // SAFETY: the blocks are in use, and not used any more.
    unsafe {
        deallocate(advised, 0);
        PAGEWISE.free(zeroed);
        PAGEWISE.free(block);
    }
}

/// When there is no memory, what is kept goes back, and the block is allocated after all.
#[cfg(target_os = "linux")]
#[test]
fn what_is_kept_goes_back_for_want_of_memory() {
    alone::passes("global::native::heaps::mapping::tests::wanting");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, whose address space is limited"]
fn wanting() {
    for _ in 0..2 {
        let block = allocate(16 * HUGE, 64, None).expect("there is memory").as_ptr();
        // SAFETY: the block is in use, and not used any more.
        unsafe { deallocate(block, 60_000) };
        assert_eq!(allocate_kept(17 * HUGE, 64, 60_000, Lengthen::No), None);
    }
    assert!(kept::bytes() >= 16 * HUGE && !refused::has_any());
    let pages = std::fs::read_to_string("/proc/self/statm").expect("it is there");
    let pages: usize =
        pages.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    let limit = (pages * os::page_size() + 2 * HUGE) as libc::rlim_t;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let block = allocate(8 * HUGE, 64, None).expect("there is memory");
    assert_eq!(kept::bytes(), 0);
    // SAFETY: the block is in use, and not used any more.
    unsafe { deallocate(block.as_ptr(), 0) };
}

/// In the child of a fork no other thread is making a mapping any more.
#[cfg(unix)]
#[test]
fn nothing_is_coming_after_a_fork() {
    alone::passes("global::native::heaps::mapping::tests::coming");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own, which forks"]
fn coming() {
    // The fork handlers are registered with the first heap.
    let _ = registry::heap_for_test();
    IN_USE.pending.fetch_add(HUGE, Relaxed);
    assert!(alone::in_child(|| IN_USE.pending.load(Relaxed) == 0));
    assert_eq!(IN_USE.pending.load(Relaxed), HUGE);
}

/// A mark tells a block from any other: each bit of the address counts.
#[test]
fn a_mark_is_of_one_block() {
    let mark_at = |address: usize| mark(core::ptr::without_provenance_mut(address));
    for bit in 0..usize::BITS {
        assert_eq!(mark_at(0x1230) ^ mark_at(0x1230 ^ 1 << bit), 1 << bit, "{bit}");
    }
}
