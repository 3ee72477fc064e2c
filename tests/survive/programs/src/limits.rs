//! Process limits: lines 4 and 6.

use std::ffi::c_void;
use std::io;
use std::ptr;

use crate::blocks::{Blocks, poke};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::system::{for_duration, in_child, join, mebibytes, resident, start, trim};

/// Limits the address space, as `ulimit -v` does.
pub(crate) fn address_space(kibibytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: kibibytes << 10, rlim_max: kibibytes << 10 };
    // SAFETY: the limit is valid for reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allocates small blocks until there is no more memory; returns the mebibytes of contents.
pub(crate) fn small_blocks() -> Outcome {
    let (mut blocks, mut random, mut bytes) = (Blocks::new(), Random(1), 0);
    loop {
        let size = 16 + random.below(1000);
        if !blocks.push(size) {
            break;
        }
        bytes += size;
    }
    drop(blocks);
    Outcome::Mebibytes(mebibytes(bytes))
}

/// Under a limit that the program sets at run time, code other than the allocator must work as
/// well.
pub(crate) fn set_by_the_program() -> Outcome {
    let mut missing = Vec::new();
    let blocks = Blocks::fill(1000, 1000);
    if let Err(error) = address_space(2 << 20) {
        return Outcome::Unavailable(error.to_string());
    }
    extern "C" fn allocates(_: *mut c_void) -> *mut c_void {
        poke(3);
        ptr::null_mut()
    }
    match start(allocates) {
        Ok(thread) => join(thread),
        Err(_) => missing.push("thread"),
    }
    // SAFETY: the name is NUL-terminated; the library's constructors are harmless.
    if unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) }.is_null() {
        missing.push("dlopen");
    }
    if in_child(|| assert!(deep(1000) > 0)).is_err() {
        missing.push("stack");
    }
    let mut more = Blocks::new();
    if !(0..100_000).all(|_| more.push(1000)) {
        missing.push("small blocks");
    }
    let mut large = Blocks::new();
    if !(0..20).all(|_| large.push(5 << 20)) {
        missing.push("large blocks");
    }
    drop((blocks, more, large));
    if missing.is_empty() {
        return Outcome::Survived;
    }
    Outcome::Fails(format!("no {}", missing.join(", no ")))
}

/// Uses about 4 KiB of stack per level.
#[inline(never)]
fn deep(levels: usize) -> usize {
    let mut here = [levels as u8; 4000];
    std::hint::black_box(&mut here);
    let below = if levels == 0 { 1 } else { deep(levels - 1) };
    below + usize::from(here[levels])
}

/// Freed memory is given back even if all memory is locked.
pub(crate) fn locked() -> Outcome {
    // SAFETY: takes no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return Outcome::Unavailable(format!("mlockall: {}", io::Error::last_os_error()));
    }
    let before = resident();
    drop(Blocks::fill(100_000, 1000));
    trim();
    for_duration(std::time::Duration::from_secs(2), 500, || poke(1));
    // Subtract the program's own locked memory.
    Outcome::Mebibytes(mebibytes(resident().saturating_sub(before)))
}
