//! A walk over a stack reads no page that is not there, wherever its rules lead it.

#![cfg(target_os = "linux")]

#[path = "../src/stack/readable.rs"]
mod readable;

use std::ptr;

use readable::{Known, Readable};

const PAGE: usize = 4096;

/// Where eight pages begin, the third and the sixth of which are missing. Each begins with its number.
fn pages_with_holes() -> u64 {
    // SAFETY: fresh memory, two pages of which are given back.
    unsafe {
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
    }
}

/// Of eight pages, which a walk comes to in any order, two are missing. (Once one beyond them had been read, they were
/// taken to be readable.)
#[test]
fn a_hole_is_not_read() {
    let start = pages_with_holes();
    let mut readable = Readable::at(start, Known::NONE);
    for page in [4, 2, 3, 6, 5, 7, 1, 2, 5, 0, 6] {
        let known = (page != 2 && page != 5).then_some(page);
        assert_eq!(readable.word(start + page * PAGE as u64), known, "page {page}");
    }
    assert_eq!(readable.word(start + 4), None, "no word starts there");
    assert_eq!(readable.word(start.wrapping_sub(8)), None, "it lies below the stack");
}

/// What is known is not asked for: it is where the walk begins, or where it comes to.
#[test]
fn what_is_known_is_joined() {
    let start = pages_with_holes();
    let page = |page: usize| start + (page * PAGE) as u64;
    for (at, known, near) in [
        (page(0) + 8, Known { start: page(0), end: page(2) }, page(0) + 8..page(2)),
        (page(0) + 8, Known { start: page(1), end: page(2) }, page(0) + 8..page(2)),
        (page(0) + 8, Known { start: page(1) + 8, end: page(2) }, page(0) + 8..page(1)),
        (page(3), Known { start: page(0), end: page(2) }, page(3)..page(4)),
        (page(6), Known { start: page(3), end: page(4) }, page(6)..page(7)),
    ] {
        let mut readable = Readable::at(at, known);
        assert_eq!(readable.near(), near);
        assert!(readable.reaches(near.end - 8));
    }
    // A page that is looked at leads to what is known, and a hole nowhere.
    let mut readable = Readable::at(page(3), Known { start: page(4) + 16, end: page(5) });
    assert!(readable.reaches(page(4)));
    assert_eq!(readable.near(), page(3)..page(5));
    assert!(!readable.reaches(page(5)) && !readable.reaches(page(6)));
    assert_eq!(readable.word(page(6)), Some(6));
    assert_eq!(readable.near(), page(3)..page(5));
}
