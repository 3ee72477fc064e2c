//! Tests of classes and marks, and of lists that no thread has.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::{iter, ptr};
use std::collections::BTreeSet;

use super::budget::{LEAST, share_of_heap};
use super::class::{ABOVE, LISTS, MOST, ROUNDED, STEP, most_of_list};
use super::list::{ROOM, fence};
use super::room::MORE;
use super::*;
use crate::global::native::base::sizes;
use crate::global::native::base::visit::Visit;
use crate::global::native::heaps::pool;
use crate::global::native::lists::listed::Listed;
use crate::global::native::lists::{idle, registry};
use crate::global::tuning::{SMALL_MAX, Tuning};
use crate::os::{self, alone};

mod overflow;

/// Returns the largest class of each list, from the smallest up.
fn largest_classes() -> impl Iterator<Item = Class> + Clone {
    (0..LISTS).map(|list| Class::of(most_of_list(list)).expect("it has one"))
}

/// Makes lists with a limit of `limit` bytes, and full room in each.
fn lists(limit: usize) -> Box<Lists> {
    // SAFETY: all zeros is a valid value.
    let lists: Box<Lists> = unsafe { Box::new(MaybeUninit::zeroed().assume_init()) };
    lists.set_owner();
    lists.budget.store(limit, Relaxed);
    lists.with(|| lists.set_byte_limit(limit)).expect("nobody else is there");
    open(&lists);
    lists
}

/// Gives each list full room, for its largest class if it has none.
fn open(lists: &Lists) {
    for (class, list) in largest_classes().zip(&lists.lists) {
        if list.steps() == 0 {
            list.set_len_of(class, 0);
        }
        list.room.store(ROOM as u16, Relaxed);
    }
}

/// Returns a heap that no other thread uses. The calling thread gets lists, and with them a heap of
/// which it may keep [`LEAST`] bytes or more.
fn with_heap() -> &'static Heap {
    let heap = registry::heap_for_test();
    assert!(share_of_heap() >= LEAST);
    heap
}

/// Allocates a block of a class.
fn block(heap: &Heap, class: Class) -> NonNull<u8> {
    let layout = Layout::from_size_align(class.size(), UNIT).expect("it is one");
    // While another test forks, locks are not waited for, and `with` returns `None`.
    let mut blocks = core::iter::repeat_with(|| heap.with(|state| state.allocate(layout)));
    let block = blocks.find_map(|block| block).flatten().expect("there is memory");
    SPACE.mark_of(block.as_ptr()).store(mark::in_use(block.as_ptr(), class.0), Relaxed);
    block
}

/// As [`Lists::push_within`], if the gate is biased.
unsafe fn push(lists: &Lists, class: Class, block: NonNull<u8>, mark: &AtomicU32) -> bool {
    // SAFETY: the caller gives the guarantees that `push_within` asks for.
    lists.with_biased(|lists| unsafe { lists.push_within(class, block, mark) }) == Some(true)
}

/// Frees a block onto these lists, or else to its heap.
fn keep(lists: &Lists, class: Class, block: NonNull<u8>) {
    let mark = SPACE.mark_of(block.as_ptr());
    assert_eq!(mark.load(Relaxed), mark::in_use(block.as_ptr(), class.0));
    // SAFETY: the block is in use, and freed once.
    unsafe {
        if !push(lists, class, block, mark) && !lists.push_slowly(class, block, mark) {
            mark.store(mark::NONE, Relaxed);
            Heap::put_medium(&[block], Upkeep::IfDue);
        }
    }
}

/// Takes the block of a class that was freed last.
fn pop(lists: &Lists, class: Class) -> Option<NonNull<u8>> {
    lists.pop(class, || true).or_else(|| lists.pop_slowly(class))
}

/// Puts a block that was taken from a list back to its heap.
fn discard(block: NonNull<u8>) {
    clear_mark(block);
    // SAFETY: it is in use, and freed once.
    unsafe { Heap::put_medium(&[block], Upkeep::IfDue) };
}

/// Visits the lists: puts idle blocks back, or all.
fn visit(lists: &Lists, blocks: Blocks) -> bool {
    let any = lists.is_used() && lists.gate.shut() && {
        let passed = sync::heavy_barrier();
        // While other tests have barriers refused, the owner goes without them as well, from its
        // next turn on.
        assert!(lists.gate.is_owner_out(passed) || !passed);
        lists.put_back_at_visit(blocks)
    };
    lists.gate.open();
    any
}

fn is_kept(block: NonNull<u8>) -> bool {
    let mark = SPACE.mark_of(block.as_ptr()).load(Relaxed);
    mark & mark::KEPT != 0 && mark::class_of(mark, block.as_ptr()).is_some()
}

fn is_in_use(heap: &Heap, block: NonNull<u8>) -> bool {
    let mut lens = core::iter::repeat_with(|| heap.with(|state| state.len_of(block)));
    lens.find_map(|len| len).expect("it goes on until then").is_some()
}

fn count(lists: &Lists, class: Class) -> usize {
    lists.list(class).len()
}

/// An aligned request takes the last block of the list that is aligned so; the others stay in
/// order. The lists may hold as many blocks again.
#[test]
fn an_aligned_block_is_the_last_that_is() {
    let heap = with_heap();
    let class = Class::of(20 << 10).expect("there is one");
    let lists = lists(8 * class.size());
    let mut blocks: Vec<_> = (0..8).map(|_| block(heap, class)).collect();
    blocks.iter().for_each(|&block| keep(&lists, class, block));
    for align in [4096, 2048, 1024, 512, 256, 128, 64, 32] {
        let is_aligned = |block: &NonNull<u8>| block.addr().get().is_multiple_of(align);
        while let Some(number) = blocks.iter().rposition(is_aligned) {
            let expected = blocks.remove(number);
            assert_eq!(lists.pop_aligned(class, align), Some(expected), "{align}");
            assert!(!is_kept(expected));
            discard(expected);
        }
        assert_eq!(lists.pop_aligned(class, align), None, "{align}");
        assert_eq!(count(&lists, class), blocks.len());
    }
    while let Some(block) = blocks.pop() {
        assert_eq!(pop(&lists, class), Some(block));
        discard(block);
    }
    assert_eq!(pop(&lists, class), None);
    (0..8).for_each(|_| keep(&lists, class, block(heap, class)));
    assert_eq!(count(&lists, class), 8);
    lists.put_back_all();
}

/// Aligned blocks are freed onto lists and reused; each is aligned, and given out once.
#[test]
fn aligned_blocks_come_from_lists() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let thread = std::thread::spawn(|| {
        let (mut served, mut live) = (0, Vec::new());
        let mut random = 5_u64;
        let mut last = BTreeSet::new();
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let below = |most: u64| (random >> 33) % most;
            let (size, align) = ((14 << 10) + below(60 << 10) as usize, 16 << below(9));
            // SAFETY: blocks are freed once.
            unsafe {
                let block = PAGEWISE.allocate_aligned(size, align);
                assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                block.write_bytes(live.len() as u8, size);
                served += usize::from(last.remove(&block.addr()));
                live.push((block, size, live.len() as u8));
                if live.len() == 40 {
                    let (block, size, byte) = live.swap_remove(below(40) as usize);
                    let bytes = core::slice::from_raw_parts(block, size);
                    assert!(bytes.iter().all(|&other| other == byte), "{size}");
                    last.insert(block.addr());
                    PAGEWISE.free(block);
                }
            }
        }
        // SAFETY: as above.
        live.into_iter().for_each(|(block, ..)| unsafe { PAGEWISE.free(block) });
        served
    });
    let served = thread.join().expect("it ends");
    assert!(served > 1_000, "{served} blocks were met again");
}

