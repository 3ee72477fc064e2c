//! The remembered part of a thread's stack stays readable as long as the thread runs.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../src/stack/known.rs"]
mod known;
#[path = "../src/stack/readable.rs"]
mod readable;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use known::{main_stack, of_thread};
use readable::{Known, Readable};

const PAGE: usize = 4096;
/// The memory that the tests use: a stack that the program made itself, for example for coroutines;
/// a gap; a thread's stack.
const OWN: usize = 8 * PAGE;
const GAP: usize = 2 * PAGE;
const THREADS: usize = 32 * PAGE;

/// Runs a function in a new thread on the given stack.
fn on_stack(stack: *mut c_void, len: usize, run: extern "C" fn(*mut c_void) -> *mut c_void) {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: only the thread uses the stack, and it has ended when this returns.
    unsafe {
        assert_eq!(libc::pthread_attr_init(attributes.as_mut_ptr()), 0);
        assert_eq!(libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack, len), 0);
        let begun = libc::pthread_create(
            thread.as_mut_ptr(),
            attributes.as_ptr(),
            run,
            stack.byte_sub(OWN + GAP),
        );
        assert_eq!(begun, 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), ptr::null_mut()), 0);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
}

extern "C" fn looks(own: *mut c_void) -> *mut c_void {
    let here = 0_u64;
    let here = ptr::from_ref(&here).addr() as u64;
    assert_eq!(main_stack(here), None);
    // Its own stack is remembered, up to the control block.
    let remembered = of_thread(Known::NONE, &mut Readable::at(here, Known::NONE));
    assert_eq!(remembered.start, here);
    assert!(remembered.end > here && remembered.end - here < THREADS as u64, "{remembered:?}");
    assert!(Readable::at(here, remembered).word(remembered.end - 8).is_some());
    // Further out, nothing new is remembered.
    assert_eq!(of_thread(remembered, &mut Readable::at(here + 64, remembered)), remembered);
    // Further in, the remembered part begins there.
    let deeper = of_thread(remembered, &mut Readable::at(here - 6000, remembered));
    assert_eq!((deeper.start, deeper.end), (here - 6000, remembered.end));
    // Nothing of the other stack is remembered, although it is near.
    let own = own.addr() as u64 + 64;
    for before in [Known::NONE, remembered] {
        assert_eq!(of_thread(before, &mut Readable::at(own, before)), before);
    }
    ptr::null_mut()
}

/// Regression test: such a stack was once remembered in spite of the gap, and read after it was
/// unmapped.
#[test]
fn a_stack_of_the_program_is_not_remembered() {
    // SAFETY: the memory is newly mapped, and only part of it is unmapped.
    let stack = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(ptr::null_mut(), OWN + GAP + THREADS, access, kind, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::munmap(start.byte_add(OWN), GAP), 0);
        start.byte_add(OWN + GAP)
    };
    on_stack(stack, THREADS, looks);
}

#[test]
fn the_first_stack_is_known() {
    // SAFETY: the call does not access the program's memory.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let known = main_stack(random - 4096).unwrap();
    assert_eq!((known.start, known.end), (random - 4096, random & !7));
}
