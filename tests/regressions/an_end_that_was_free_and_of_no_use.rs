//! A heap that had to grow asked its source for the whole request, though the uppermost blocks were
//! free and the source had the rest. So a large request could not use most of a fixed region once a
//! small block had been there, even if nothing was in use.

use pagewise::Strategy;
use pagewise::catalogue;
use pagewise::source::Region;

use crate::{layout, leaked};

const REGION: usize = 1 << 18;

/// Returns the largest size that a fresh heap of this strategy can serve, or nearly so.
fn largest(fresh: impl Fn() -> Box<dyn Strategy>) -> usize {
    let sizes = (0..REGION).rev().step_by(1 << 10);
    sizes.into_iter().find(|&size| fresh().allocate(layout(size, 8)).is_ok()).expect("one fits")
}

#[test]
fn serves_a_large_request_with_what_the_source_has() {
    let memory = vec![0_u64; REGION / 8].leak().as_mut_ptr().cast::<u8>();
    // Strategies that give a page to a class for ever need that page.
    let keep_pages = ["STACK", "QUEUE", "RANDOM", "NOFREE", "KINGSLEY"];
    for entry in catalogue::all().filter(|entry| !keep_pages.contains(&entry.name)) {
        let fresh = || {
            // SAFETY: the memory is never freed, and only the heap made last is used.
            let region = unsafe { Region::new(memory, REGION) };
            entry.build_over(entry.config, region, &()).expect("the default configuration")
        };
        let largest = largest(|| fresh());
        for size in [1, 100, 1000, 20_000, REGION / 2] {
            let mut heap = fresh();
            let Ok(block) = heap.allocate(layout(size, 8)) else { continue };
            // SAFETY: nobody uses the block.
            unsafe { heap.deallocate(block.cast(), layout(size, 8)) };
            // The heap may have a tag more, or memory for a header.
            let again = heap.allocate(layout(largest - largest / 64, 8));
            assert!(again.is_ok(), "{}: {largest} bytes, after {size}", entry.name);
            assert_eq!(heap.audit(), Ok(()), "{}", entry.name);
        }
    }
}

/// What is still in use is not touched, and memory that a failed request took is not lost.
#[test]
fn joins_only_free_blocks() {
    for name in ["BUDDY", "I-1", "I-8", "II-5", "III-3", "IV-3", "IV-5", "V-1", "V-6", "VI-1"] {
        let entry = catalogue::find(name).expect("it has an entry");
        let heap = entry.build_over(entry.config, leaked(REGION), &());
        let mut heap = heap.expect("the default configuration");
        let mut blocks = Vec::new();
        for round in 0_usize..300 {
            let size = 1 + round * 7919 % (REGION / (1 + round % 40));
            let layout = layout(size, 1 << (round % 8));
            let before = heap.usage();
            match heap.allocate(layout) {
                Ok(block) => {
                    // SAFETY: the whole block is ours.
                    unsafe { block.cast::<u8>().write_bytes(round as u8, block.len()) };
                    blocks.push((block, layout, round as u8));
                }
                Err(_) => assert_eq!(heap.usage(), before, "{name}: nothing changed"),
            }
            assert_eq!(heap.audit(), Ok(()), "{name}");
            if round % 3 == 0 && !blocks.is_empty() {
                let (block, layout, value) = blocks.swap_remove(round * 31 % blocks.len());
                // SAFETY: the block is in use with this layout, and freed once.
                unsafe {
                    assert!(block.as_ref().iter().all(|&byte| byte == value), "{name}");
                    heap.deallocate(block.cast(), layout);
                }
            }
        }
    }
}
