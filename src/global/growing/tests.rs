use std::alloc::{GlobalAlloc, System};

use super::*;

/// A block of memory that `grow` hands out in parts. Another user takes a page after each part.
struct Below {
    memory: *mut u8,
    used: usize,
    len: usize,
}

const PAGE: usize = 64 << 10;

impl Below {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len, PAGE).expect("a valid layout");
        // SAFETY: the layout's size is not 0. The memory outlives the heap over it.
        let memory = unsafe { System.alloc(layout) };
        assert!(!memory.is_null(), "the test has memory");
        Self { memory, used: 0, len }
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let layout = Layout::from_size_align(self.len, PAGE).expect("it was one");
        // SAFETY: the memory was allocated with this layout, and the heap over it is dropped as
        // well.
        unsafe { System.dealloc(self.memory, layout) };
    }
}

// SAFETY: only this value uses the memory, and each part is behind the one before.
unsafe impl Grow for Below {
    fn grow(&mut self, len: usize) -> Option<(*mut u8, usize)> {
        let len = len.next_multiple_of(PAGE);
        let start = self.used;
        if len > self.len.saturating_sub(start) {
            return None;
        }
        self.used += len + PAGE;
        Some((self.memory.wrapping_add(start), len))
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a valid layout")
}

/// A new region has room for the block that it was made for, whatever its size and alignment.
#[test]
fn a_region_has_room_for_what_it_is_made_for() {
    for size in [1, 1000, LEAST - 1, LEAST, LEAST + 1, 3 << 20, 17 << 20, (30 << 20) + 1] {
        for align in [1, 16, 4096, PAGE, 1 << 20] {
            let mut heap = Growing::new(Below::new(33 << 20));
            let block = heap.allocate(layout(size, align));
            let block = block.unwrap_or_else(|_| panic!("{size} bytes aligned to {align}"));
            assert!(block.len() >= size && block.cast::<u8>().addr().get().is_multiple_of(align));
            assert_eq!((heap.regions(), heap.audit()), (1, Ok(())));
        }
    }
}

/// The audit is that of each region.
#[test]
fn damage_in_any_region_is_told() {
    let mut heap = Growing::new(Below::new(33 << 20));
    let mut blocks = Vec::new();
    while heap.regions() < 2 {
        blocks.push(heap.allocate(layout(100_000, 16)).expect("there is memory"));
    }
    assert_eq!(heap.audit(), Ok(()));
    let first = blocks[0];
    // SAFETY: behind the block is the tag of the next one, in the memory of the first region.
    unsafe { first.cast::<u8>().add(first.len()).cast::<u32>().write(u32::MAX) };
    assert!(heap.audit().is_err());
}

/// A region's strategy is at its start and uses the rest up to the last byte.
#[test]
fn a_region_is_used_to_its_end() {
    let mut heap = Growing::new(Below::new(8 << 20));
    heap.allocate(layout(2 << 20, 16)).expect("there is memory");
    let Below { memory, used, .. } = heap.more;
    let rest = memory.addr() + size_of::<PageHeap<Region>>()..memory.addr() + used - PAGE;
    let addresses: Vec<_> =
        heap.heaps().map(|heap| heap.backing.source.get().addresses()).collect();
    assert_eq!(addresses, [rest]);
}

/// Fills as many regions as there is memory for with blocks of all sizes; then frees half of the
/// blocks, then all.
#[test]
fn blocks_go_back_to_the_region_they_are_of() {
    let mut heap = Growing::new(Below::new(24 << 20));
    let mut random = 1_u64;
    let mut blocks = Vec::new();
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = match random >> 60 {
            0 => (random >> 40) as usize % 300_000,
            _ => (random >> 40) as usize % 2_000,
        };
        let layout = layout(size + 1, 1 << ((random >> 35) % 7));
        let Ok(block) = heap.allocate(layout) else { break };
        // SAFETY: the block has at least this many bytes.
        unsafe { block.cast::<u8>().write_bytes(blocks.len() as u8, layout.size()) };
        blocks.push((block.cast::<u8>(), layout, blocks.len() as u8));
    }
    assert!(heap.regions() > 4, "{}", heap.regions());
    assert_eq!(heap.audit(), Ok(()));
    assert!(heap.usage().requested > 18 << 20, "{:?}", heap.usage());
    let mut index = 0;
    blocks.retain(|&(block, layout, mark)| {
        index += 1;
        // SAFETY: the block is in use, has this many bytes, and is freed once.
        unsafe {
            let bytes = core::slice::from_raw_parts(block.as_ptr(), layout.size());
            assert!(bytes.iter().all(|&byte| byte == mark), "another block was written there");
            assert!(heap.has_block(block, layout) && heap.owns(block));
            if index % 2 == 0 {
                heap.deallocate(block, layout);
                assert!(!heap.has_block(block, layout));
            }
        }
        index % 2 == 1
    });
    assert_eq!(heap.audit(), Ok(()));
    assert_eq!(heap.usage().blocks, blocks.len());
    let regions = heap.regions();
    for (block, layout, _) in blocks {
        // SAFETY: the block is in use, and is freed once.
        unsafe {
            assert_eq!(heap.try_free(block, layout), FreeResult::Freed);
            assert_eq!(heap.try_free(block, layout), FreeResult::Unallocated);
        }
    }
    assert_eq!((heap.usage().blocks, heap.regions()), (0, regions));
    assert!(heap.allocate(layout(4 << 20, 16)).is_ok(), "all is free in each region");
}

