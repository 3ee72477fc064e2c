//! Walks the stack by frame pointers.
//!
//! ```text
//!  x29 ─► │ x29 of the caller │ return address │
//! ```

use core::arch::asm;

use pagewise_trace::raw::Outermost;

use super::loaded;
use super::readable::{Known, Readable};
use crate::caller::Caller;

/// Passes the return addresses of the calling thread to `each`, innermost first, until it returns
/// `false`.
#[inline(always)]
pub(super) fn walk(_: u64, _: &Caller, mut each: impl FnMut(u64) -> bool) -> Outermost {
    // The recorder's own frames come first; they are skipped.
    let (ours, mut inside) = (loaded::ours(), true);
    let (frame, stack): (u64, u64);
    // SAFETY: reads two registers.
    unsafe {
        asm!(
            "mov {frame}, x29", "mov {stack}, sp",
            frame = out(reg) frame, stack = out(reg) stack,
            options(nomem, nostack, preserves_flags),
        );
    }
    let (mut frame, mut last) = (frame, stack);
    let mut readable = Readable::at(stack, Known::NONE);
    loop {
        if frame == 0 {
            return Outermost::First;
        }
        if frame < last {
            return Outermost::Lost;
        }
        let (Some(next), Some(address)) = (readable.word(frame), readable.word(frame + 8)) else {
            return Outermost::Lost;
        };
        if address == 0 {
            return Outermost::First;
        }
        inside &= ours.contains(&address);
        if !inside && !each(address) {
            return Outermost::Cut;
        }
        last = frame + 16;
        frame = next;
    }
}
