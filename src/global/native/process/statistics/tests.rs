//! The figures of a process that does nothing else, exact to the block and the byte.

use super::*;
use crate::global::Pagewise;
use crate::global::native::lists::current;
use crate::os::alone;

const PAGEWISE: Pagewise = Pagewise::new();

/// Bytes of the medium and the large blocks.
const MEDIUM: usize = 40 << 10;
const LARGE: usize = 40 << 20;

fn allocate(count: usize, size: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..count).map(|_| PAGEWISE.allocate(size)).collect();
    assert!(blocks.iter().all(|block| !block.is_null()));
    blocks
}

fn free(blocks: &mut Vec<*mut u8>, count: usize) {
    for block in blocks.drain(..count) {
        // SAFETY: the block is in use, and freed once.
        unsafe { PAGEWISE.free(block) };
    }
}

/// Checks all figures of a process with this number of small and medium blocks and of threads, and
/// with two mappings.
fn expect(small: usize, medium: usize, threads: usize) {
    let stats = stats();
    let mapped = mapping::usage();
    assert_eq!(stats.blocks, small + medium + 2);
    assert_eq!((stats.mappings, stats.mapped), (2, mapped.bytes));
    assert!(mapped.bytes >= 2 * LARGE && mapped.bytes <= 2 * LARGE + (1 << 18));
    let class = sizes::class_size(sizes::offset(64));
    let bytes = small * class + medium * medium::usable(MEDIUM);
    assert_eq!(stats.live, bytes + mapped.bytes);
    assert_eq!((stats.threads, stats.heaps), (threads, pool::all().len()));
    let sum = |figure: fn(&crate::Usage) -> usize| -> usize {
        let usages = pool::all().map(|heap| heap.with(|state| figure(&state.usage())));
        usages.map(|figure| figure.expect("nobody forks")).sum()
    };
    assert_eq!(stats.held, sum(|usage| usage.held) + mapped.bytes + kept::bytes());
    assert_eq!(stats.peak_held, sum(|usage| usage.peak_held) + mapped.peak);
    assert_eq!(stats.quick + bytes, sum(|usage| usage.block));
    let purged: u64 = pool::all().filter_map(|heap| heap.with(|state| state.purged())).sum();
    assert_eq!(stats.purged, purged);
    let resident: usize = pool::all().map(|heap| heap.resident()).sum();
    assert!(resident > 0 && stats.resident.abs_diff(resident) <= 1 << 16);
    expect_classes(small);
}

/// Checks that the classes have the same small blocks, counted by pages.
fn expect_classes(small: usize) {
    let mut blocks = 0;
    let mut largest = 0;
    for_each_class(&mut |class| {
        blocks += class.blocks;
        assert!(class.size > largest, "from the smallest on");
        largest = class.size;
        assert!(class.pages > 0 && class.held >= class.pages * class.size);
        assert!((class.blocks + class.quick) * class.size <= class.held);
        if class.size == sizes::class_size(sizes::offset(64)) {
            assert_eq!(class.blocks, small);
        }
    });
    assert_eq!(blocks, small);
}

/// Blocks, bytes, lists and mappings in use are counted, freed ones are not, and heaps and threads
/// are summed.
#[test]
fn figures_are_exact() {
    alone::passes("global::native::process::statistics::tests::exact");
}

#[test]
#[ignore = "in a process of its own"]
fn exact() {
    let mut small = allocate(1000, 64);
    let mut medium = allocate(10, MEDIUM);
    let mut large = allocate(3, LARGE);
    free(&mut small, 490);
    free(&mut medium, 3);
    free(&mut large, 1);
    // A freed mapping is kept if the last one was wanted again.
    large.extend(allocate(1, LARGE));
    free(&mut large, 1);
    // A medium list gets room once a block of its class was turned away and then wanted.
    free(&mut medium, 1);
    medium.extend(allocate(1, MEDIUM));
    free(&mut medium, 1);
    assert!(medium::of(quick::of_face(current::lists())).kept().blocks > 0);

    expect(510, medium.len(), 1);

    // Another thread and its heap stay with their blocks; the blocks it freed are on its lists.
    let (done, is_done) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut blocks = allocate(300, 64);
        free(&mut blocks, 100);
        done.send(()).expect("the test waits");
        let _ = ends.recv();
        free(&mut blocks, 200);
    });
    is_done.recv().expect("it comes so far");
    expect(710, medium.len(), 2);
    drop(end);
    thread.join().expect("it ends");
    expect(510, medium.len(), 2);
    for blocks in [&mut small, &mut medium, &mut large] {
        free(blocks, blocks.len());
    }
    assert_eq!((stats().blocks, stats().live), (0, 0));
}
