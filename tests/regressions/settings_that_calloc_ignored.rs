//! Zeroed mappings were made with the tuning of the `Pagewise` value called, regardless of the
//! environment and of the value used first. The tuning in force must be decided once, for all
//! requests.

use std::fs::read_to_string;

use pagewise::global::{HugePages, Pagewise, Tuning};

use crate::ALLOCATOR;
use crate::child::{passes, passes_when};

/// Returns the kernel's flags of the mapping that contains an address.
fn flags(block: *mut u8) -> String {
    let maps = read_to_string("/proc/self/smaps").expect("there is a /proc");
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |digits| usize::from_str_radix(digits, 16);
        if let Some((Ok(from), Ok(to))) = range.map(|(from, to)| (number(from), number(to))) {
            inside = (from..to).contains(&block.addr());
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return format!("{flags} ");
        }
    }
    panic!("{block:?} is not mapped");
}

/// Returns whether the kernel supports huge pages.
fn has_huge_pages() -> bool {
    std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists()
}

#[test]
fn the_environment_decides_for_zeroed_blocks() {
    passes_when("settings_that_calloc_ignored::always", |command| {
        command.env("PAGEWISE_HUGE_PAGES", "1");
    });
}

#[test]
#[ignore = "in a process of its own, with huge pages"]
fn always() {
    let block = ALLOCATOR.allocate_zeroed(40 << 20);
    assert!(!has_huge_pages() || flags(block).contains(" hg "), "{}", flags(block));
    // SAFETY: the block is freed once.
    unsafe { ALLOCATOR.free(block) };
}

#[test]
fn the_first_value_used_decides_for_another() {
    passes("settings_that_calloc_ignored::second");
}

#[test]
#[ignore = "in a process of its own"]
fn second() {
    drop(vec![1_u8; 100]);
    let other = Pagewise::with(Tuning::new().huge_pages(HugePages::Always).mapping_from(64 << 10));
    let zeros = other.allocate_zeroed(40 << 20);
    assert!(!flags(zeros).contains(" hg "), "{}", flags(zeros));
    let medium = other.allocate(100 << 10);
    assert_eq!(ALLOCATOR.stats().mappings, 1, "100 KiB are not mapped");
    // SAFETY: the blocks are freed once.
    unsafe {
        ALLOCATOR.free(zeros);
        ALLOCATOR.free(medium);
    }
}
