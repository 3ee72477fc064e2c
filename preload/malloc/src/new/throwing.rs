//! The forms of `operator new` that throw.
//!
//! An exception of the handler, or `std::bad_alloc`, passes through the frames of `new` into the
//! program. It must not pass through Rust code that is built not to unwind. So these frames are in
//! assembly code, which calls the handler and the function that throws; Rust code says which, and
//! looks for memory. Each processor has a file. (Those of an array are among the [derived
//! ones](super::replaced).)
//!
//! ```text
//!  _Znwm ──▶ allocate: a block? ──▶ return it
//!   └─ null ──▶ again ──▶ remedy: the handler, or what throws ──▶ call it
//!                 ▲                                                │ it returned
//!                 └── null ◀── allocate_aligned: a block? ◀────────┘
//! ```

use core::ffi::c_void;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod others;
mod remedy;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use self::aarch64::{again, forms};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use self::others::{again, forms};
use self::remedy::{allocate, allocate_aligned};
#[cfg(target_arch = "x86_64")]
use self::x86_64::{again, forms};

forms! {
    /// `new`
    _Znwm;
    /// `new(std::align_val_t)`
    _ZnwmSt11align_val_t;
}