/// A size of up to 128 KiB is rounded up to the next class: 16 KiB, and eight for each doubling
/// above it. Above it there are as many lists, with a class for each 2 KiB; without lists, no size
/// is rounded up to these.
#[test]
fn a_size_has_the_next_class() {
    let sizes: Vec<usize> = largest_classes().map(Class::size).collect();
    let doublings = [16, 32, 64, 128, 256, 512];
    let above = doublings.map(|kib| (9..=16).map(move |eighths| kib * 128 * eighths));
    let expected = [16 << 10].into_iter().chain(above.into_iter().flatten());
    assert_eq!(sizes, expected.collect::<Vec<usize>>());
    for size in (0..1100 << 10).step_by(16).flat_map(|size| [size, size + 1]) {
        let expected = sizes.iter().position(|&most| size <= most).filter(|_| size > ABOVE);
        let class = Class::of(size);
        assert_eq!(class.map(Class::list), expected, "{size}");
        let of_list = |list: usize| {
            if size <= ROUNDED { sizes[list] } else { size.next_multiple_of(STEP) }
        };
        assert_eq!(class.map(Class::size), expected.map(of_list));
        // If another test has opened the allocator already, quick lists serve some of these sizes.
        let is_small = size <= SMALL_MAX && sizes::offset(size) > 0;
        let served = class.filter(|_| !is_small);
        assert_eq!(Class::served(size), served);
        // The fast path finds them only once the allocator is open.
        let at_once = Class::served_at_once(size);
        assert!(at_once == served || (at_once.is_none() && sizes::most_small() > MOST), "{size}");
        let rounded = expected.filter(|_| size <= ROUNDED).map_or(size, of_list);
        let aligns = [UNIT, 2 * UNIT, MOST_ALIGN, 2 * MOST_ALIGN];
        assert_eq!(aligns.map(|align| round(size, align)), [rounded, rounded, rounded, size]);
    }
}

/// Where quick lists serve all sizes up to the largest that they may, classes serve those above, at
/// once as well. Where they serve few sizes, those between them and the first class have none.
/// (Regression: the fast path took these for sizes of the first class.)
#[test]
fn a_size_of_a_quick_list_is_of_no_class() {
    alone::passes("global::native::lists::medium::tests::apart");
    alone::passes("global::native::lists::medium::tests::far_apart");
}

/// Checks the classes of a process whose quick lists serve sizes of up to `crossover` bytes.
fn serves_above(crossover: usize) {
    use crate::global::Pagewise;
    use crate::sizemap::SizeMap;
    let pages = Tuning::new().pages.page_size(128 << 10).ffcrossover(crossover);
    let pages = pages.sizemap(SizeMap::PageFitting);
    let pagewise = Pagewise { tuning: Tuning::new().pages(pages) };
    assert!(!pagewise.allocate(1).is_null() && sizes::offset(crossover) > 0);
    for size in 1..=MOST + 1 {
        let expected = Class::of(size).filter(|_| size > crossover);
        assert_eq!([Class::served(size), Class::served_at_once(size)], [expected; 2], "{size}");
    }
}

#[test]
#[ignore = "in a process of its own"]
fn apart() {
    serves_above(SMALL_MAX);
}

#[test]
#[ignore = "in a process of its own"]
fn far_apart() {
    serves_above(8 << 10);
}

/// A mark tells its block's class, kept or not, and matches no other address in its granule,
/// aligned or not.
#[test]
fn a_mark_is_of_one_block() {
    let granule = SPACE.slot(0).wrapping_add(1 << 20);
    let at = |unit: usize| granule.wrapping_add(unit * UNIT);
    for class in largest_classes() {
        for unit in [0, 1, 2, 500, 512, 1022, 1023] {
            let mark = mark::in_use(at(unit), class.0);
            for mark in [mark, mark | mark::KEPT] {
                for other in 0..1024 {
                    let known = mark::class_of(mark, at(other)).map(Class);
                    assert_eq!(known, (other == unit).then_some(class), "{unit}, {other}");
                }
                for bytes in 1..UNIT {
                    assert_eq!(mark::class_of(mark, at(unit).wrapping_add(bytes)), None, "{bytes}");
                }
            }
        }
    }
    assert!((0..1024).all(|unit| mark::class_of(mark::NONE, at(unit)).is_none()));
}

/// The block freed last is taken first. A full list puts its oldest quarter back.
#[test]
fn a_full_list_gives_its_oldest_quarter_back() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(20 << 10).expect("it has one");
    let blocks: Vec<_> = (0..ROOM + 1).map(|_| block(heap, class)).collect();
    for (at, &block) in blocks[..ROOM].iter().enumerate() {
        keep(&lists, class, block);
        assert_eq!(lists.kept(), Listed::of_size(at + 1, usable(class.size())));
        assert_eq!(lists.bytes(), (at + 1) * class.size());
    }
    keep(&lists, class, blocks[ROOM]);
    let old = ROOM.div_ceil(4);
    assert_eq!(count(&lists, class), ROOM + 1 - old);
    assert_eq!(lists.bytes(), (ROOM + 1 - old) * class.size());
    assert!(blocks[..old].iter().all(|&block| !is_in_use(heap, block)));
    for &expected in blocks[old..].iter().rev() {
        assert!(is_kept(expected));
        assert_eq!(pop(&lists, class), Some(expected));
        assert!(!is_kept(expected) && is_in_use(heap, expected));
    }
    assert_eq!((pop(&lists, class), lists.bytes()), (None, 0));
    blocks[old..].iter().for_each(|&block| keep(&lists, class, block));
    lists.put_back_all();
    assert!(blocks.iter().all(|&block| !is_in_use(heap, block)));
    assert_eq!((lists.kept(), lists.bytes()), (Listed::default(), 0));
}

/// When all lists together are at their limit, classes put half of their blocks back in turn, and
/// the block that is being freed is kept.
#[test]
fn lists_take_no_more_bytes_than_they_may() {
    let heap = with_heap();
    let most = LEAST / 2;
    let lists = lists(most);
    let mut blocks = BTreeSet::new();
    for round in 0..5 {
        for class in largest_classes() {
            let block = block(heap, class);
            keep(&lists, class, block);
            blocks.insert(block);
            let bytes = lists.bytes();
            let of_class = |class: Class| count(&lists, class) * class.size();
            let listed: usize = largest_classes().map(of_class).sum();
            assert!(bytes == listed && bytes <= most, "{bytes}, {listed}");
            assert!(round == 0 || bytes >= most / 4, "{bytes}");
        }
    }
    let kept = blocks.iter().filter(|&&block| is_kept(block)).count();
    assert_eq!(kept, lists.kept().blocks);
    lists.put_back_all();
    assert!(blocks.iter().all(|&block| !is_in_use(heap, block)));
    // A block larger than the limit is not kept.
    let lists = self::lists(class_of_most().size() - 1);
    let block = block(heap, class_of_most());
    keep(&lists, class_of_most(), block);
    assert!(!is_in_use(heap, block));
    assert_eq!(lists.kept(), Listed::default());
}

