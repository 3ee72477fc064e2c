//! When a visitor of a walk allocated, and the walked arena was the global allocator, the allocator
//! unwound, which is undefined behaviour.

use std::alloc::GlobalAlloc;

use pagewise::PageHeap;
use pagewise::arena::Arena;
use pagewise::arena::lock::Single;
use pagewise::source::Reserved;

use crate::{child, layout};

#[test]
fn ends_the_process() {
    let ended = child::run("a_panic_out_of_a_global_allocator::walk", |_| {});
    assert_eq!(ended.signal, Some(libc::SIGABRT), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("a panic within a global allocator"), "{}", ended.err);
}

#[test]
#[ignore = "in a process of its own"]
fn walk() {
    let arena: Arena<PageHeap<Reserved>, Single> = Arena::growing(1 << 24);
    arena.allocate(layout(100, 8)).expect("room enough");
    let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        arena.walk(&mut |_| {
            // SAFETY: the layout is not of size 0.
            unsafe { GlobalAlloc::alloc(&arena, layout(100, 8)) };
        });
    }));
    drop(walked);
}
