//! What is no block in use is told loudly: one line, and the process stops.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::ALLOCATOR;

/// Runs an ignored test that must stop its process with this message.
fn stops(test: &str, message: &str) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("this program can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{test}: {said}");
    assert!(said.contains(message), "{test}: {said}");
}

#[test]
fn a_block_freed_twice_stops_the_process() {
    stops("misuse::freed_twice", "pagewise: a block was freed twice");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn freed_twice() {
    let block = ALLOCATOR.allocate(100);
    // SAFETY: the second is the misuse to be noticed, when the quick list goes back.
    unsafe {
        ALLOCATOR.free(block);
        ALLOCATOR.free(block);
    }
    ALLOCATOR.purge();
}

#[test]
fn a_foreign_pointer_stops_the_process() {
    stops("misuse::foreign", "pagewise: a pointer was freed or resized that is no block in use");
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn foreign() {
    let mut words = [0u128; 16];
    // SAFETY: the misuse to be noticed; the memory before the address can be read.
    unsafe { ALLOCATOR.free((&raw mut words[8]).cast()) };
}
