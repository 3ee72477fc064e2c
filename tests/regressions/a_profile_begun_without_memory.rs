//! Before a profile begins, the allocator serves and frees a block, so that it is open. If there
//! was no memory for the block, null was freed, which no list is prepared for: a debug build
//! stopped, another one kept null as a free block.

use std::alloc::{GlobalAlloc, Layout};

use crate::{ALLOCATOR, child};

#[test]
fn is_refused() {
    child::passes("a_profile_begun_without_memory::refused");
}

#[test]
#[ignore = "in a process of its own"]
fn refused() {
    let layout = Layout::new::<u8>();
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(8 << 20);
    let map = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages: u64 = map.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    let limit = pages * 4096 + (1 << 20);
    // SAFETY: the call only reads the structure that it is given.
    unsafe {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
    }
    loop {
        // SAFETY: the layout's size is not 0.
        let block = unsafe { ALLOCATOR.alloc(layout) };
        if block.is_null() || blocks.len() == blocks.capacity() {
            break;
        }
        blocks.push(block);
    }
    let begun = ALLOCATOR.profiler().start(1 << 19);
    for block in blocks.drain(..) {
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.dealloc(block, layout) };
    }
    assert!(begun.is_err(), "there was no memory");
    let blocks = [(); 100].map(|()| Box::new(7_u8));
    assert!(blocks.iter().all(|block| **block == 7));
}
