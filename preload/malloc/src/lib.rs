//! `libpagewise.so`: [`Pagewise`] in the place of the C library's allocator, for any dynamically
//! linked program:
//!
//! ```sh
//! LD_PRELOAD=/path/to/libpagewise.so python3
//! ```
//!
//! This package is glue: `c` has the rules of C's `malloc` family, `names` exports them, `gnu` has what
//! GNU's library has beyond C's, `new` C++'s `operator new` and `delete`. Nothing here allocates but through
//! [`PAGEWISE`].

#![cfg(target_os = "linux")]

mod c;
mod gnu;
mod names;
mod new;

use core::ffi::{c_char, c_long};

use pagewise::global::{HugePages, Pagewise, Tuning};

/// The default, but for huge pages, which begin later: it is any program that this is loaded with,
/// most hold some tens of mebibytes at most, and one huge page that is partly used is a fifth of
/// what a heap of 10 MiB takes.
const TUNING: Tuning = Tuning::new().huge_pages(HugePages::Beyond(32 << 20));

/// The allocator.
static PAGEWISE: Pagewise = Pagewise::with(TUNING);

/// The Rust part of this library, too, must not use the allocator it stands in for.
#[global_allocator]
static OURS: Pagewise = Pagewise::with(TUNING);

/// Opens the allocator when the library is loaded, before the program's own code: it may use up the keys by
/// which the allocator learns that a thread ends.
#[used]
#[unsafe(link_section = ".init_array")]
static OPEN: extern "C" fn() = open;

extern "C" fn open() {
    // SAFETY: the block was just allocated.
    unsafe { PAGEWISE.free(PAGEWISE.allocate(1)) };
}

/// For a program's own event loop: gives back what is due. Milliseconds until it is worth calling this
/// again; -1 if nothing is to go back unless the program frees more.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_maintain() -> c_long {
    PAGEWISE
        .maintain()
        .map_or(-1, |pause| c_long::try_from(pause.as_millis()).unwrap_or(c_long::MAX))
}

/// To be called by a thread that will not allocate for a while: puts back the free blocks that it keeps at hand.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_thread_idle() {
    PAGEWISE.thread_idle();
}

/// Ends the process with one line on standard error.
#[cold]
fn stop(message: &str) -> ! {
    // SAFETY: the message is valid for reads of its length; `abort` does not return.
    unsafe {
        libc::write(2, message.as_ptr().cast::<c_char>().cast(), message.len());
        libc::abort()
    }
}
