//! The parts of a stack that are readable for certain, so that the kernel need not be asked about
//! their pages.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::readable::{Known, Readable};

/// The process's first stack is at most this many bytes long, and nothing else is mapped within
/// that distance below its end.
const FIRST: u64 = 64 << 20;
/// The most bytes of another thread's stack that are remembered.
const REMEMBERED: u64 = 256 << 10;

/// End of the process's first stack; 0 if it has not been determined.
static END: AtomicU64 = AtomicU64::new(0);

/// Returns the known part of the process's first stack, if `stack` is on it. The kernel keeps that
/// stack readable up to the data that it put there when the program began.
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
    // SAFETY: the call does not access the program's memory. It returns the address where the
    // kernel put random bytes.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    // If there are none, use an address that is on no stack.
    let end = if random == 0 { 1 } else { random & !7 };
    END.store(end, Relaxed);
    end
}

/// Returns the part of the calling thread's stack to remember after a walk: from the start of the
/// walk up to the thread's control block, which the C library puts at the end of the stack. No page
/// in that range is unmapped while the thread runs on this stack. A stack that the program created
/// itself is elsewhere, or there is a gap in between, and may be unmapped at any time; nothing of
/// it is remembered.
#[inline]
pub(super) fn of_thread(before: Known, readable: &mut Readable) -> Known {
    let block: u64;
    // SAFETY: reads the word of the thread's control block that contains its own address.
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
