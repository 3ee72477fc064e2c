//! Where an allocation comes from: the return addresses of the calling thread.
//!
//! ```text
//!  capture ─► walk: frame after frame, by a rule for each address   (rules: cache, else .eh_frame)
//!          ─► record, with the loaded file of each new address      (loaded)
//! ```
//! On x86-64 the frames are found by the unwind tables that every program there has (`.eh_frame`):
//! most are built without frame pointers. On AArch64 they are found by frame pointers, which
//! compilers keep there. Nothing allocates, takes a lock or calls the loader, but for the first look
//! at an address with a C library older than glibc 2.35.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod loaded;
mod readable;
#[cfg(target_arch = "x86_64")]
mod rules;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(crate) use loaded::look;
use pagewise_trace::raw::{self, DEEPEST, Outermost, Record, Stack};

#[cfg(target_arch = "aarch64")]
use aarch64::walk;
#[cfg(target_arch = "x86_64")]
use x86_64::walk;

/// Changes whenever a file was unloaded: rules and addresses of before hold no longer.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// What the loader said of unloaded files last.
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Records what a thread did, with its stack if that is asked for.
#[inline]
pub(crate) fn record(thread: u32, record: Record) {
    match raw::stack_depth() {
        0 => raw::record(thread, record),
        depth => record_with_stack(thread, record, depth),
    }
}

#[inline(never)]
fn record_with_stack(thread: u32, record: Record, depth: usize) {
    let mut addresses = [const { core::mem::MaybeUninit::<u64>::uninit() }; DEEPEST];
    let generation = GENERATION.load(Acquire);
    let ours = loaded::ours();
    let (mut len, mut inside) = (0, true);
    let mut outermost = walk(generation, |address| {
        // The frames of the recorder itself come first.
        inside &= ours.contains(&address);
        if !inside {
            let Some(place) = addresses[..depth].get_mut(len) else { return false };
            place.write(address);
            len += 1;
        }
        true
    });
    if len == 0 {
        outermost = Outermost::Lost;
    }
    // SAFETY: the first `len` were written.
    let addresses = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast(), len) };
    raw::record_at(
        thread,
        record,
        &Stack { addresses, outermost, generation, loaded: loaded::tell },
    );
}

/// To be called after a file may have been unloaded.
pub(crate) fn unloaded() {
    if raw::stack_depth() == 0 {
        return;
    }
    let count = loaded::unloaded();
    if UNLOADED.swap(count, Relaxed) != count {
        GENERATION.store(GENERATION.load(Relaxed) + 1, Release);
    }
}
