//! A visitor that used the arena that it walks waited for itself for ever, without a word, under
//! the default lock. (In `tests/arena_global.rs` the arena is the program's global allocator.)

use pagewise::PageHeap;
use pagewise::arena::Arena;
use pagewise::source::Reserved;

use crate::{child, layout};

#[test]
fn stops_the_process() {
    let ended = child::run("a_lock_that_waits_for_itself::walk", |_| {});
    assert_eq!(ended.signal, Some(libc::SIGABRT), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("used by the thread that is in it"), "{}", ended.err);
}

#[test]
#[ignore = "in a process of its own"]
fn walk() {
    let arena: Arena<PageHeap<Reserved>> = Arena::growing(1 << 24);
    arena.allocate(layout(100, 8)).expect("room enough");
    arena.walk(&mut |_| _ = arena.usage());
}
