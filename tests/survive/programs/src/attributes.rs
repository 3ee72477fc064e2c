//! Blocks whose pages the program told the kernel to treat specially, or replaced by others, freed
//! as they are: line 18. Such a block is far larger than those that share pages with others, and
//! glibc unmaps it.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::outcome::Outcome;
use crate::system::in_child;

const SIZE: usize = 40 << 20;
const PAGE: usize = 4096;

/// What the program does to the pages of a block.
const CHANGES: [(&str, Change); 6] = [
    ("kept out of children", |start, len| advise(start, len, libc::MADV_DONTFORK)),
    ("cleared in children", |start, len| advise(start, len, libc::MADV_WIPEONFORK)),
    // SAFETY: the pages are in a block of the caller's, which writes to them no more.
    ("read-only", |start, len| unsafe { libc::mprotect(start, len, libc::PROT_READ) }),
    // SAFETY: the call changes no contents.
    ("locked", |start, _| unsafe { libc::mlock(start, 1 << 20) }),
    ("shared with children", |start, len| map(start, len, libc::MAP_SHARED, -1)),
    ("a file's, and beyond its end", |start, len| {
        // SAFETY: the calls make a file, and close it.
        unsafe {
            let file = libc::memfd_create(c"survive".as_ptr(), 0);
            let mapped = match libc::ftruncate(file, PAGE as libc::off_t) {
                0 => map(start, len, libc::MAP_PRIVATE, file),
                failed => failed,
            };
            libc::close(file);
            mapped
        }
    }),
];

type Change = fn(*mut c_void, usize) -> c_int;

fn advise(start: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: the advice changes no contents in this process.
    unsafe { libc::madvise(start, len, advice) }
}

/// Maps pages of a file, or new ones, over those of a block.
fn map(start: *mut c_void, len: usize, kind: c_int, file: c_int) -> c_int {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
    // SAFETY: the pages are in a block of the caller's, whose contents are lost.
    let mapped =
        unsafe { libc::mmap(start, len, access, libc::MAP_FIXED | kind | anonymous, file, 0) };
    if mapped == start { 0 } else { -1 }
}

/// Returns whether pages of this process are locked: they count towards RLIMIT_MEMLOCK.
fn any_are_locked() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    locked.is_some_and(|locked| locked.trim() != "0 kB")
}

/// Blocks that take the place of changed ones can be written, and children have their contents, but
/// do not share them; and nothing is locked.
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
                    libc::memset(next.cast(), 9, SIZE);
                };
                if in_child(compare).is_err() {
                    return Outcome::Fails(format!("a child lacks what once was {name}"));
                }
                if (0..SIZE).step_by(PAGE).any(|at| next.add(at).read() != 7) {
                    return Outcome::Fails(format!("a child wrote to what once was {name}"));
                }
                if any_are_locked() {
                    return Outcome::Fails(format!("what once was {name} is locked"));
                }
                libc::free(next.cast());
            }
        }
    }
    Outcome::Survived
}
