use core::ffi::{c_int, c_void};
use std::sync::Mutex;

use super::*;
use crate::os::alone;

#[path = "../system_frames.rs"]
mod system_frames;

/// The return addresses that this walk finds, and those that the system's unwinder finds.
static FOUND: Mutex<[Vec<usize>; 2]> = Mutex::new([Vec::new(), Vec::new()]);

/// Notes what both walks find, from the caller's return address on.
#[inline(never)]
fn note() {
    let [mut own, mut system] = [Vec::new(), Vec::new()];
    walk(|address, _| {
        own.push(address);
        true
    });
    system_frames::walk(|address, _| {
        system.push(address);
        true
    });
    // The last address of the system's unwinder may be none.
    system.retain(|&address| address > 0);
    // The two calls here are told as two places of this function.
    let inner = own.iter().position(|address| system.contains(address)).expect("they share one");
    let same = system.iter().position(|&address| address == own[inner]).expect("it is there");
    assert!(inner <= 4 && same <= 4, "{own:x?} {system:x?}");
    *FOUND.lock().expect("no test panicked") = [own.split_off(inner), system.split_off(same)];
}

fn noted() -> [Vec<usize>; 2] {
    core::mem::take(&mut FOUND.lock().expect("no test panicked"))
}

extern "C" fn on_signal(_: c_int) {
    note();
}

extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
    note();
    0
}

/// Both walks find the same calls: through Rust, through C's functions, and beyond the handler of a
/// signal, also where that has a stack of its own.
#[test]
fn calls_are_those_that_the_unwinder_finds() {
    note();
    let [own, system] = noted();
    assert_eq!(own, system);
    assert!(own.len() > 5, "{own:x?}");

    let mut numbers = [2_u32, 1];
    // SAFETY: the numbers are two of that size. The handler runs on the memory given to it.
    let [own, system] = unsafe {
        libc::qsort(numbers.as_mut_ptr().cast(), 2, 4, Some(compare));
        noted()
    };
    assert_eq!(own, system);

    for flags in [0, libc::SA_ONSTACK] {
        let mut memory = vec![0_u8; 1 << 16];
        // SAFETY: the handler has the type that the system calls, and its stack outlives it.
        unsafe {
            let stack =
                libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: 1 << 16 };
            assert_eq!(libc::sigaltstack(&raw const stack, ptr::null_mut()), 0);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()), 0);
            libc::raise(libc::SIGUSR2);
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
            assert_eq!(libc::sigaltstack(&raw const none, ptr::null_mut()), 0);
        }
        let [own, system] = noted();
        assert_eq!(own, system);
        assert!(own.len() > 8, "{own:x?}");
    }
}

/// The status of the process whose walk met unmapped code.
const SURVIVED: c_int = 77;

/// A call from code that is unmapped meanwhile ends the walk; the system's unwinder reads the code.
#[test]
fn a_walk_survives_unmapped_code() {
    let run = alone::run("os::posix::call_stack::frames::tests::code_is_unmapped");
    assert_eq!(run.status.code(), Some(SURVIVED), "{run:?}");
}

#[test]
#[ignore = "in a process of its own"]
fn code_is_unmapped() {
    extern "C" fn last(code: *mut u8) {
        // SAFETY: the code is not returned to: the process ends.
        assert_eq!(unsafe { libc::munmap(code.cast(), 4096) }, 0);
        let mut calls = [0; 16];
        crate::os::return_addresses_beyond(0, &mut calls);
        let known = calls.iter().take_while(|&&call| call > 0).count();
        assert!(calls.iter().any(|call| call & !4095 == code.addr()), "{calls:x?}");
        assert!(known < calls.len(), "{calls:x?}");
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(SURVIVED) }
    }
    // push rbx; mov rax, rdi; mov rdi, rsi; call rax: a function without unwind data
    let code = [0x53, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0];
    // SAFETY: the code is copied to memory of its own, and is a function of the type it is called
    // as.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let place = libc::mmap(ptr::null_mut(), 4096, access, kind, -1, 0).cast::<u8>();
        assert_ne!(place.cast(), libc::MAP_FAILED);
        ptr::copy_nonoverlapping(code.as_ptr(), place, code.len());
        let run: extern "C" fn(extern "C" fn(*mut u8), *mut u8) = core::mem::transmute(place);
        run(last, place);
    }
}

/// The first page is never one that was found readable.
#[test]
fn no_word_is_read_at_null() {
    let mut frame = Frame::here();
    assert_eq!([0, 8, 4088].map(|address| frame.word(address)), [None; 3]);
    let word = 77_usize;
    assert_eq!(frame.word((&raw const word).expose_provenance()), Some(77));
    assert_eq!(frame.word(8), None);
}
