//! Writes beyond a block, before it, or after it was freed. If they damage the allocator's data, it
//! writes one line and aborts, in every build.

use crate::ALLOCATOR;
use crate::child::run;

/// Runs a misuse in its own process, which the allocator must stop with a message.
fn stops(test: &str, of: &str) {
    let ended = run(test, |command| {
        command.env("PAGEWISE_TEST_OF", of);
    });
    assert!(ended.was_aborted(), "{test} {of}: {}{}", ended.out, ended.err);
    let lines = ended.err.lines().filter(|line| line.starts_with("pagewise: ")).count();
    assert_eq!(lines, 1, "{test} {of}: {}", ended.err);
    assert!(!ended.err.contains("panicked"), "{test} {of}: {}", ended.err);
}

/// Returns the numbers passed to the child process.
fn numbers_of_child<const N: usize>() -> [usize; N] {
    let of = std::env::var("PAGEWISE_TEST_OF").expect("it is run by a test");
    let mut numbers = of.split(' ').map(|number| number.parse().expect("a number"));
    [(); N].map(|()| numbers.next().expect("enough numbers"))
}

/// Returns adjacent blocks.
fn side_by_side(size: usize) -> [*mut u8; 5] {
    let mut blocks = [(); 5].map(|()| ALLOCATOR.allocate(size));
    blocks.sort_unstable();
    blocks
}

fn use_the_allocator(size: usize) {
    for _ in 0..20 {
        let blocks = side_by_side(size);
        // SAFETY: each is in use and freed once.
        blocks.iter().for_each(|&block| unsafe { ALLOCATOR.free(block) });
    }
    ALLOCATOR.purge();
}

#[test]
fn a_write_beyond_a_large_block_stops_the_process() {
    for size in [100_000, 2_000_000] {
        for len in [1, 4, 64] {
            for value in [0x00, 0x41, 0xff] {
                for free in [0, 1] {
                    stops("damage::write_beyond_the_end", &format!("{size} {len} {value} {free}"));
                }
            }
        }
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn write_beyond_the_end() {
    let [size, len, value, free] = numbers_of_child();
    let blocks = side_by_side(size);
    // SAFETY: the write beyond the block's end is the misuse to be noticed.
    unsafe {
        if free == 1 {
            ALLOCATOR.free(blocks[2]);
        }
        let end = blocks[1].add(ALLOCATOR.usable_size(blocks[1]));
        end.write_bytes(value as u8, len);
        let rest = [0, 1, 3, 4].into_iter().chain((free == 0).then_some(2));
        rest.for_each(|block| ALLOCATOR.free(blocks[block]));
    }
    use_the_allocator(size);
}

#[test]
fn a_write_to_a_free_large_block_stops_the_process() {
    for size in [30_000, 100_000, 2_000_000] {
        for value in [0x41, 0xff] {
            for allocates in [0, 1] {
                stops("damage::after_free", &format!("{size} {value} {allocates}"));
            }
        }
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn after_free() {
    let [size, value, allocates] = numbers_of_child();
    let blocks = side_by_side(size);
    // SAFETY: the write is the misuse to be noticed.
    unsafe {
        ALLOCATOR.free(blocks[2]);
        blocks[2].write_bytes(value as u8, size);
        // The free block may be reused before a neighbour is freed.
        for _ in 0..20 * allocates {
            assert!(!ALLOCATOR.allocate(size - 5_000).is_null());
        }
        [0, 1, 3, 4].into_iter().for_each(|block| ALLOCATOR.free(blocks[block]));
    }
    use_the_allocator(size);
}

/// A medium block has a class, so a header with another size is noticed even if it fits the
/// contents: the word where the block would end then says that the block below is in use.
#[test]
fn another_size_before_a_medium_block_stops_the_process() {
    for size in [20_000, 30_000, 100_000] {
        for (has_list, resizes) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            stops("damage::another_size", &format!("{size} {has_list} {resizes}"));
        }
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn another_size() {
    const IN_USE: u32 = 1;
    const PREV_IN_USE: u32 = 2;
    let [size, has_list, resizes] = numbers_of_child();
    // The thread's list of the class then has room for the block.
    for _ in 0..4 * has_list {
        // SAFETY: each block is freed once.
        side_by_side(size).into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
    }
    let block = side_by_side(size)[2];
    let cells = size as u32 / 2 / 16;
    // SAFETY: the write before the block is the misuse to be noticed.
    unsafe {
        block.write_bytes(0xff, size);
        block.cast::<u32>().sub(1).write(cells << 2 | IN_USE | PREV_IN_USE);
        match resizes {
            0 => ALLOCATOR.free(block),
            _ => drop(ALLOCATOR.reallocate(block, 2 * size)),
        }
    }
    std::process::exit(0);
}

#[test]
fn a_write_before_a_mapping_stops_the_process() {
    for len in [1, 16, 40, 64] {
        stops("damage::before", &format!("{len}"));
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn before() {
    let [len] = numbers_of_child();
    let block = ALLOCATOR.allocate(48 << 20);
    // SAFETY: the write is the misuse to be noticed.
    unsafe {
        block.sub(len).write_bytes(0, len);
        ALLOCATOR.free(block);
    }
}
