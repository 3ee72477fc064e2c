//! Tests of the overflow.

use super::super::overflow::PLACES;
use super::*;

/// The bytes of lists with an overflow that has room for `PLACES` of the smallest blocks.
const BUDGET: usize = LEAST + (PLACES << 14);

fn class_of(size: usize) -> Class {
    Class::of(size).expect("it has one")
}

/// Makes lists as [`lists`], whose overflow has this class: the list of the class was full, and ran
/// dry.
fn with_overflow(class: Class) -> Box<Lists> {
    let lists = lists(LEAST);
    lists.budget.store(BUDGET, Relaxed);
    lists.list(class).overflown.store(1, Relaxed);
    lists.note_miss(class);
    assert!(lists.overflow.is_of(class) && lists.overflow.len() == 0);
    lists
}

/// Frees `count` new blocks of a class onto the lists; returns them.
fn keep_new(heap: &Heap, lists: &Lists, class: Class, count: usize) -> Vec<NonNull<u8>> {
    let blocks: Vec<_> = (0..count).map(|_| block(heap, class)).collect();
    blocks.iter().for_each(|&block| keep(lists, class, block));
    blocks
}

/// Blocks that a full list has no place for stay with the thread, and are taken again. All are
/// counted.
#[test]
fn a_wave_stays_with_its_thread() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    for count in [ROOM + 1, 3 * ROOM, 400] {
        let blocks = keep_new(heap, &lists, class, count);
        assert_eq!(lists.kept(), Listed::of_size(count, usable(class.size())));
        assert!(lists.overflow.len() >= count - ROOM && lists.bytes() <= LEAST);
        assert!(blocks.iter().all(|&block| is_kept(block)));
        let taken: BTreeSet<_> = iter::from_fn(|| pop(&lists, class)).collect();
        assert_eq!(taken, blocks.into_iter().collect());
        assert_eq!((lists.kept(), lists.bytes()), (Listed::default(), 0));
        assert!(taken.iter().all(|&block| !is_kept(block) && is_in_use(heap, block)));
        taken.into_iter().for_each(discard);
    }
}

/// There are at most so many blocks, and bytes, as there are places and the budget allows. The
/// others go back to their heap.
#[test]
fn an_overflow_is_bounded() {
    let heap = with_heap();
    for (size, budget, most) in [
        (16 << 10, usize::MAX, PLACES),
        (16 << 10, LEAST + (100 << 14), 100),
        (128 << 10, BUDGET, (BUDGET - LEAST) >> 17),
        (128 << 10, LEAST, 0),
    ] {
        let class = class_of(size);
        let lists = with_overflow(class);
        lists.budget.store(budget, Relaxed);
        let blocks = keep_new(heap, &lists, class, most + 4 * ROOM);
        // The limit of the lists follows the heap's bytes in use.
        let most = most.min((budget - lists.byte_limit.load(Relaxed)) / size);
        let len = lists.overflow.len();
        assert!(len <= most && len + ROOM.div_ceil(4) > most, "{len} of {most}");
        let kept = blocks.iter().filter(|&&block| is_kept(block)).count();
        assert_eq!(kept, lists.kept().blocks);
        assert!(blocks.iter().all(|&block| is_kept(block) == is_in_use(heap, block)));
        lists.put_back_all();
        assert!(!blocks.iter().any(|&block| is_in_use(heap, block)));
        assert_eq!(lists.kept(), Listed::default());
    }
}

/// Lists that may hold more than before leave the overflow its part of the budget. (Regression: the
/// limit of the lists rose to the whole budget while the overflow was full.)
#[test]
fn lists_and_overflow_share_the_budget() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    let budget = share_of_heap() + (100 << 14);
    lists.budget.store(budget, Relaxed);
    keep_new(heap, &lists, class, 200);
    let held = lists.overflow.len() * class.size();
    assert!(held > 80 << 14);
    lists.more.store(MORE, Relaxed);
    keep_new(heap, &lists, class, ROOM);
    let held = lists.overflow.len() * class.size();
    assert!(lists.byte_limit.load(Relaxed) + held <= budget, "{held} bytes in the overflow");
    lists.put_back_all();
}

/// As many blocks return as the limit of the thread's lists leaves room for, and count against it.
#[test]
fn blocks_that_return_are_counted() {
    let (heap, class) = (with_heap(), class_of(40 << 10));
    let lists = with_overflow(class);
    keep_new(heap, &lists, class, 2 * ROOM);
    while lists.list(class).len() > 0 {
        assert!(pop(&lists, class).is_some());
    }
    let (steps, before) = (class.steps().cast_signed(), lists.left.load(Relaxed));
    lists.left.store(5 * steps + steps / 2, Relaxed);
    lists.return_overflow(class);
    assert_eq!((lists.list(class).len(), lists.left.load(Relaxed)), (5, steps / 2));
    lists.left.store(before - 5 * steps, Relaxed);
    lists.put_back_all();
}

/// A thread that only frees has no overflow. One class has it at a time, another when it is empty,
/// and none above 128 KiB.
#[test]
fn the_class_of_an_overflow_ran_dry() {
    let heap = with_heap();
    let (class, other) = (class_of(16 << 10), class_of(40 << 10));
    let lists = lists(LEAST);
    lists.budget.store(BUDGET, Relaxed);
    keep_new(heap, &lists, class, 2 * ROOM);
    assert_eq!(lists.overflow.len(), 0, "it only freed");
    lists.note_miss(other);
    assert!(!lists.overflow.is_of(other), "its list was not full");
    lists.note_miss(class);
    assert!(lists.overflow.is_of(class));
    keep_new(heap, &lists, class, ROOM);
    assert!(lists.overflow.len() > 0);
    lists.list(other).overflown.store(1, Relaxed);
    lists.note_miss(other);
    assert!(lists.overflow.is_of(class), "it has blocks");
    lists.put_overflow_back();
    lists.list(other).overflown.store(1, Relaxed);
    lists.note_miss(other);
    assert!(lists.overflow.is_of(other));
    let large = class_of(256 << 10);
    lists.list(large).overflown.store(1, Relaxed);
    lists.note_miss(large);
    assert!(lists.overflow.is_of(other));
    lists.put_back_all();
}