/// A block that is larger than the limit displaces no others; one that is as large as the limit is
/// kept, and displaces them.
#[test]
fn others_go_for_a_block_that_may_stay() {
    let heap = with_heap();
    let (small, large) = (Class::of(16 << 10).expect("it has one"), class_of_most());
    for (most, stays) in [(large.size() - 1, false), (large.size(), true)] {
        let lists = lists(most);
        (0..2).for_each(|_| keep(&lists, small, block(heap, small)));
        let block = block(heap, large);
        keep(&lists, large, block);
        assert_eq!((count(&lists, small), is_in_use(heap, block)), (2 - usize::from(stays), false));
        lists.put_back_all();
    }
}

/// Lists of other classes give way by turns, each half of its blocks.
#[test]
fn others_go_by_turns() {
    let heap = with_heap();
    let class = |kib: usize| Class::of(kib << 10).expect("there is one");
    let [freed, below, above] = [24, 20, 32].map(class);
    let lists = lists(4 * (below.size() + above.size()));
    for other in [below, above] {
        (0..4).for_each(|_| keep(&lists, other, block(heap, other)));
    }
    let counts = || [below, freed, above].map(|class| count(&lists, class));
    assert_eq!(counts(), [4, 0, 4]);
    for expected in [[2, 1, 4], [2, 2, 2], [2, 3, 2]] {
        keep(&lists, freed, block(heap, freed));
        assert_eq!(counts(), expected);
    }
    lists.put_back_all();
}

/// A block above 128 KiB is kept where there is room, displaces no others, and gives way to them.
#[test]
fn no_others_go_for_a_block_above_128_kib() {
    let heap = with_heap();
    let [small, large] = [32 << 10, 256 << 10].map(|size| Class::of(size).expect("it has one"));
    let lists = lists(large.size() + 2 * small.size());
    let counts = || [small, large].map(|class| count(&lists, class));
    let free = |class| {
        let block = block(heap, class);
        keep(&lists, class, block);
        is_in_use(heap, block)
    };
    assert_eq!(([small, large, small].map(free), counts()), ([true; 3], [2, 1]));
    assert_eq!((free(large), counts()), (false, [2, 1]), "there is no room");
    assert_eq!((free(small), counts()), (true, [3, 0]));
    assert_eq!((free(large), counts()), (false, [3, 0]));
    lists.put_back_all();
}

/// A thread's free block serves its next request of the same size, up to 1 MiB.
#[test]
fn buffers_of_one_size_are_kept() {
    alone::passes("global::native::lists::medium::tests::buffers");
}

#[test]
#[ignore = "in a process of its own"]
fn buffers() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let kept = || of(current::lists()).kept().blocks;
    // At first a list has room for no block, and above 128 KiB it turns to a size when that is
    // wanted: the first block has the bytes of its class only if its size is that of one.
    const NEVER: usize = usize::MAX;
    for (size, from) in [
        (128 << 10, 1),
        (192 << 10, 1),
        ((192 << 10) + 1, 2),
        (250_000, 2),
        (1 << 20, 1),
        ((1 << 20) + 1, NEVER),
        ((1 << 20) + (128 << 10), NEVER),
    ] {
        let before = kept();
        for number in 0..4 {
            let block = PAGEWISE.allocate(size);
            assert_eq!(kept(), before);
            // SAFETY: the block has this many bytes, and is freed once.
            unsafe {
                block.write_bytes(number as u8, size);
                PAGEWISE.free(block);
            }
            assert_eq!(kept() - before, usize::from(number >= from), "{size}, {number}");
        }
    }
    // A buffer of zeros is the heap's, which knows what holds zeros already, also where the list
    // has room for it.
    let listed = PAGEWISE.allocate(1 << 20);
    let before = kept();
    for _ in 0..3 {
        let block = PAGEWISE.allocate_zeroed(1 << 20);
        assert_eq!(kept(), before);
        // SAFETY: the block is freed once.
        unsafe { PAGEWISE.free(block) };
        assert_eq!(kept(), before);
    }
    // SAFETY: the block is freed once.
    unsafe { PAGEWISE.free(listed) };
    assert_eq!(kept(), before + 1);
}

/// Of blocks above 128 KiB whose sizes are drawn at random, few are kept.
#[test]
fn sizes_at_random_are_hardly_kept() {
    alone::passes("global::native::lists::medium::tests::at_random");
}

#[test]
#[ignore = "in a process of its own"]
fn at_random() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let mut live = [ptr::null_mut(); 40];
    let mut random = 5_u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    let mut most = 0;
    for _ in 0..20_000 {
        let (place, size) =
            (below(40) as usize, ROUNDED + 1 + below((MOST - ROUNDED) as u64) as usize);
        // SAFETY: each block is freed once.
        unsafe { PAGEWISE.free(live[place]) };
        live[place] = PAGEWISE.allocate(size);
        most = most.max(of(current::lists()).kept().bytes);
    }
    // SAFETY: as above.
    live.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
    assert!(most < 3 * MOST / 2, "{most} bytes");
}

/// Above 128 KiB a list has one class at a time. It turns to another that is wanted once it has no
/// room: at once if it never had, or when its room was halved often enough. Then the blocks of the
/// class before go back.
#[test]
fn a_list_above_128_kib_turns_to_what_is_wanted() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [one, other] = [200_000, 206_000].map(|size| Class::of(size).expect("it has one"));
    assert!(one.list() == other.list() && one != other);
    let list = lists.list(one);
    list.room.store(0, Relaxed);
    lists.turn_to(one);
    assert!(list.is_of(one) && !list.is_of(other));
    list.room.store(5, Relaxed);
    let blocks = [block(heap, one), block(heap, one)];
    blocks.into_iter().for_each(|block| keep(&lists, one, block));
    for room in [5, 2, 1] {
        lists.turn_to(other);
        assert_eq!((list.room.load(Relaxed), count(&lists, one)), (room, 2));
    }
    assert_eq!(pop(&lists, other), None);
    let foreign = block(heap, other);
    keep(&lists, other, foreign);
    assert!(!is_in_use(heap, foreign) && list.len() == 2);
    assert_eq!(
        [lists.pop_aligned(other, UNIT), lists.pop_aligned(one, UNIT)],
        [None, Some(blocks[1])]
    );
    keep(&lists, one, blocks[1]);
    lists.turn_to(other);
    assert!(list.is_of(one), "its last block was freed since");
    lists.turn_to(other);
    assert!(list.is_of(other) && list.room.load(Relaxed) == 0);
    assert!(blocks.iter().all(|&block| !is_in_use(heap, block)));
    assert_eq!((lists.kept(), lists.wanted(one, |_| ROOM)), (Listed::default(), 0));
    // While a visitor is there, who may have taken the blocks off the list to look at them, it does
    // not turn.
    assert!(lists.gate.shut());
    lists.turn_to(one);
    assert!(list.is_of(other));
    lists.gate.open();
}

