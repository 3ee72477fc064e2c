//! A walk over a stack reads no page that is not there, wherever its rules lead it.

#![cfg(target_os = "linux")]

#[path = "../src/stack/readable.rs"]
mod readable;

use std::ptr;

use readable::Readable;

const PAGE: usize = 4096;

/// Of eight pages, which a walk comes to in any order, two are missing. (Once one beyond them had been read, they were
/// taken to be readable.)
#[test]
fn a_hole_is_not_read() {
    // SAFETY: fresh memory, two pages of which are given back.
    let start = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(ptr::null_mut(), 8 * PAGE, access, kind, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        for page in 0..8 {
            start.cast::<u64>().add(page * PAGE / 8).write(page as u64);
        }
        assert_eq!(libc::munmap(start.byte_add(2 * PAGE), PAGE), 0);
        assert_eq!(libc::munmap(start.byte_add(5 * PAGE), PAGE), 0);
        start.addr() as u64
    };
    let mut readable = Readable::at(start);
    for page in [4, 2, 3, 6, 5, 7, 1, 2, 5, 0, 6] {
        let known = (page != 2 && page != 5).then_some(page);
        assert_eq!(readable.word(start + page * PAGE as u64), known, "page {page}");
    }
    assert_eq!(readable.word(start + 4), None, "no word starts there");
    assert_eq!(readable.word(start.wrapping_sub(8)), None, "it lies below the stack");
}
