//! Tests that audits detect damage, and that walks and checks know the blocks that are withheld
//! from headers.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::*;
use crate::FreeResult;
use crate::pages::headers::page::{NO_LIST, Page};
use crate::pages::{Config, PageHeap};
use crate::source::Reserved;
use crate::strategy::Strategy;

/// Pages of 127 blocks of 32 bytes.
const CONFIG: Config = Config::new().page_size(4096).ffcrossover(1024);
const CAPACITY: usize = 127;

fn layout() -> Layout {
    Layout::from_size_align(32, 8).expect("a valid layout")
}

/// A heap with pages of a class in every state.
struct Used {
    heap: PageHeap<Reserved>,
    current: Page,
    /// Wholly free.
    empty: Page,
    /// One block is free, which makes it eligible.
    eligible: Page,
    full: Page,
}

/// Fills three pages of a class and begins a fourth. Empties the first, and frees one block of the
/// second.
fn used() -> Used {
    let mut heap = PageHeap::new(CONFIG, Reserved::new(1 << 24), ());
    let mut blocks: Vec<NonNull<u8>> = Vec::new();
    // Until the class has a page, the heap below serves it.
    let mut pages = Vec::new();
    while pages.len() < 4 {
        let block = heap.allocate(layout()).expect("there is memory").cast::<u8>();
        if let Some(page) = heap.engine.pages.headers.at(block.addr().get()) {
            blocks.push(block);
            if pages.last() != Some(&page) {
                pages.push(page);
            }
        }
    }
    let free = |heap: &mut PageHeap<Reserved>, block| {
        // SAFETY: the block is in use, and freed once.
        unsafe { heap.deallocate(block, layout()) };
    };
    blocks[..CAPACITY].iter().for_each(|&block| free(&mut heap, block));
    free(&mut heap, blocks[CAPACITY]);
    assert_eq!(heap.audit(), Ok(()));
    let [empty, eligible, full, current] = pages[..] else { unreachable!("four pages") };
    assert_eq!((empty.free(), eligible.free(), full.free()), (CAPACITY as u32, 1, 0));
    assert!(eligible.list() != NO_LIST && full.list() == NO_LIST);
    assert_eq!(heap.engine.pages.empty, Some(empty));
    Used { heap, current, empty, eligible, full }
}

/// Returns the audit's answer after damage.
fn told(damage: impl FnOnce(&mut Used)) -> &'static str {
    let mut used = used();
    damage(&mut used);
    match used.heap.engine.audit_pages() {
        Err(fault) => fault.invariant,
        Ok(()) => "nothing",
    }
}

/// Sets bits of a page without counting them.
fn set_bits(page: Page, index: u32, bits: u64) {
    page.word(index).set(page.word(index).get() | bits);
    page.summary.set(page.summary.get() | 1 << index);
}

#[test]
fn damage_to_a_page_is_told() {
    assert_eq!(told(|_| {}), "nothing");
    let said = told(|used| used.eligible.base.set(used.full.base.get()));
    assert_eq!(said, "a page lies in its frame");
    let said = told(|used| {
        let class = *used.heap.engine.pages.class(used.full.class());
        used.full.assign(used.heap.classes(), &class);
    });
    assert_eq!(said, "a page belongs to a class");
    let said = told(|used| {
        let inner = used.full.base.get().wrapping_add(1024);
        // The headers of two blocks in use, the first of five cells.
        // SAFETY: the bytes are those of blocks of the page.
        unsafe {
            inner.sub(4).cast::<u32>().write(5 << 2 | 3);
            inner.add(5 * 16 - 4).cast::<u32>().write(1 << 2 | 3);
        }
        used.full.base.set(inner);
    });
    assert_eq!(said, "a page is a block of p bytes in use");
    assert_eq!(told(|used| set_bits(used.full, 0, 1)), "φ counts the free blocks of its page");
    let said = told(|used| used.eligible.summary.set(0));
    assert_eq!(said, "the summary knows every word with free blocks");
    let said = told(|used| set_bits(used.full, 1, 1 << (CAPACITY % 64)));
    assert_eq!(said, "only a page's blocks have bits");
}