/// A size that is freed and allocated between requests for others keeps its list.
#[test]
fn a_size_in_use_keeps_its_list() {
    alone::passes("global::native::lists::medium::tests::size_in_use");
}

#[test]
#[ignore = "in a process of its own"]
fn size_in_use() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    // SAFETY: each block is in use, and freed once.
    let free = |block| unsafe { PAGEWISE.free(block) };
    (0..3).for_each(|_| free(PAGEWISE.allocate(256 << 10)));
    let class = Class::of(256 << 10).expect("it has one");
    for _ in 0..100 {
        assert_eq!(count(of(current::lists()), class), 1);
        free(PAGEWISE.allocate(250_000));
        free(PAGEWISE.allocate(256 << 10));
    }
    assert!(is_listed(class));
}

/// A list with room for its own class keeps that while its blocks are in use, and wants no run of
/// another; what went back when it was full does not count for the next class.
#[test]
fn a_list_with_room_keeps_its_class() {
    let (_heap, lists) = (with_heap(), lists(LEAST));
    let [one, other] = [200_000, 206_000].map(|size| Class::of(size).expect("it has one"));
    let list = lists.list(one);
    list.room.store(0, Relaxed);
    lists.turn_to(one);
    list.room.store(2, Relaxed);
    list.overflown.store(9, Relaxed);
    assert_eq!([one, other].map(|class| lists.wanted(class, |_| ROOM)), [2, 0]);
    lists.turn_to(other);
    assert_eq!((list.room.load(Relaxed), list.is_of(one)), (1, true));
    lists.turn_to(other);
    assert_eq!((list.room.load(Relaxed), list.is_of(other)), (0, true));
    list.room.store(2, Relaxed);
    assert_eq!([one, other].map(|class| lists.wanted(class, |_| ROOM)), [0; 2]);
}

/// A list with room takes no block of another class than its own, but counts it as turned away.
#[test]
fn a_list_takes_blocks_of_its_class_only() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [one, other] = [200_000, 206_000].map(|size| Class::of(size).expect("it has one"));
    let list = lists.list(one);
    list.room.store(0, Relaxed);
    lists.turn_to(one);
    list.room.store(3, Relaxed);
    let [own, foreign] = [block(heap, one), block(heap, other)];
    keep(&lists, one, own);
    keep(&lists, other, foreign);
    assert!(list.is_of(one) && list.len() == 1 && !is_in_use(heap, foreign));
    assert_eq!((pop(&lists, other), pop(&lists, one)), (None, Some(own)));
    discard(own);
    // Once the list has that class, the block would have served.
    list.room.store(0, Relaxed);
    lists.turn_to(other);
    lists.note_miss(other);
    assert_eq!(list.room.load(Relaxed), 1);
}

/// What blocks leave when they are put back is what they took, though their class is not the
/// largest of its list.
#[test]
fn blocks_that_are_put_back_leave_their_bytes() {
    let heap = with_heap();
    let class = Class::of(200_000).expect("there is one");
    let lists = lists(3 * class.size());
    let list = lists.list(class);
    list.room.store(0, Relaxed);
    lists.turn_to(class);
    list.room.store(8, Relaxed);
    for _ in 0..40 {
        (0..5).for_each(|_| keep(&lists, class, block(heap, class)));
        assert_eq!(list.len(), 3);
        lists.put_back(class, ROOM);
    }
}

/// A request of up to 128 KiB takes no block above that.
#[test]
fn no_larger_block_serves_from_above_128_kib() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [last, next] = [ROUNDED, ROUNDED + 1].map(|size| Class::of(size).expect("it has one"));
    let list = lists.list(next);
    list.room.store(0, Relaxed);
    lists.turn_to(next);
    list.room.store(1, Relaxed);
    let kept = block(heap, next);
    keep(&lists, next, kept);
    assert_eq!((lists.pop_slowly(last), lists.pop_slowly(next)), (None, Some(kept)));
    discard(kept);
}

/// A list that lost its room, but not its blocks, as after a visit, does not turn while it has
/// them, since they would serve requests for longer ones. It puts them back at the next request for
/// another class, or at the first after a visitor who kept it from that.
#[test]
fn a_list_without_room_turns_only_without_blocks() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [one, other] = [200_000, 206_000].map(|size| Class::of(size).expect("it has one"));
    let list = lists.list(one);
    list.room.store(0, Relaxed);
    lists.turn_to(one);
    list.room.store(1, Relaxed);
    let kept = block(heap, one);
    keep(&lists, one, kept);
    assert!(lists.gate.shut());
    lists.turn_to(other);
    lists.gate.open();
    assert_eq!((list.room.load(Relaxed), list.is_of(one), list.len()), (0, true, 1));
    lists.turn_to(other);
    assert_eq!((list.is_of(other), list.len()), (true, 0));
    assert!(!is_in_use(heap, kept) && lists.bytes() == 0);
}

/// The first free after a visit determines the limit anew, though the list has no room for the
/// block. (Regression: above 128 KiB it did not, so nobody told the background thread of the blocks
/// that the visit had left.)
#[test]
fn a_free_after_a_visit_is_noticed_without_room() {
    let heap = with_heap();
    for (kept, freed) in [(50_000, 50_000), (200_000, 200_000), (200_000, 206_000)] {
        let [class, freed] = [kept, freed].map(|size| Class::of(size).expect("it has one"));
        let lists = lists(LEAST);
        let list = lists.list(class);
        list.room.store(0, Relaxed);
        lists.turn_to(class);
        list.room.store(1, Relaxed);
        keep(&lists, class, block(heap, class));
        assert!(!visit(&lists, Blocks::Idle) && list.len() == 1, "it was just freed");
        assert_eq!(lists.byte_limit.load(Relaxed), 0);
        list.room.store(1, Relaxed);
        keep(&lists, freed, block(heap, freed));
        assert!(list.len() == 1 && lists.byte_limit.load(Relaxed) > 0, "{freed:?}");
        lists.put_back_all();
    }
}

/// Blocks are put back as those of the class that their list has, whatever it had when that was
/// looked up: a signal handler may have turned it since.
#[test]
fn a_list_that_turned_meanwhile_keeps_its_blocks() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [one, other] = [200_000, 206_000].map(|size| Class::of(size).expect("it has one"));
    let list = lists.list(one);
    list.room.store(0, Relaxed);
    lists.turn_to(other);
    list.room.store(2, Relaxed);
    let blocks = [block(heap, other), block(heap, other)];
    blocks.into_iter().for_each(|block| keep(&lists, other, block));
    lists.put_back(one, 1);
    assert_eq!((pop(&lists, one), count(&lists, other)), (None, 2));
    for block in blocks.into_iter().rev() {
        assert_eq!(pop(&lists, other), Some(block));
        discard(block);
    }
}

/// Arrays that grow by doubling and copying, again and again, are not kept: a block above 128 KiB
/// that is wanted was not the last that was turned away.
#[test]
fn arrays_that_double_are_not_kept() {
    alone::passes("global::native::lists::medium::tests::doubling");
}

#[test]
#[ignore = "in a process of its own"]
fn doubling() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let kept = || of(current::lists()).kept().blocks;
    let before = kept();
    for _ in 0..5 {
        let mut array = PAGEWISE.allocate(256 << 10);
        for longer in [512 << 10, 1 << 20] {
            let next = PAGEWISE.allocate(longer);
            // SAFETY: the block is in use, and freed once.
            unsafe { PAGEWISE.free(array) };
            array = next;
        }
        // SAFETY: as above.
        unsafe { PAGEWISE.free(array) };
        assert_eq!(kept(), before);
    }
}

