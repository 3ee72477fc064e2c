//! The examples work as described; each checks itself.

#[path = "../examples/arena_growing.rs"]
mod arena_growing;

#[test]
fn a_growing_arena() {
    arena_growing::main();
}

#[cfg(all(feature = "allocator-api2", feature = "lock_api"))]
#[path = "../examples/arena_interrupts.rs"]
mod arena_interrupts;

#[cfg(all(feature = "allocator-api2", feature = "lock_api"))]
#[test]
fn an_arena_of_interrupt_handlers() {
    arena_interrupts::main();
}
