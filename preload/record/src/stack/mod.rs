//! Where an allocation comes from: the return addresses of the calling thread.
//!
//! ```text
//!  caller ─► walk: frame after frame, by a rule for each address     (rules: cache, else .eh_frame)
//!            until they are those of the walk before                 (memo)
//!         ─► record, with the loaded file of each new address        (loaded)
//! ```
//! On x86-64 the frames are found by the unwind tables that every program there has (`.eh_frame`):
//! most are built without frame pointers. On AArch64 they are found by frame pointers, which
//! compilers keep there. Nothing allocates, takes a lock or calls the loader, but for the first look
//! at an address with a C library older than glibc 2.35.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod known;
mod loaded;
#[cfg(target_arch = "x86_64")]
mod memo;
mod readable;
#[cfg(target_arch = "x86_64")]
mod rules;
#[cfg(target_arch = "x86_64")]
mod try_lock;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(crate) use loaded::look;
use pagewise_trace::raw::{self, DEEPEST, Outermost, Record, Stack, StackFrame};

use crate::caller::Caller;
#[cfg(target_arch = "aarch64")]
use aarch64::walk;

/// Changes whenever a file was unloaded: rules and addresses of before hold no longer.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// What the loader said of unloaded files last.
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Records what a thread did, with its stack if that is asked for.
#[inline]
pub(crate) fn record(thread: u32, record: Record, caller: Caller) {
    raw::record_at(thread, record, |depth, tell| {
        let generation = GENERATION.load(Acquire);
        #[cfg(target_arch = "x86_64")]
        if let Some(mut memo) = memo::Memo::of(thread) {
            return memo.walk(thread, depth, generation, &caller, tell);
        }
        walk_anew(depth, generation, &caller, tell);
    });
}

/// Walks the whole stack.
#[cfg_attr(target_arch = "x86_64", cold)]
#[inline(never)]
fn walk_anew(depth: usize, generation: u64, caller: &Caller, tell: &mut dyn FnMut(&Stack<'_>)) {
    let mut addresses = [const { MaybeUninit::<u64>::uninit() }; DEEPEST];
    let mut len = 0;
    let mut outermost = walk(generation, caller, |address| {
        let Some(place) = addresses[..depth.min(DEEPEST)].get_mut(len) else { return false };
        place.write(address);
        len += 1;
        true
    });
    if len == 0 {
        outermost = Outermost::Lost;
    }
    // SAFETY: the first `len` were written.
    let addresses: &[u64] = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast(), len) };
    let seed = Stack::seed(generation, outermost);
    // Kept nowhere: this may be a signal handler's small stack.
    let frame = |at: usize| {
        let callers = addresses[len - at..].iter().rev();
        let hash = callers.fold(seed, |hash, &address| Stack::hash_of(hash, address));
        let address = addresses[len - 1 - at];
        StackFrame { address, hash: Stack::hash_of(hash, address) }
    };
    tell(&Stack { len, frame: &frame, outermost, generation, loaded: loaded::tell });
}

/// Passes the return addresses of a caller's stack to `each`, the innermost first, until it says no.
#[cfg(target_arch = "x86_64")]
fn walk(generation: u64, caller: &Caller, mut each: impl FnMut(u64) -> bool) -> Outermost {
    use readable::{Known, Readable};

    let mut readable = Readable::at(caller.stack, Known::NONE);
    let mut next = x86_64::Frame::first(caller, &mut readable);
    while let Some(frame) = next {
        if !each(frame.address) {
            return Outermost::Cut;
        }
        next = match frame.next(generation, &mut readable) {
            Ok(frame) => Some(frame),
            Err(end) => return end.outermost,
        };
    }
    Outermost::Lost
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
