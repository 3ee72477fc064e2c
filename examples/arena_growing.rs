//! An arena that grows: address space is reserved once, and memory is taken when it is touched.
//!
//! Four threads share it; its peak usage and addresses can be queried at any time.
//!
//! `cargo run --example arena_growing`

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::walk::SpanKind;
use pagewise::{Arena, PageHeap, Reserved};

/// Reserves up to 1 GiB of address space.
static ARENA: Arena<PageHeap<Reserved>> = Arena::growing(1 << 30);

/// Allocates blocks of many sizes, frees every other one, and returns the rest.
fn work(thread: usize) -> Vec<(usize, Layout)> {
    let mut kept = Vec::new();
    for step in 0..2_000 {
        let layout = Layout::from_size_align(1 + (step * 37 + thread) % 5_000, 8);
        let layout = layout.expect("a valid layout");
        let block = ARENA.allocate(layout).expect("room enough").cast::<u8>();
        // SAFETY: the block is ours, and this long.
        unsafe { block.write_bytes(thread as u8, layout.size()) };
        if step % 2 == 0 {
            kept.push((block.addr().get(), layout));
        } else {
            // SAFETY: the block was allocated above with this layout.
            unsafe { ARENA.deallocate(block, layout) };
        }
    }
    kept
}

pub(crate) fn main() {
    let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(move || work(thread))).collect();
    let kept: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().expect("it ran")).collect();

    let usage = ARENA.usage();
    println!(
        "{} blocks of {} KiB in {} KiB",
        usage.blocks,
        usage.requested >> 10,
        usage.held >> 10
    );
    let mut free = 0;
    ARENA.walk(&mut |span| free += if span.kind == SpanKind::Free { span.len } else { 0 });
    println!("{} KiB of them free", free >> 10);

    for (address, layout) in kept {
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
        // SAFETY: the blocks were kept for this, and are no longer used.
        let freed = unsafe { ARENA.try_free(block.expect("not null"), layout) };
        assert_eq!(freed, pagewise::FreeResult::Freed);
    }
    assert_eq!(ARENA.usage().blocks, 0);
    ARENA.audit().expect("every invariant holds");
}