#[test]
fn damage_below_the_pages_is_told() {
    let said = told(|used| {
        let below = &used.heap.engine.pages.below.heap;
        let header = below.contents(below.first()).cast::<u32>().wrapping_sub(1);
        // SAFETY: the header of the first block lies in the heap's memory.
        unsafe { header.write(header.read() & !2) };
    });
    assert_eq!(said, "PREV_IN_USE says whether the block below is in use");
}

#[test]
fn damage_to_the_pages_without_blocks_is_told() {
    let said = told(|used| used.heap.engine.pages.headers.remove(used.full));
    assert_eq!(said, "the pages are counted");
    let said = told(|used| _ = used.empty.empty_word(0));
    assert_eq!(said, "a page on S2 has all its blocks free");
    let said = told(|used| used.empty.next.set(Some(used.empty)));
    assert_eq!(said, "S2 ends");
    let said = told(|used| used.heap.engine.pages.empty = None);
    assert_eq!(said, "every page is kept in one place");
}

/// PAGEWISE's own invariants.
#[test]
fn damage_to_a_supply_is_told() {
    let said = told(|used| {
        let supply = used.heap.engine.placement.supplies.get(used.current.class());
        set_bits(used.current, supply.word, supply.window & supply.window.wrapping_neg());
    });
    assert_eq!(said, "a block is in the window or in its page's bits");
    // Its φ equals φ0, which is 1.
    let said = told(|used| used.eligible.set_list(NO_LIST));
    assert_eq!(said, "a page with φ ≥ φ0 is on a list");
    let rises = "φ only rises on a list";
    assert_eq!(told(|used| used.eligible.set_list(1)), rises);
    assert_eq!(told(|used| used.eligible.set_trigger(1)), rises);
    let said = told(|used| {
        let supply = used.heap.engine.placement.supplies.get_mut(used.eligible.class());
        supply.remove(used.eligible);
        (0..100).for_each(|block| {
            if !used.eligible.is_free(block) {
                used.eligible.set_free(block);
            }
        });
        supply.put(used.eligible, &());
        // This is as if its blocks had been taken while it was on a list.
        used.eligible.empty_word(0);
    });
    assert_eq!(said, rises);
}

/// In pages of many words, with some blocks in the window and some freed since, a checked free and
/// a walk know which blocks are in use.
#[test]
fn every_block_of_a_page_is_known() {
    let config = Config::new().unit(8).ffcrossover(1024);
    let counts = if cfg!(miri) {
        [(40, 30), (104, 20), (700, 10)]
    } else {
        // 8191 blocks of 8 bytes in a page: more than are looked at in one go.
        [(8, 20_000), (40, 3_000), (700, 500)]
    };
    for (size, count) in counts {
        let mut heap = PageHeap::new(config, Reserved::new(1 << 24), ());
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        let mut blocks: Vec<NonNull<u8>> = Vec::new();
        for _ in 0..count {
            blocks.push(heap.allocate(layout).expect("there is memory").cast());
        }
        blocks.sort_unstable();
        let mut number = 0;
        blocks.retain(|&block| {
            number += 1;
            let kept = number % 3 != 0;
            if !kept {
                // SAFETY: the block is in use, and freed once.
                unsafe { heap.deallocate(block, layout) };
            }
            kept
        });
        assert_eq!(heap.audit(), Ok(()));
        let mut walked = Vec::new();
        heap.walk(&mut |span| {
            if span.kind == SpanKind::Block {
                walked.push(span.start);
            }
        });
        assert!(walked.iter().copied().eq(blocks.iter().map(|block| block.addr().get())));
        let mut pages = Vec::new();
        heap.engine.pages.headers.for_each(&mut |page| pages.push(page.base.get()));
        let len = heap.engine.pages.classes.of(layout).expect("pages serve it");
        let len = heap.engine.pages.class(len).size as usize;
        assert!(!pages.is_empty());
        for page in pages {
            for block in 0..(1 << 16) / len {
                let block = NonNull::new(page.wrapping_add(block * len)).expect("not address 0");
                let is_in_use = blocks.binary_search(&block).is_ok();
                assert_eq!(heap.has_block(block, layout), is_in_use, "{block:?}");
                let within = block.map_addr(|address| address.saturating_add(1));
                assert!(!heap.has_block(within, layout), "no block starts there");
                if !is_in_use {
                    // SAFETY: it is no block in use, which is noticed.
                    assert_eq!(unsafe { heap.try_free(block, layout) }, FreeResult::Unallocated);
                }
                let longer = Layout::from_size_align(len + 1, 8).expect("a valid layout");
                assert!(!heap.has_block(block, longer), "no block is that long");
            }
        }
    }
}

