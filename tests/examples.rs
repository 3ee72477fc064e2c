//! The examples work as described; each checks itself.

#[path = "../examples/arena_growing.rs"]
mod arena_growing;

#[test]
fn a_growing_arena() {
    arena_growing::main();
}