/// A thread that has no lists frees a medium block to its heap, and nothing remains to say that it
/// has a class: a longer block that starts there later would pass for one that is damaged.
#[test]
fn a_block_freed_by_a_thread_without_lists_has_no_mark() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let heap = with_heap();
    let block = block(heap, class_of_most());
    let address = block.as_ptr().expose_provenance();
    let freeing = std::thread::spawn(move || {
        assert!(quick::is_none(current::lists()));
        // SAFETY: the block is in use, and freed once.
        unsafe { PAGEWISE.free(ptr::with_exposed_provenance_mut(address)) };
        assert!(quick::is_none(current::lists()));
    });
    freeing.join().expect("it ends");
    assert!(!is_in_use(heap, block));
    assert_eq!(SPACE.mark_of(block.as_ptr()).load(Relaxed), mark::NONE);
}

/// A block on a list whose mark says that it is in use does not go back to its heap.
#[test]
fn a_block_whose_mark_differs_is_not_put_back() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(20 << 10).expect("there is one");
    let blocks = [block(heap, class), block(heap, class)];
    open(&lists);
    blocks.into_iter().for_each(|block| keep(&lists, class, block));
    let [block, other] = blocks;
    assert_eq!(count(&lists, class), 2);
    SPACE.mark_of(block.as_ptr()).store(mark::in_use(block.as_ptr(), class.0), Relaxed);
    lists.put_back_all();
    assert!(is_in_use(heap, block) && !is_in_use(heap, other));
    discard(block);
}

fn class_of_most() -> Class {
    Class::of(ROUNDED).expect("it has one")
}

/// A block that was on a list at one visit and is still there at the next goes back; with `all`, at
/// the first.
#[test]
fn idle_blocks_go_back_at_the_second_visit() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(50_000).expect("it has one");
    assert!(!visit(&lists, Blocks::Idle) && !visit(&lists, Blocks::All));
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
    let first = block(heap, class);
    keep(&lists, class, first);
    assert!(!visit(&lists, Blocks::Idle), "it was just freed");
    assert!(is_kept(first));
    assert_eq!(lists.byte_limit.load(Relaxed), 0, "the next free is noticed");
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
    let second = block(heap, class);
    keep(&lists, class, second);
    assert!(visit(&lists, Blocks::Idle));
    assert!(!is_in_use(heap, first) && is_kept(second));
    assert_eq!(lists.list(class).room.load(Relaxed), 0, "nobody wanted it");
    open(&lists);
    assert_eq!(lists.kept(), Listed::of_size(1, usable(class.size())));
    // The flag of the last visit is no part of the block's address.
    assert_eq!(pop(&lists, class), Some(second));
    assert_eq!(pop(&lists, class), None);
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
    keep(&lists, class, second);
    assert!(visit(&lists, Blocks::All));
    assert!(!is_in_use(heap, second));
    assert!(!visit(&lists, Blocks::All), "there is nothing any more");
}

/// A list has no room until one of its blocks was turned away and then wanted: then for one block,
/// and for twice as many each further time, up to `ROOM`.
#[test]
fn a_list_has_room_once_a_block_of_it_was_wanted() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(18 << 10).expect("it has one");
    let list = lists.list(class);
    lists.remove_room(class);
    lists.note_miss(class);
    for room in [0, 1, 2, 4, 8, 16, 32] {
        assert_eq!(list.room.load(Relaxed), room);
        let blocks: Vec<_> = (0..=room).map(|_| block(heap, class)).collect();
        blocks.iter().for_each(|&block| keep(&lists, class, block));
        assert_eq!(count(&lists, class), room as usize);
        let away = blocks.iter().filter(|&&block| !is_in_use(heap, block));
        assert_eq!(away.count(), 1, "the one for which there was no room");
        while pop(&lists, class).is_some() {}
        blocks[..room as usize].iter().for_each(|&block| {
            clear_mark(block);
            // SAFETY: the block is in use, and freed once.
            unsafe { Heap::of(block.as_ptr()).deallocate(block) };
        });
        lists.note_miss(class);
        // No other block was turned away, so the room stays.
        lists.note_miss(class);
    }
    assert_eq!(list.room.load(Relaxed), ROOM as u16);
    lists.remove_room(class);
    keep(&lists, class, block(heap, class));
    // What was turned away before the list lost its room does not count.
    lists.remove_room(class);
    lists.note_miss(class);
    assert_eq!(list.room.load(Relaxed), 0);
}

/// A block above 128 KiB that is turned away and wanted gets room, though smaller blocks were
/// turned away meanwhile.
#[test]
fn smaller_blocks_do_not_count_as_turned_away_last() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let [large, other] = [256 << 10, 512 << 10].map(|size| Class::of(size).expect("it has one"));
    let room = |class| lists.list(class).room.load(Relaxed);
    let turn_away = |class| {
        lists.remove_room(class);
        keep(&lists, class, block(heap, class));
        assert_eq!(count(&lists, class), 0);
    };
    turn_away(other);
    turn_away(large);
    largest_classes().take_while(|class| class.size() <= ROUNDED).for_each(turn_away);
    lists.note_miss(other);
    lists.note_miss(large);
    assert_eq!([other, large].map(room), [0, 1]);
}

/// Where all blocks on the lists are of one class, the oldest quarter gives way to a block too
/// many. Once one was wanted in vain after that, the lists may hold as many more bytes, up to a
/// bound, until they are idle.
#[test]
fn lists_hold_more_bytes_once_these_were_wanted() {
    alone::passes("global::native::lists::medium::tests::more_bytes");
}

#[test]
#[ignore = "in a process of its own: other tests may use the thread's heap"]
fn more_bytes() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = class_of_most();
    for more in (0..=MORE + ROUNDED).step_by(ROUNDED) {
        assert_eq!(lists.more.load(Relaxed), more.min(MORE));
        let held = (share_of_heap() + more.min(MORE)) / ROUNDED;
        let blocks: Vec<_> = (0..=held).map(|_| block(heap, class)).collect();
        let share = share_of_heap();
        // So none has room in the overflow.
        lists.budget.store(share + more.min(MORE), Relaxed);
        blocks.iter().for_each(|&block| keep(&lists, class, block));
        assert_eq!(share_of_heap(), share, "little is in use");
        let (gone, kept) = blocks.split_at(held.div_ceil(4));
        assert_eq!(count(&lists, class), kept.len(), "{more}");
        assert!(!gone.iter().any(|&block| is_in_use(heap, block)));
        assert!(kept.iter().all(|&block| is_kept(block)));
        iter::from_fn(|| pop(&lists, class)).for_each(discard);
        lists.note_miss(class);
    }
    let two = [block(heap, class), block(heap, class)];
    two.into_iter().for_each(|block| keep(&lists, class, block));
    assert!(!visit(&lists, Blocks::Idle) && lists.more.load(Relaxed) == MORE);
    assert!(visit(&lists, Blocks::Idle));
    assert_eq!(lists.more.load(Relaxed), 0, "they were idle");
}

