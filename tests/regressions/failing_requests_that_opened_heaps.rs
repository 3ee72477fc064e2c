//! Each failed request opened one more heap, and threads then spread over all of them.

use crate::ALLOCATOR;
use crate::child::passes;

#[test]
fn failing_requests_open_no_heaps() {
    passes("failing_requests_that_opened_heaps::failing");
}

#[test]
#[ignore = "in a process of its own"]
fn failing() {
    let before = ALLOCATOR.stats().heaps;
    // More than the system has, and more than a heap can have.
    for size in [1 << 46, isize::MAX as usize / 2, 17 << 30] {
        let limit = libc::rlimit { rlim_cur: 16 << 30, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit is valid for reads.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        for _ in 0..100 {
            assert!(ALLOCATOR.allocate(size).is_null(), "{size} B");
        }
    }
    let after = ALLOCATOR.stats().heaps;
    assert!(after <= before + 1, "{before} heaps before, {after} after");
}
