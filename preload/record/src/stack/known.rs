//! What is known of a stack without asking the kernel for its pages.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::readable::{Known, Readable};

/// The first stack of a process is no longer, and nothing else lies so near to it.
const FIRST: u64 = 64 << 20;
/// The part of another thread's stack that is remembered is no longer.
const REMEMBERED: u64 = 256 << 10;

/// Where the first stack of the process ends; 0: not looked for.
static END: AtomicU64 = AtomicU64::new(0);

/// The first stack of the process, if an address lies in it: the kernel keeps it readable up to what it put
/// there when the program began.
#[inline]
pub(super) fn main_stack(stack: u64) -> Option<Known> {
    let end = match END.load(Relaxed) {
        0 => find_end(),
        end => end,
    };
    (end.wrapping_sub(stack) < FIRST).then_some(Known { start: stack, end })
}

#[cold]
fn find_end() -> u64 {
    // SAFETY: the call touches no memory of the program. It tells where the kernel put random bytes.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    // Without them, an address that no stack has.
    let end = if random == 0 { 1 } else { random & !7 };
    END.store(end, Relaxed);
    end
}

/// What may be remembered of the calling thread's stack after a walk: from where the walk began up to the thread's
/// control block, which the C library puts at the stack's end. Nothing there is unmapped while the thread runs
/// on it. A stack that the program made is somewhere else, or there is a gap between: it may be unmapped at any time.
#[inline]
pub(super) fn of_thread(before: Known, readable: &mut Readable) -> Known {
    let block: u64;
    // SAFETY: reads the word of the thread's control block that tells its own address.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly, preserves_flags));
    }
    let start = readable.near().start;
    if (before.start..before.end).contains(&start)
        || block.wrapping_sub(start) >= REMEMBERED
        || !readable.reaches(block - 1)
    {
        return before;
    }
    Known { start, end: block }
}
