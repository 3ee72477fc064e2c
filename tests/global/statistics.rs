//! The statistics match what the program did, and are written without allocating.

use std::process::Command;

use crate::ALLOCATOR;
use crate::child::memory::GOES_BACK_AT_ONCE;
use crate::child::passes;

#[test]
fn statistics_include_every_class() {
    passes("statistics::known");
}

/// Blocks that the thread waiting for the test may allocate or free meanwhile.
const OTHERS: usize = 16;

#[test]
#[ignore = "in a process of its own"]
fn known() {
    let class_of = |size| {
        let mut found = None;
        ALLOCATOR.for_each_class(|class| {
            if class.size == size {
                found = Some(class);
            }
        });
        found.unwrap_or_default()
    };
    let (before, class_before) = (ALLOCATOR.stats(), class_of(448));
    let blocks: Vec<Vec<u8>> = (0..10_000).map(|_| vec![1; 448]).collect();
    let mapping = vec![1u8; 64 << 20];
    let (stats, class) = (ALLOCATOR.stats(), class_of(448));
    // The vector of the blocks is one more block.
    assert!((stats.blocks - before.blocks).abs_diff(10_002) <= OTHERS, "{stats}");
    assert!(stats.live - before.live >= 10_000 * 448 + (64 << 20), "{stats}");
    assert_eq!(class.blocks - class_before.blocks, 10_000, "{class}");
    assert!(class.held >= 10_000 * 448 && class.held == class.pages * (64 << 10), "{class}");
    assert_eq!((stats.mappings, stats.mapped >> 20), (1, 64));
    let heaps = stats.held - stats.mapped;
    assert!(stats.resident >= 10_000 * 448 && stats.resident <= heaps + (1 << 20), "{stats}");
    // The mapping goes first: freeing it empties the thread's lists.
    drop(mapping);
    drop(blocks);
    let (after, class) = (ALLOCATOR.stats(), class_of(448));
    assert!(after.blocks.abs_diff(before.blocks) <= OTHERS, "{after}");
    assert!(class.blocks == class_before.blocks && class.quick > 0, "{class}");
    ALLOCATOR.purge();
    let purged = ALLOCATOR.stats();
    assert!(!GOES_BACK_AT_ONCE || purged.resident < stats.resident - 9_000 * 448, "{purged}");
    assert!(purged.quick < after.quick && purged.peak_held >= stats.held, "{purged}");

    // Every block in a page belongs to a size class.
    let mut in_pages = 0;
    ALLOCATOR.for_each_class(|class| in_pages += class.blocks);
    assert!(in_pages <= ALLOCATOR.stats().blocks);
}

#[test]
fn the_statistics_are_written_at_exit() {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .arg("--list")
        .env("PAGEWISE_SHOW_STATS", "1")
        .output()
        .expect("this program can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("pagewise:")), "{said}");
    assert!(lines[0].ends_with(" blocks in use"), "{said}");
    let header = lines.iter().position(|line| line.contains("block size")).expect("a table");
    assert!(lines.len() > header + 3, "some classes are in use: {said}");
    assert!(lines[header..].iter().all(|line| line.len() == lines[header].len()), "{said}");
}
