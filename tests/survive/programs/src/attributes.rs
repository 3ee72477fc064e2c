//! Blocks whose pages the program told the kernel to treat specially, freed as they are: line 18.
//! Such a block is far larger than those that share pages with others, and glibc unmaps it.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::outcome::Outcome;
use crate::system::in_child;

const SIZE: usize = 40 << 20;
const PAGE: usize = 4096;

/// What the program does to the pages of a block.
const CHANGES: [(&str, Change); 3] = [
    ("kept out of children", |start, len| advise(start, len, libc::MADV_DONTFORK)),
    ("cleared in children", |start, len| advise(start, len, libc::MADV_WIPEONFORK)),
    // SAFETY: the pages are in a block of the caller's, which writes to them no more.
    ("read-only", |start, len| unsafe { libc::mprotect(start, len, libc::PROT_READ) }),
];

type Change = fn(*mut c_void, usize) -> c_int;

fn advise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: the advice changes no contents in this process.
    unsafe { libc::madvise(start, len, advice) }
}

/// Blocks that take the place of changed ones can be written, and children have their contents.
pub(crate) fn left_behind() -> Outcome {
    for (name, change) in CHANGES {
        for _ in 0..3 {
            // SAFETY: the accesses are within the blocks, and each is freed once.
            unsafe {
                let mut block = ptr::null_mut();
                assert_eq!(libc::posix_memalign(&mut block, PAGE, SIZE), 0, "there is memory");
                libc::memset(block, 1, SIZE);
                if change(block, SIZE) != 0 {
                    return Outcome::Unavailable(format!("no pages {name}"));
                }
                libc::free(block);
                let next = libc::malloc(SIZE).cast::<u8>();
                assert!(!next.is_null(), "there is memory");
                libc::memset(next.cast(), 7, SIZE);
                let compare = || {
                    if (0..SIZE).step_by(PAGE).any(|at| next.add(at).read() != 7) {
                        libc::_exit(1);
                    }
                };
                if in_child(compare).is_err() {
                    return Outcome::Fails(format!("a child lacks what once was {name}"));
                }
                libc::free(next.cast());
            }
        }
    }
    Outcome::Survived
}