/// If a list is empty, a block of the next class serves, or of the next but one; none that is
/// larger or smaller, or above 128 KiB.
#[test]
fn the_next_larger_classes_serve() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let classes: Vec<_> = largest_classes().collect();
    for (number, &class) in classes.iter().enumerate() {
        let from = number.saturating_sub(1);
        let others = classes.iter().enumerate().skip(from).take(5);
        for (other, &kept) in others.filter(|&(other, _)| other != number) {
            let block = block(heap, kept);
            keep(&lists, kept, block);
            let serves = (number..=number + 2).contains(&other) && kept.size() <= ROUNDED;
            assert_eq!(lists.pop_slowly(class), serves.then_some(block), "{number}, {other}");
            if serves {
                keep(&lists, kept, block);
            }
            lists.put_back_all();
        }
    }
    // The nearest serves first.
    let three = [classes[4], classes[5], classes[6]];
    let blocks = three.map(|class| block(heap, class));
    three.into_iter().zip(blocks).for_each(|(class, block)| keep(&lists, class, block));
    assert_eq!([(); 3].map(|()| lists.pop_slowly(three[0])), blocks.map(Some));
    three.into_iter().zip(blocks).for_each(|(class, block)| keep(&lists, class, block));
    lists.put_back_all();
    assert_eq!(lists.pop_slowly(class_of_most()), None);
}

/// While a visitor is there, the owner neither takes nor puts any block; and a visitor stays out
/// while the owner, or another visitor, is inside.
#[test]
fn one_is_behind_the_gate_at_a_time() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(20 << 10).expect("it has one");
    let blocks = [(); 2].map(|()| block(heap, class));
    let mark = SPACE.mark_of(blocks[1].as_ptr());
    keep(&lists, class, blocks[0]);
    assert!(lists.gate.shut() && !lists.gate.shut());
    let passed = sync::heavy_barrier();
    assert!(lists.gate.is_owner_out(passed) || !passed);
    assert_eq!(pop(&lists, class), None);
    // SAFETY: the block is in use, and stays so.
    unsafe {
        assert!(!push(&lists, class, blocks[1], mark));
        assert!(!lists.push_slowly(class, blocks[1], mark));
    }
    lists.put_back_all();
    assert_eq!(count(&lists, class), 1, "its visitor does that");
    lists.gate.open();
    // A signal handler that interrupted the owner finds no block either.
    lists.with(|| {
        assert_eq!(pop(&lists, class), None);
        assert!(lists.gate.shut() && !lists.gate.is_owner_out(sync::heavy_barrier()));
        lists.gate.open();
    });
    keep(&lists, class, blocks[1]);
    assert_eq!([(); 2].map(|()| pop(&lists, class)), [Some(blocks[1]), Some(blocks[0])]);
    blocks.into_iter().for_each(|block| keep(&lists, class, block));
    // In the child of a fork, the threads that were at the lists stayed behind.
    assert!(lists.gate.shut());
    assert!(lists.forget_visitor() && !lists.forget_visitor());
    lists.recount();
    assert_eq!(pop(&lists, class), Some(blocks[1]));
    keep(&lists, class, blocks[1]);
    assert!(lists.gate.shut() && !lists.gate.enter());
    lists.forget_owner();
    lists.put_back_all();
    assert!(blocks.iter().all(|&block| !is_in_use(heap, block)));
}

/// When the lists are at their limit, classes put blocks back in turn, so blocks of sizes that are
/// not freed any more give way.
#[test]
fn lists_give_way_by_turns() {
    // With the limit a sum of block sizes, and with one that is not.
    [1 << 20, (1 << 20) - 1_000].into_iter().for_each(give_way);
}

fn give_way(most: usize) {
    let (heap, lists) = (with_heap(), lists(most));
    let old = || largest_classes().take_while(|class| class.size() <= 64 << 10);
    old().for_each(|class| keep(&lists, class, block(heap, class)));
    assert!(old().all(|class| count(&lists, class) == 1));
    for _ in 0..3 * LISTS {
        keep(&lists, class_of_most(), block(heap, class_of_most()));
    }
    assert!(old().all(|class| count(&lists, class) == 0));
    assert!(count(&lists, class_of_most()) > 0);
    lists.put_back_all();
}

/// A thread that has no block of a class takes one of the next larger; not for aligned requests.
#[test]
fn a_thread_takes_a_larger_block() {
    alone::passes("global::native::lists::medium::tests::larger");
}

#[test]
#[ignore = "of a thread's own lists, which other tests visit"]
fn larger() {
    let heap = with_heap();
    let own = of(quick::of_face(current::lists()));
    let limit = share_of_heap();
    own.with(|| own.set_byte_limit(limit)).expect("nobody else is there");
    open(own);
    let [class, larger] = [20 << 10, 22 << 10].map(|size| Class::of(size).expect("it has one"));
    assert_eq!(class.next(), Some(larger));
    let blocks = [(); 2].map(|()| block(heap, larger));
    for block in blocks {
        let mark = SPACE.mark_of(block.as_ptr());
        // SAFETY: the block is in use, and freed once.
        assert_eq!(own.with(|| unsafe { own.push_within(larger, block, mark) }), Some(true));
    }
    // The first call may fail because a look at the clock is due.
    let allocate = |align| (0..2).find_map(|_| allocate_slowly(class.size(), align));
    assert_eq!(allocate(2 * UNIT), None);
    assert_eq!(allocate(UNIT), Some(blocks[1]));
    assert_eq!(allocate(UNIT), Some(blocks[0]));
    assert_eq!(allocate(UNIT), None);
    blocks.into_iter().for_each(discard);
}

/// The child of a fork takes over the blocks of a thread that was at its lists, or was visited
/// there: those on a list, and those in the overflow.
#[cfg(unix)]
#[test]
fn the_child_of_a_fork_takes_over_from_other_threads() {
    alone::passes("global::native::lists::medium::tests::taken_over");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own"]
fn taken_over() {
    use std::sync::mpsc::channel;
    #[derive(Clone, Copy)]
    enum Lists {
        /// Their thread is there.
        Used,
        /// A visitor is there.
        Visited,
        /// Nobody is there.
        Left,
    }
    /// Runs a thread that keeps blocks, while this one forks. Returns whether the child has the
    /// first and the last after it adopted the thread's lists, but not before.
    fn is_taken_over(state: Lists) -> bool {
        let (ready, is_ready) = channel();
        let (done, is_done) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let heap = with_heap();
            let lists = of(quick::of_face(current::lists()));
            lists.budget.store(LEAST, Relaxed);
            lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
            open(lists);
            let class = Class::of(20 << 10).expect("it has one");
            lists.budget.store(2 * LEAST, Relaxed);
            lists.list(class).overflown.store(1, Relaxed);
            lists.note_miss(class);
            let blocks = [(); ROOM + 1].map(|()| block(heap, class));
            blocks.into_iter().for_each(|block| keep(lists, class, block));
            let [first, .., last] = blocks;
            assert!(is_kept(first) && is_kept(last));
            assert!(count(lists, class) < blocks.len() && lists.kept().blocks == blocks.len());
            let wait = || {
                let both = [first, last].map(|block| block.as_ptr().expose_provenance());
                ready.send((heap, both)).expect("it waits");
                is_done.recv().expect("the test says so");
            };
            match state {
                Lists::Used => lists.with(wait).expect("nobody else is there"),
                Lists::Visited => {
                    assert!(lists.gate.shut());
                    wait();
                    lists.gate.open();
                }
                Lists::Left => wait(),
            }
        });
        let (heap, both) = is_ready.recv().expect("the thread is there");
        let both = both
            .map(|block| NonNull::new(ptr::with_exposed_provenance_mut(block)).expect("it is one"));
        let has = alone::in_child(|| {
            let visit = |heap| _ = idle::put_back_of(heap, &mut Visit::unbounded());
            pool::all().for_each(visit);
            let before = both.map(|block| is_in_use(heap, block));
            registry::adopt_orphans();
            before == [true; 2] && both.map(|block| is_in_use(heap, block)) == [false; 2]
        });
        done.send(()).expect("the thread waits");
        thread.join().expect("it ends");
        has
    }
    registry::heap_for_test();
    assert!(is_taken_over(Lists::Used));
    assert!(is_taken_over(Lists::Visited));
    assert!(is_taken_over(Lists::Left));
}

