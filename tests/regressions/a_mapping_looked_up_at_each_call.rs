//! Whether a large block's header can be read was asked of the system each time that the block was
//! measured, resized or freed: three system calls, more than half a microsecond. A program that
//! read 200 MiB into a buffer which `realloc` lengthened by 80 bytes at a time took 22 times as
//! long as with glibc.

use crate::ALLOCATOR;
use crate::child::passes;
use crate::child::sandbox::{self, Refusal};

const SIZE: usize = 20 << 20;

#[test]
fn asks_the_system_nothing() {
    passes("a_mapping_looked_up_at_each_call::used");
}

#[test]
#[ignore = "in a process of its own, where the last system call of the three is refused"]
fn used() {
    let (first, second) = (ALLOCATOR.allocate(SIZE), ALLOCATOR.allocate(SIZE));
    assert!(!first.is_null() && !second.is_null());
    // With this answer, nothing is readable.
    let refusal = Refusal { call: libc::SYS_rt_sigprocmask, error: libc::EFAULT, below: None };
    sandbox::install(refusal).expect("the filter is installed");
    // SAFETY: the blocks are in use, each until it is freed; one that moved is used no more.
    unsafe {
        let mut grown = first;
        for size in (SIZE..4 * SIZE).step_by(SIZE / 8 + 1000) {
            grown = ALLOCATOR.reallocate(grown, size);
            assert!(!grown.is_null() && ALLOCATOR.usable_size(grown) >= size);
            grown.add(size - 1).write(7);
        }
        let less = ALLOCATOR.reallocate(grown, 2 * SIZE);
        assert_eq!(less, grown);
        for block in [less, second] {
            ALLOCATOR.free(block);
        }
        let next = ALLOCATOR.allocate(SIZE);
        assert!(ALLOCATOR.usable_size(next) >= SIZE);
        ALLOCATOR.free(next);
    }
}
