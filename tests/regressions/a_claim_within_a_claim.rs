//! A strategy may have a block of another claim as its memory: then both have the addresses of its
//! blocks. These were freed to the claim that was asked first, which took the contents of blocks for
//! its own tags. So a safe program handed out memory twice.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pagewise::arena::Claims;
use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{FreeResult, PageHeap, SmallHeap, Strategy};

use crate::{layout, leaked};

/// Claims `inner` memory that is a block of the first claim, and uses the rest of the first one up.
fn nested<S: Strategy>(make: impl Fn(Region) -> S, bytes: usize, inner: usize) {
    let mut claims: Claims<S, 3> = Claims::new();
    claims.claim(make(leaked(bytes))).expect("room for three");
    let whole = layout(inner, 16);
    let memory: NonNull<u8> = claims.allocate(whole).expect("there is room").cast();
    // SAFETY: the block is never freed, and only the slice uses it.
    let memory: &'static mut [MaybeUninit<u8>] =
        unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().cast(), inner) };
    let within = memory.as_ptr_range();
    let within = within.start.addr()..within.end.addr();
    let first_size = 1_000;
    while claims.allocate(layout(first_size, 16)).is_ok() {}
    claims.claim(make(Region::from_static(memory))).expect("room for three");

    let mut blocks = Vec::new();
    for round in 0..2_000usize {
        let size = 1 + round * 37 % 700;
        match claims.allocate(layout(size, 16)) {
            Ok(block) if round % 3 > 0 => {
                let block: NonNull<u8> = block.cast();
                // SAFETY: the block has this many bytes.
                unsafe { block.write_bytes(round as u8, size) };
                blocks.push((block, size, round as u8));
            }
            Ok(block) => {
                // SAFETY: the block is freed at once.
                unsafe { claims.deallocate(block.cast(), layout(size, 16)) };
            }
            Err(_) => {
                let (block, size, _) = blocks.swap_remove(round % blocks.len());
                // SAFETY: the block is in use with this layout, and freed once.
                let freed = unsafe { claims.try_free(block, layout(size, 16)) };
                assert_eq!(freed, FreeResult::Freed);
            }
        }
        for &(block, size, mark) in &blocks {
            // SAFETY: the block is in use, and was written.
            let bytes = unsafe { block.cast::<u8>().as_ref() };
            assert_eq!(*bytes, mark, "{size} bytes in round {round}");
        }
    }
    assert!(blocks.iter().any(|(block, ..)| within.contains(&block.addr().get())));
    for (block, size, mark) in blocks {
        // SAFETY: the block is in use with this layout, and freed once.
        unsafe {
            let bytes = std::slice::from_raw_parts(block.as_ptr(), size);
            assert!(bytes.iter().all(|&byte| byte == mark), "{size} bytes");
            assert!(claims.owns(block) && claims.is_in_use(block, layout(size, 16)));
            claims.deallocate(block, layout(size, 16));
        }
    }
    let mut spans = 0;
    claims.walk(&mut |_| spans += 1);
    assert!(spans > 1, "a walk ends");
}

#[test]
fn blocks_of_the_inner_page_heap_go_back_to_it() {
    nested(|region| PageHeap::new(Config::arena(), region, ()), 1 << 18, 1 << 17);
}

#[test]
fn blocks_of_the_inner_small_heap_go_back_to_it() {
    nested(|region| SmallHeap::new(region, ()), 1 << 15, 1 << 14);
}
