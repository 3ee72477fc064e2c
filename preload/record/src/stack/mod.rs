//! Records where an allocation comes from: the return addresses on the calling thread's stack.
//!
//! ```text
//!  caller ─► walk: frame by frame, with a rule for each address        (rules: cache, else .eh_frame)
//!            until the frames match an earlier walk                    (memo)
//!         ─► record, with the loaded file of each new address          (loaded)
//! ```
//! On x86-64 the walk uses the unwind tables (`.eh_frame`), which every program there has: most
//! programs are built without frame pointers. On AArch64 it uses frame pointers, which compilers
//! keep there. Nothing allocates, takes a lock or calls the loader, except the first lookup of an
//! address with a C library older than glibc 2.35.

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

/// Incremented when a file was unloaded, because rules and addresses from before are then invalid.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// The loader's count of unloaded files when it was last asked.
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Records an event of a thread, with its call stack if that is asked for.
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

/// Walks the whole stack, without a memo.
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
    // SAFETY: the first `len` values were written.
    let addresses: &[u64] = unsafe { core::slice::from_raw_parts(addresses.as_ptr().cast(), len) };
    let seed = Stack::seed(generation, outermost);
    // The hashes are computed on demand: this may run on a signal handler's small stack.
    let frame = |at: usize| {
        let callers = addresses[len - at..].iter().rev();
        let hash = callers.fold(seed, |hash, &address| Stack::hash_of(hash, address));
        let address = addresses[len - 1 - at];
        StackFrame { address, hash: Stack::hash_of(hash, address) }
    };
    tell(&Stack { len, frame: &frame, outermost, generation, loaded: loaded::tell });
}

/// Passes the return addresses of the caller's stack to `each`, innermost first, until it returns
/// `false`.
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

/// Returns whether files were unloaded. Must be called after a file may have been.
pub(crate) fn unloaded() {
    if raw::stack_depth() == 0 {
        return;
    }
    let count = loaded::unloaded();
    if UNLOADED.swap(count, Relaxed) != count {
        GENERATION.fetch_add(1, Release);
    }
}
