//! The global allocator, under this very test program.
#![cfg(target_os = "linux")]

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

#[test]
fn smoke() {
    let mut all = Vec::new();
    for i in 0..100_000usize {
        all.push(vec![i as u8; i % 3000]);
    }
    for (i, v) in all.iter().enumerate() {
        assert!(v.iter().all(|&b| b == i as u8));
    }
    drop(all);
    println!("{}", ALLOCATOR.stats());
    ALLOCATOR.purge();
    println!("{}", ALLOCATOR.stats());
}
