//! Threads that come and go: line 11.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::blocks::Blocks;
use crate::early::KEYS;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::{join, mebibytes, resident, start};

/// Allocates blocks of many sizes and frees them, which leaves blocks on every list.
extern "C" fn allocates(_: *mut c_void) -> *mut c_void {
    let (mut blocks, mut random) = (Blocks::new(), Random(1));
    for _ in 0..200 {
        blocks.push(16 + random.below(2000));
    }
    ptr::null_mut()
}

/// Runs 5,000 threads, four at a time. [`crate::early`] decides which keys the program has created
/// before.
pub(crate) fn short_lived() -> Outcome {
    for _ in 0..5000 / 4 {
        let threads = [(); 4].map(|()| start(allocates));
        for thread in threads {
            match thread {
                Ok(thread) => join(thread),
                Err(error) => return Outcome::Fails(format!("no thread: error {error}")),
            }
        }
    }
    // If a program wanted keys and got none, it would test nothing.
    let wanted = std::env::args().nth(2).is_some_and(|name| name.starts_with("keys"));
    if wanted && KEYS.load(Ordering::Relaxed) == 0 {
        return Outcome::Unavailable("no .preinit_array".to_owned());
    }
    Outcome::Mebibytes(mebibytes(resident()))
}
