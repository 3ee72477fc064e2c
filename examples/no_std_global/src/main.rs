//! The global allocator in a program without `std`, on Linux: two threads of the C library fill
//! vectors and pass them on.
//!
//! Its exit status is the number of the failed step, 0 for none.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::panic::PanicInfo;
use core::ptr;

use pagewise::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// What a thread returns: 1,000 vectors of 0 to 999 numbers.
type Made = Vec<Vec<usize>>;

extern "C" fn make(seed: *mut c_void) -> *mut c_void {
    let seed = seed.addr();
    let made: Made = (0..1000).map(|len| (0..len).map(|n| n ^ seed).collect()).collect();
    Box::into_raw(Box::new(made)).cast()
}

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let before = ALLOCATOR.stats().live;
    for seed in [1, 2] {
        let mut thread = 0;
        let mut made = ptr::null_mut();
        // SAFETY: the thread runs a function of the right type, and is joined once.
        unsafe {
            let argument = ptr::without_provenance_mut(seed);
            if libc::pthread_create(&raw mut thread, ptr::null(), make, argument) != 0 {
                return 1;
            }
            if libc::pthread_join(thread, &raw mut made) != 0 || made.is_null() {
                return 2;
            }
        }
        // SAFETY: this is the box that the thread made.
        let mut made = unsafe { Box::from_raw(made.cast::<Made>()) };
        made.iter_mut().for_each(|numbers| numbers.push(7));
        let right = |(len, numbers): (usize, &Vec<usize>)| {
            numbers.len() == len + 1 && (0..len).all(|n| numbers[n] == n ^ seed)
        };
        if !made.iter().enumerate().all(right) {
            return 3;
        }
        if ALLOCATOR.stats().live < before + 1000 * 999 / 2 * size_of::<usize>() {
            return 4;
        }
    }
    if ALLOCATOR.stats().live <= before + (64 << 10) { 0 } else { 5 }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: the call does not return.
    unsafe { libc::abort() }
}
