//! In hardened mode without guard pages, a mapping's size was known only rounded to OS pages, and
//! freeing it with the requested size, as Rust programs do, stopped the process.

use crate::child::passes_when;

#[test]
fn can_be_freed_with_the_requested_size() {
    passes_when("a_size_rounded_to_pages::mappings", |command| {
        command.env("PAGEWISE_HARDENED", "checks");
    });
}

#[test]
#[ignore = "in a process of its own"]
fn mappings() {
    let mut block = vec![1_u8; (40 << 20) + 5];
    block.reserve_exact(1000);
    block.shrink_to_fit();
    block.truncate((40 << 20) - 3);
    block.shrink_to_fit();
    assert_eq!(block.last(), Some(&1));
}
