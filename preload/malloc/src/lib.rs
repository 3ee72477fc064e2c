//! `libpagewise.so`: [`Pagewise`] in the place of the C library's allocator, for any dynamically
//! linked program:
//!
//! ```sh
//! LD_PRELOAD=/path/to/libpagewise.so python3
//! ```
//!
//! Linked instead, with or without taking the place of the C library's allocator, it is `pagewise.h`'s library:
//! docs/c.md.
//!
//! This package is glue: `c` has the rules of C's `malloc` family, `prefixed` exports them under names of our
//! own, with the rest of `pagewise.h`. With the feature `override`, `names` exports them under C's, `gnu` what GNU's
//! library has beyond those, `new` C++'s `operator new` and `delete`. Nothing here allocates but through
//! [`PAGEWISE`].

#![cfg(target_os = "linux")]

#[cfg_attr(
    not(feature = "override"),
    allow(dead_code, reason = "some are exported under C's names only")
)]
mod c;
#[cfg(feature = "override")]
mod gnu;
#[cfg(feature = "override")]
mod names;
#[cfg(feature = "override")]
mod new;
pub mod prefixed;

// Exports `dlopen`: else libraries that are opened with RTLD_DEEPBIND would go on with the C library's allocator.
#[cfg(feature = "override")]
extern crate pagewise_deepbind;

use pagewise::global::{HugePages, Pagewise, Tuning};

/// The default, but for huge pages, which begin later: it is any program that this is loaded with,
/// most hold some tens of mebibytes at most, and one huge page that is partly used is a fifth of
/// what a heap of 10 MiB takes.
const TUNING: Tuning = Tuning::new().huge_pages(HugePages::Beyond(16 << 20));

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

/// Ends the process with one line on standard error.
#[cfg(feature = "override")]
#[cold]
fn stop(message: &str) -> ! {
    // SAFETY: the message is valid for reads of its length; `abort` does not return.
    unsafe {
        // Not `write`, where a thread that was cancelled would end.
        libc::syscall(libc::SYS_write, 2, message.as_ptr(), message.len());
        libc::abort()
    }
}