/// No two blocks have the same fence: it depends on every bit of the address.
#[test]
fn every_block_has_a_fence_of_its_own() {
    let blocks = (0..usize::BITS).map(|bit| 1 << bit).chain([0]).map(ptr::without_provenance_mut);
    let fences: BTreeSet<_> = blocks.map(fence).collect();
    assert_eq!(fences.len(), usize::BITS as usize + 1);
    // A program may have the block's address, but not its complement.
    assert_eq!(fence(ptr::without_provenance_mut(16)), [!16; 2]);
}

/// Lists may be full to the byte: no block goes back for the one that fills them.
#[test]
fn lists_are_full_to_the_byte() {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let class = Class::of(16 << 10).expect("it has one");
    (0..ROOM).for_each(|_| keep(&lists, class, block(heap, class)));
    // The full list puts its oldest quarter back, after which the limit allows exactly one more.
    let left = ROOM - ROOM.div_ceil(4) + 1;
    lists.budget.store(left * class.size(), Relaxed);
    keep(&lists, class, block(heap, class));
    assert_eq!((count(&lists, class), lists.bytes()), (left, left * class.size()));
    lists.put_back_all();
}

/// The blocks on the lists of a heap's threads are put back, but only while the visit lasts.
#[test]
fn blocks_of_a_heaps_threads_go_back() {
    let heap = with_heap();
    // SAFETY: lists are never freed.
    let thread = unsafe { &*current::lists() };
    let (lists, before) = (of(current::lists()), thread.heap());
    let class = Class::of(50_000).expect("it has one");
    let block = block(heap, class);
    open(lists);
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody visits them");
    lists.budget.store(LEAST, Relaxed);
    keep(lists, class, block);
    thread.set_heap(heap);
    let mut over = Visit::in_passing();
    while !over.is_over() {}
    assert!(!idle::put_back_of(heap, &mut over), "the visit was over");
    assert!(idle::put_back_of(heap, &mut Visit::unbounded()));
    thread.set_heap(before);
    assert!(!is_in_use(heap, block));
}

/// What lists keep is asked without a look at the memory of lists that were never used. (Regression:
/// a thread that used small blocks only got seven OS pages for it.)
#[cfg(target_os = "linux")]
#[test]
fn unused_lists_are_not_touched() {
    registry::heap_for_test();
    let thread = quick::make(&Tuning::new()).expect("there is memory").as_ptr();
    let lists = of(thread);
    let is_touched = || os::is_resident((&raw const lists.lists[LISTS - 1]).cast_mut().cast());
    assert!(!is_touched());
    assert_eq!(lists.kept(), Listed::default());
    assert!(!is_touched());
}

/// Makes lists as a thread has them, which no thread has.
fn of_no_thread() -> *mut quick::Lists {
    let thread = quick::make(&Tuning::new()).expect("there is memory").as_ptr();
    let lists = of(thread);
    lists.set_owner();
    lists.budget.store(LEAST, Relaxed);
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
    open(lists);
    thread
}

/// A visit covers the lists of several threads: as many as it has time for, the blocks that were
/// there before or all, and none of lists whose thread, or another visitor, is inside.
#[test]
fn lists_of_several_threads_are_visited() {
    let (heap, class) = (with_heap(), Class::of(50_000).expect("it has one"));
    let threads = [(); 3].map(|()| of_no_thread());
    let blocks = threads.map(|thread| {
        let block = block(heap, class);
        keep(of(thread), class, block);
        block
    });
    let kept = || blocks.map(is_kept);
    // There is no time for any.
    assert_eq!(super::visit(&threads, Blocks::All, || false), (0, false));
    assert_eq!(kept(), [true; 3]);
    // The owner of the first is inside; another visitor has shut the second.
    of(threads[0]).with(|| {
        assert_eq!(super::visit(&threads[..1], Blocks::All, || true), (1, false));
    });
    assert!(of(threads[1]).gate.shut());
    assert_eq!(super::visit(&threads[1..2], Blocks::All, || true), (1, false));
    assert!(!of(threads[1]).gate.shut(), "the other is there still");
    of(threads[1]).gate.open();
    assert_eq!(kept(), [true; 3]);
    // There is time for two of three. Without barriers, the visit first asks an owner to drop the
    // bias.
    let mut time = [true, true].into_iter();
    let visited = super::visit(&threads, Blocks::Idle, || time.next().unwrap_or(false));
    assert_eq!(visited, (2, false), "nothing lay there before");
    let has_barriers = sync::heavy_barrier();
    let mut time = [true, true].into_iter();
    let visited = super::visit(&threads, Blocks::Idle, || time.next().unwrap_or(false));
    if has_barriers && sync::heavy_barrier() {
        assert_eq!((visited, kept()), ((2, true), [false, false, true]));
        assert_eq!(super::visit(&threads, Blocks::All, || true), (3, true));
        assert_eq!(kept(), [false; 3]);
        assert!(blocks.iter().all(|&block| !is_in_use(heap, block)));
    }
    // The lists are empty now, and no visitor is inside.
    threads.iter().for_each(|&thread| of(thread).put_back_all());
    assert_eq!(super::visit(&threads, Blocks::All, || true).0, 3);
    assert!(threads.iter().all(|&thread| of(thread).gate.shut()));
    threads.iter().for_each(|&thread| of(thread).gate.open());
}

/// A visit that is over puts nothing back, not even from its own thread's lists.
#[test]
fn a_visit_that_is_over_leaves_all_lists_alone() {
    alone::passes("global::native::lists::medium::tests::over");
}