/// A block that outgrows its region moves to another with its contents; a block that finds no room
/// stays.
#[test]
fn a_block_that_grows_takes_its_contents_along() {
    let mut heap = Growing::new(Below::new(16 << 20));
    let mut block = heap.allocate(layout(100, 8)).expect("there is memory").cast::<u8>();
    // SAFETY: the block is in use, and has as many bytes as were requested.
    unsafe {
        block.write_bytes(7, 100);
        let mut size = 100;
        while let Ok(longer) = heap.reallocate(block, layout(size, 8), 2 * size) {
            block = longer.cast();
            let bytes = core::slice::from_raw_parts(block.as_ptr(), size);
            assert!(bytes.iter().all(|&byte| byte == 7));
            size *= 2;
            block.write_bytes(7, size);
        }
        assert!(size >= 3 << 20, "{size}");
        assert!(heap.regions() > 1);
        assert_eq!(heap.audit(), Ok(()));
        let bytes = core::slice::from_raw_parts(block.as_ptr(), size);
        assert!(bytes.iter().all(|&byte| byte == 7));
        heap.deallocate(block, layout(size, 8));
    }
    assert_eq!(heap.usage().blocks, 0);
}

#[test]
fn requests_beyond_all_memory_are_refused() {
    let mut heap = Growing::new(Below::new(4 << 20));
    for size in [5 << 20, MOST, isize::MAX as usize - 15] {
        assert_eq!(heap.allocate(layout(size, 16)), Err(AllocError::Exhausted));
    }
    assert_eq!(heap.regions(), 0);
    assert!(heap.allocate(layout(3 << 20, 16)).is_ok());
}

/// Memory that records the requested lengths, and refuses those longer than `most`.
struct Asked {
    below: Below,
    lengths: Vec<usize>,
    most: usize,
}

// SAFETY: as `Below`.
unsafe impl Grow for Asked {
    fn grow(&mut self, len: usize) -> Option<(*mut u8, usize)> {
        self.lengths.push(len);
        if len > self.most { None } else { self.below.grow(len) }
    }
}

/// A new region is half as long as all before it together, and has room for its first block. If
/// there is no memory for it, a region that is just long enough for the block is made.
#[test]
fn a_region_is_half_as_long_as_those_before() {
    const OWN: usize = size_of::<PageHeap<Region>>();
    let needed = |size: usize, align: usize| size + align + (size + align) / 64 + BOOKKEEPING + OWN;
    let memory = |most| Asked { below: Below::new(80 << 20), lengths: Vec::new(), most };
    let held = |heap: &Growing<Asked>| -> usize {
        heap.heaps().map(|heap| heap.backing.source.get().len()).sum()
    };
    let mut heap = Growing::new(memory(usize::MAX));
    for size in [100, LEAST, 20 << 20, 12 << 20, 9 << 20] {
        let before = held(&heap);
        heap.allocate(layout(size, 64)).expect("there is memory");
        let expected = (before / 2).clamp(LEAST, MOST).max(needed(size, 64));
        assert_eq!(heap.more.lengths.pop(), Some(expected), "{size}");
        assert!(heap.more.lengths.is_empty() && held(&heap) >= before + expected - OWN);
    }

    let mut heap = Growing::new(memory(4 << 20));
    heap.allocate(layout(100, 16)).expect("there is memory");
    heap.more.most = LEAST - 1;
    heap.allocate(layout(LEAST / 2, 16)).expect("there is memory");
    heap.allocate(layout(LEAST / 2, 16)).expect("there is memory");
    assert_eq!(heap.more.lengths, [LEAST, LEAST, needed(LEAST / 2, 16)]);
    // With no memory at all, a region of each length is tried.
    (heap.more.most, heap.more.lengths) = (0, Vec::new());
    let size = LEAST + 100;
    assert_eq!(heap.allocate(layout(size, 16)), Err(AllocError::Exhausted));
    assert_eq!(heap.more.lengths, [needed(size, 16); 2]);
}

/// A region has at most `MOST` bytes, and there are at most `REGIONS` regions.
#[test]
fn regions_are_bounded() {
    let memory = |most| Asked { below: Below::new(1 << 20), lengths: Vec::new(), most };
    let own = size_of::<PageHeap<Region>>();
    let around = (MOST - BOOKKEEPING - own) / 65 * 64;
    let fits = |&size: &usize| {
        let needed = size + 16;
        needed + needed / 64 + BOOKKEEPING + own <= MOST
    };
    let longest = (around - 200..around + 200).rev().find(fits).expect("there is one");
    let mut heap = Growing::new(memory(0));
    assert_eq!(heap.allocate(layout(longest + 1, 16)), Err(AllocError::Exhausted));
    assert!(heap.more.lengths.is_empty(), "none is asked for");
    assert_eq!(heap.allocate(layout(longest, 16)), Err(AllocError::Exhausted));
    assert_eq!(heap.more.lengths.len(), 2);

    // Each block gets a region of its own, since longer ones are refused.
    let mut heap = Growing::new(Asked { below: Below::new(80 << 20), ..memory(LEAST + LEAST / 4) });
    for regions in 1..=REGIONS {
        assert!(heap.allocate(layout(LEAST, 16)).is_ok());
        assert_eq!(heap.regions(), regions);
    }
    heap.more.lengths.clear();
    assert_eq!(heap.allocate(layout(LEAST, 16)), Err(AllocError::Exhausted));
    assert!(heap.more.lengths.is_empty() && heap.regions() == REGIONS);
}
