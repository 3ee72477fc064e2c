//! `libpagewise.so`: replaces the C library's allocator by [`Pagewise`] in any dynamically linked
//! program:
//!
//! ```sh
//! LD_PRELOAD=/path/to/libpagewise.so python3
//! ```
//!
//! A program can also link this library, with or without replacing the C library's allocator;
//! `pagewise.h` declares its interface (docs/c.md).
//!
//! This package is glue. `c` implements the rules of C's `malloc` family, and `prefixed` exports
//! them as `pagewise_malloc` and so on, together with the rest of `pagewise.h`. With the feature
//! `override`, `names` exports them under C's names, `gnu` adds glibc's extensions, `new` adds
//! C++'s `operator new` and `delete`, and `sandbox` learns of sandboxes. All memory comes from
//! [`PAGEWISE`].

#![no_std]
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
mod panic;
pub mod prefixed;
#[cfg(all(feature = "override", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod sandbox;
#[cfg(all(feature = "override", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod symbols;

// Exports `dlopen`. Otherwise libraries opened with RTLD_DEEPBIND would use the C library's
// allocator.
#[cfg(feature = "override")]
extern crate pagewise_deepbind;

use pagewise::global::{HugePages, Pagewise, Tuning};

/// The default tuning, except that huge pages begin at 16 MiB of a heap. Any program may load this
/// library, and most hold a few tens of MiB at most; one partly used huge page is a fifth of a heap
/// of 10 MiB.
const TUNING: Tuning = Tuning::new().huge_pages(HugePages::Beyond(16 << 20));

/// The allocator.
static PAGEWISE: Pagewise = Pagewise::with(TUNING);

/// The library's own Rust code must not use the allocator that the library replaces.
#[global_allocator]
static OURS: Pagewise = Pagewise::with(TUNING);

/// Initialises the allocator when the library is loaded, before the program's own code runs: the
/// program might use up the thread-specific keys with which the allocator detects that a thread
/// ends.
#[used]
#[unsafe(link_section = ".init_array")]
static OPEN: extern "C" fn() = open;

extern "C" fn open() {
    PAGEWISE.open();
}

/// Aborts the process with a line on standard error.
#[cfg(feature = "override")]
#[cold]
fn stop(message: &str) -> ! {
    write(message);
    // SAFETY: the call does not return.
    unsafe { libc::abort() }
}

/// Writes to standard error.
#[cfg_attr(not(feature = "override"), allow(dead_code, reason = "with `std` nobody calls it then"))]
fn write(text: &str) {
    // Not `write`, which is a cancellation point.
    // SAFETY: the pointer is valid for reads of `text.len()` bytes.
    unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
}
