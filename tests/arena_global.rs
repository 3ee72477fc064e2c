//! A program whose global allocator is an arena.

#[path = "child/mod.rs"]
mod child;
#[path = "../examples/arena_global.rs"]
mod example;

#[test]
fn a_lazy_fit_serves_a_whole_program() {
    example::main();
}

/// Runs a test whose arena is used by the thread that is in it: the process stops with a line.
/// (Regression: the thread waited for itself for ever.)
#[cfg(any(target_os = "linux", windows))]
fn stops(test: &str) {
    let ended = child::run(test, |_| {});
    assert!(ended.was_aborted(), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("used by the thread that is in it"), "{}", ended.err);
}

#[cfg(any(target_os = "linux", windows))]
#[test]
fn a_visitor_that_allocates_stops_the_process() {
    stops("allocates");
}

#[test]
#[ignore = "in a process of its own"]
fn allocates() {
    example::ALLOCATOR.walk(&mut |_| drop(std::hint::black_box(Box::new(7))));
}

/// The message of a panic allocates.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn a_panic_within_the_allocator_stops_the_process() {
    stops("panics");
}

#[test]
#[ignore = "in a process of its own"]
fn panics() {
    example::ALLOCATOR.walk(&mut |span| panic!("{span:?}"));
}