/// Four pages without blocks in use are kept for any class, and the others go back, however often
/// this happens.
#[test]
fn four_pages_wait_for_the_next_class() {
    let mut heap = PageHeap::new(CONFIG, Reserved::new(1 << 24), ());
    let mut counts = Vec::new();
    for round in 0..6 {
        let size = if round % 2 == 0 { 32 } else { 500 };
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        let blocks: Vec<NonNull<u8>> = (0..128 + 20 * 4096 / size)
            .map(|_| heap.allocate(layout).expect("there is memory").cast())
            .collect();
        let pages = heap.engine.pages.count();
        assert!(pages > 15, "{pages} pages");
        for block in blocks {
            // SAFETY: the block is in use, and freed once.
            unsafe { heap.deallocate(block, layout) };
        }
        assert_eq!(heap.audit(), Ok(()));
        counts.push(heap.engine.pages.count());
    }
    // Each class also keeps the page that it allocates from.
    assert_eq!(counts, [5, 6, 6, 6, 6, 6]);
    heap.release_empty_pages();
    assert_eq!((heap.engine.pages.count(), heap.audit()), (0, Ok(())));
}

/// Where memory is exhausted, pages without blocks in use serve a large request.
#[test]
fn pages_give_way_to_a_large_block() {
    let mut memory = Box::<[u8]>::new_uninit_slice(1 << 16).into_vec();
    // SAFETY: only the heap uses the memory, which outlives it.
    let region = unsafe { crate::source::Region::new(memory.as_mut_ptr().cast(), memory.len()) };
    let mut heap = PageHeap::new(CONFIG, region, ());
    let mut blocks: Vec<NonNull<u8>> = Vec::new();
    while let Ok(block) = heap.allocate(layout()) {
        blocks.push(block.cast());
    }
    assert!(heap.engine.pages.count() > 5);
    for block in blocks {
        // SAFETY: the block is in use, and freed once.
        unsafe { heap.deallocate(block, layout()) };
    }
    assert!(heap.engine.pages.count() >= 4);
    let large = Layout::from_size_align(40_000, 8).expect("a valid layout");
    assert!(heap.allocate(large).is_ok());
    assert_eq!((heap.engine.pages.count(), heap.audit()), (0, Ok(())));
}

/// A page has at most as many blocks as its header can count, whatever the unit.
#[test]
fn the_least_blocks_are_counted() {
    for shift in 9..=20 {
        let config = Config::with_page_size(1 << shift).unit(1);
        let mut heap = PageHeap::new(config, Reserved::new(1 << 24), ());
        heap.open().expect("there is memory");
        let least = heap.engine.pages.class(0);
        assert!(least.capacity <= crate::pages::headers::page::MOST_BLOCKS, "{least:?}");
        assert!(least.size <= 17, "no larger than need be");
    }
}