/// As many blocks go back as were not used since the last visit, or all.
#[test]
fn what_was_not_used_goes_back() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    keep_new(heap, &lists, class, 300);
    let full = lists.overflow.len();
    assert!(!visit(&lists, Blocks::Idle), "they were just freed");
    assert_eq!(lists.overflow.len(), full);
    // More than the list has are taken and freed.
    let taken: Vec<_> = (0..ROOM + 1).filter_map(|_| pop(&lists, class)).collect();
    let low = lists.overflow.len();
    assert!(taken.len() == ROOM + 1 && low < full);
    open(&lists);
    lists.with(|| lists.set_byte_limit(LEAST)).expect("nobody else is there");
    taken.into_iter().for_each(|block| keep(&lists, class, block));
    let before = lists.overflow.len();
    assert!(visit(&lists, Blocks::Idle));
    assert_eq!(lists.overflow.len(), before - low);
    assert!(lists.is_used() && visit(&lists, Blocks::All));
    assert!(lists.kept() == Listed::default() && !lists.overflow.is_of(class));
}

/// The overflow goes back if it has more bytes than a heap has to spare.
#[test]
fn an_overflow_makes_way() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    let blocks = keep_new(heap, &lists, class, 200);
    let before = lists.overflow.len();
    let bytes = before * class.size();
    lists.make_way(bytes);
    assert_eq!(lists.overflow.len(), before);
    lists.make_way(bytes - 1);
    assert_eq!(lists.overflow.len(), 0);
    assert_eq!(blocks.iter().filter(|&&block| !is_in_use(heap, block)).count(), before);
    lists.put_back_all();
}

/// While a visitor is there, the overflow neither takes nor gives a block.
#[test]
fn a_visitor_is_alone_with_an_overflow() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    keep_new(heap, &lists, class, 2 * ROOM);
    let (len, count) = (lists.overflow.len(), count(&lists, class));
    assert!(lists.gate.shut());
    let passed = sync::heavy_barrier();
    assert!(lists.gate.is_owner_out(passed) || !passed);
    assert!(!lists.overflow_oldest(class, 1));
    lists.put_overflow_back();
    lists.make_way(0);
    assert_eq!(pop(&lists, class), None);
    lists.gate.open();
    assert_eq!((lists.overflow.len(), super::count(&lists, class)), (len, count));
    lists.put_back_all();
    assert_eq!(lists.kept(), Listed::default());
}

/// A write to a block of the overflow stops the process when the block leaves it for its heap.
#[test]
fn a_write_to_a_block_of_the_overflow_stops_the_process() {
    let ended = alone::run("global::native::lists::medium::tests::overflow::written");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("pagewise: "), "{said}");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn written() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    let blocks = keep_new(heap, &lists, class, ROOM + 1);
    assert!(lists.overflow.len() > 0 && is_kept(blocks[0]));
    // SAFETY: this is the misuse to be noticed; the block is kept, and the program keeps nothing in
    // it.
    unsafe { blocks[0].cast::<usize>().write(7) };
    lists.put_overflow_back();
}

/// A second free of a block in the overflow stops the process.
#[test]
fn a_block_of_the_overflow_is_not_freed_twice() {
    let ended = alone::run("global::native::lists::medium::tests::overflow::freed_twice");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("freed twice"), "{said}");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_twice() {
    let (heap, class) = (with_heap(), class_of(16 << 10));
    let lists = with_overflow(class);
    let blocks = keep_new(heap, &lists, class, ROOM + 1);
    assert!(lists.overflow.len() > 0 && is_kept(blocks[0]));
    // SAFETY: this is the misuse to be noticed.
    unsafe { crate::global::Pagewise::new().free(blocks[0].as_ptr()) };
}

/// A program that frees a wave, and then allocates other sizes, does not keep the wave's memory:
/// the overflow makes way.
#[test]
fn other_sizes_get_the_memory_of_a_wave() {
    alone::passes("global::native::lists::medium::tests::overflow::other_sizes");
}

#[test]
#[ignore = "in a process of its own"]
fn other_sizes() {
    use crate::global::Pagewise;
    const PAGEWISE: Pagewise = Pagewise::new();
    const WAVE: usize = 8 << 20;
    let overflow = || of(current::lists()).overflow.len();
    let allocate = |size: usize, bytes: usize| -> Vec<_> {
        (0..bytes / size).map(|_| PAGEWISE.allocate(size)).collect()
    };
    // SAFETY: each block is in use, and freed once.
    let free =
        |blocks: Vec<*mut u8>| blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
    for _ in 0..4 {
        free(allocate(20_000, WAVE));
    }
    assert!(overflow() > 100, "{} blocks", overflow());
    for (size, waves) in [(30_000, 3), (1_000, 6)] {
        let blocks = allocate(size, waves * WAVE);
        assert_eq!(overflow(), 0, "blocks of {size} bytes");
        free(blocks);
        for _ in 0..4 {
            free(allocate(20_000, WAVE));
        }
        assert!(size == 1_000 || overflow() > 100, "{} blocks", overflow());
    }
}
