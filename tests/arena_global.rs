//! A program whose global allocator is an arena.

#[path = "../examples/arena_global.rs"]
mod example;

#[test]
fn a_lazy_fit_serves_a_whole_program() {
    example::main();
}