#[test]
#[ignore = "of a thread's own lists, which other tests visit"]
fn over() {
    let heap = with_heap();
    let lists = quick::of_face(current::lists());
    let own = of(lists);
    let class = class_of_most();
    let limit = share_of_heap();
    own.with(|| own.set_byte_limit(limit)).expect("nobody else is there");
    open(own);
    let block = block(heap, class);
    // Without barriers the gate is not biased.
    let keeps = || {
        let mark = SPACE.mark_of(block.as_ptr());
        // SAFETY: the block is in use, and freed once.
        own.with(|| unsafe { own.push_within(class, block, mark) }) == Some(true)
    };
    assert!(keeps());
    assert_eq!(super::visit(&[lists], Blocks::All, || false), (0, false));
    assert!(is_kept(block));
    // The block serves a request on the slow path; now and then periodic work is due.
    let size = class.size();
    let served = (0..9).find_map(|_| allocate_slowly(size, UNIT));
    assert_eq!(served, Some(block));
    assert_eq!(allocate_slowly(size, 2 * UNIT), None);
    assert!(keeps());
    assert_eq!(super::visit(&[lists], Blocks::All, || true), (1, true));
    assert!(!is_kept(block) && !is_in_use(heap, block));
}

/// A write to either of the two words at the start of a block on a list is noticed.
#[test]
fn a_write_to_either_word_of_a_kept_block_stops_the_process() {
    for test in ["first", "second"] {
        let ended = alone::run(&format!("global::native::lists::medium::tests::written_{test}"));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains("pagewise: "), "{test}: {said}");
    }
}

fn written(word: usize) {
    let (heap, lists) = (with_heap(), lists(LEAST));
    let block = block(heap, class_of_most());
    keep(&lists, class_of_most(), block);
    assert!(is_kept(block));
    // SAFETY: this is the misuse to be noticed; the block is on a list, and the program keeps
    // nothing in it.
    unsafe { block.cast::<usize>().add(word).write(7) };
    pop(&lists, class_of_most());
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn written_first() {
    written(0);
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn written_second() {
    written(1);
}

/// Makes lists that may keep `limit` bytes, each of which was full.
fn full_before(limit: usize) -> &'static Lists {
    let lists = lists(limit);
    lists.lists.iter().for_each(|list| list.overflown.store(100, Relaxed));
    Box::leak(lists)
}

/// A list that was full and runs dry gets several blocks: as many as went back, and it may keep.
#[test]
fn a_list_that_was_full_wants_a_run() {
    with_heap();
    let class = Class::of(20 << 10).expect("there is one");
    let wanted = |lists, size, align| Run::wanted_by(lists, size, align).map(|run| run.wanted());
    let own = full_before(LEAST);
    assert_eq!(wanted(own, class.size(), UNIT), Some(15));
    assert_eq!(wanted(own, 128 << 10, UNIT), Some(3), "half a mebibyte");
    assert_eq!(wanted(own, class.size() - 1, UNIT), None, "not a class's size");
    assert_eq!(wanted(own, class.size(), 4096), None);
    assert_eq!(
        wanted(full_before(3 * class.size()), class.size(), UNIT),
        Some(3),
        "it may keep three"
    );
    assert_eq!(wanted(full_before(class.size() - 1), class.size(), UNIT), None);
    own.list(class).overflown.store(3, Relaxed);
    assert_eq!(wanted(own, class.size(), UNIT), Some(2), "three went back");
    own.note_taken(class, 1);
    own.note_miss(class);
    assert_eq!(wanted(own, class.size(), UNIT), None, "two were taken");
    own.list(class).overflown.store(100, Relaxed);
    own.remove_room(class);
    open(own);
    assert_eq!(wanted(own, class.size(), UNIT), None, "it was idle");
    own.list(class).overflown.store(100, Relaxed);
    own.list(class).room.store(4, Relaxed);
    assert_eq!(wanted(own, class.size(), UNIT), Some(4), "it has room for four");
}

/// The run's blocks are handed out in the order in which the heap gave them. If the list does not
/// take them after all, they go back to their heap.
#[test]
fn a_list_that_runs_dry_gets_a_run() {
    let heap = with_heap();
    let class = Class::of(20 << 10).expect("there is one");
    let layout = Layout::from_size_align(class.size(), UNIT).expect("it is one");
    let filled = |lists| {
        let mut run = Run::wanted_by(lists, class.size(), UNIT).expect("it was full");
        let mut blocks = Vec::new();
        let taken = iter::repeat_with(|| {
            heap.with(|state| {
                state.allocate_run(layout, 1 + run.wanted(), |block| blocks.push(block))
            })
        });
        let first = taken.flatten().next().flatten().expect("there is memory");
        blocks.iter().for_each(|&block| run.add(block));
        set_mark(first, class.size(), UNIT);
        (run, first, blocks)
    };

    let own = full_before(LEAST);
    open(own);
    own.list(class).room.store(4, Relaxed);
    let (run, first, blocks) = filled(own);
    run.put_on_list();
    let popped: Vec<_> = iter::from_fn(|| pop(own, class)).collect();
    assert!(!blocks.is_empty() && popped == blocks);
    assert!(blocks.is_sorted() && blocks.iter().all(|&block| is_in_use(heap, block)));
    assert_eq!(own.list(class).overflown.load(Relaxed) as usize, 100 - blocks.len());
    popped.into_iter().chain([first]).for_each(discard);

    let (run, first, blocks) = filled(own);
    own.list(class).room.store(2, Relaxed);
    run.put_on_list();
    let kept: Vec<_> = iter::from_fn(|| pop(own, class)).collect();
    assert_eq!(kept, blocks[blocks.len() - 2..]);
    let refused = &blocks[..blocks.len() - 2];
    assert!(!refused.iter().any(|&block| is_in_use(heap, block)));
    // A longer block that starts there later would pass for one of this class that is damaged.
    assert!(refused.iter().all(|block| SPACE.mark_of(block.as_ptr()).load(Relaxed) == mark::NONE));
    kept.into_iter().chain([first]).for_each(discard);

    open(own);
    let (run, first, blocks) = filled(own);
    assert!(own.gate.shut());
    run.put_on_list();
    own.gate.open();
    assert!(count(own, class) == 0 && !blocks.iter().any(|&block| is_in_use(heap, block)));
    discard(first);
}

/// Waves of more blocks than lists and overflow keep: every block has the bytes that were written
/// to it, and lists that ran dry got runs.
#[test]
fn long_waves_keep_their_contents() {
    alone::passes("global::native::lists::medium::tests::long_waves");
}

#[test]
#[ignore = "in a process of its own"]
fn long_waves() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    let kept = || of(current::lists()).kept().blocks;
    for (size, count) in [(20_000, 1_000), (61_000, 400), (ROUNDED, 200)] {
        let mut runs = 0;
        for wave in 0..6 {
            let mut before = kept();
            let blocks: Vec<*mut u8> = (0..count)
                .map(|number| {
                    let block = PAGEWISE.allocate(size);
                    runs += usize::from(kept() > before);
                    before = kept();
                    // SAFETY: the block was just allocated, and has this many bytes.
                    unsafe { block.write_bytes(number as u8, size) };
                    block
                })
                .collect();
            let mut order: Vec<usize> = (0..count).collect();
            match wave % 3 {
                0 => {}
                1 => order.reverse(),
                _ => order.sort_by_key(|number| number * 37 % count),
            }
            for number in order {
                // SAFETY: the block is in use, has this many bytes, and is freed once.
                unsafe {
                    let contents = core::slice::from_raw_parts(blocks[number], size);
                    assert!(contents.iter().all(|&byte| byte == number as u8), "{size}, {wave}");
                    PAGEWISE.free(blocks[number]);
                }
            }
        }
        assert!(runs > 40, "{runs} runs of blocks of {size} bytes");
    }
}
