//! After `mlockall` the kernel refuses the usual advice to drop pages: no memory was given back,
//! but it was counted as given back.

use crate::ALLOCATOR;
use crate::child::passes;

#[test]
fn memory_goes_back_after_mlockall() {
    passes("locked_memory::locked");
}

/// Returns the resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its line");
    let kib: u64 = line.trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}

#[test]
#[ignore = "in a process of its own, whose memory is locked"]
fn locked() {
    // SAFETY: the call touches no memory of ours.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        println!("memory may not be locked here");
        return;
    }
    let before = resident();
    let blocks: Vec<Vec<u8>> = (0..100_000).map(|index| vec![1; 500 + index % 1000]).collect();
    let peak = resident() - before;
    assert!(peak > 90 << 20, "{peak} bytes");
    drop(blocks);
    let counted = ALLOCATOR.purge();
    let left = resident().saturating_sub(before);
    let gone = peak.saturating_sub(left);
    println!("{gone} of {peak} bytes went back, {counted} counted");
    // The count matches the memory given back: none before Linux 5.18, where it stays locked.
    assert!(counted.abs_diff(gone) < 8 << 20, "{counted} bytes counted, {gone} gone");
    assert!(left < 8 << 20 || counted == 0, "{left} bytes stay");
}
