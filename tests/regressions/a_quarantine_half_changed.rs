//! A signal handler that forked while hardened mode put a block into quarantine left the child with
//! a quarantine half changed: a block that had left it left it again, and the child was stopped for
//! a second free.

use std::hint::black_box;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::ALLOCATOR;
use crate::child::passes_when;

#[test]
fn is_not_changed_by_a_child() {
    passes_when("a_quarantine_half_changed::forks_at_each_step", |command| {
        command.env("PAGEWISE_HARDENED", "quarantine");
    });
}

/// Bytes of a block; fewer of them than the quarantine has entries fill it.
const SIZE: usize = 400;
const BLOCKS: usize = 1_500;

static STEPS: AtomicUsize = AtomicUsize::new(0);
static FAULTS: AtomicUsize = AtomicUsize::new(0);

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn forks_at_each_step() {
    // SAFETY: the blocks are in use, and freed once; the handler has the type of one, and allocates
    // only in a child, which does not return from it.
    unsafe {
        let blocks: Vec<_> = (0..BLOCKS).map(|_| ALLOCATOR.allocate(SIZE)).collect();
        let (last, rest) = blocks.split_last().expect("there are some");
        rest.iter().for_each(|&block| ALLOCATOR.free(block));
        libc::signal(libc::SIGTRAP, fork_now_and_then as *const () as libc::sighandler_t);
        step(true);
        ALLOCATOR.free(black_box(*last));
        step(false);
    }
    assert!(STEPS.load(Relaxed) > 100, "the steps are seen");
    assert_eq!(FAULTS.load(Relaxed), 0, "children that were stopped");
}

/// Sets whether the processor sends a signal after each instruction.
///
/// # Safety
/// SIGTRAP has a handler.
#[inline(always)]
unsafe fn step(is_on: bool) {
    // SAFETY: the caller guarantees that the signal is handled; no other flag is changed.
    unsafe {
        if is_on {
            core::arch::asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq");
        } else {
            core::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq");
        }
    }
}

/// Forks at every other step. The child uses the quarantine until all of it is exchanged.
extern "C" fn fork_now_and_then(_: libc::c_int) {
    if !STEPS.fetch_add(1, Relaxed).is_multiple_of(2) {
        return;
    }
    // SAFETY: the call writes the status; each block is freed once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            for _ in 0..4 {
                let blocks: [_; BLOCKS] =
                    core::array::from_fn(|index| ALLOCATOR.allocate(16 + index * 37 % 1_500));
                blocks.into_iter().for_each(|block| ALLOCATOR.free(block));
            }
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        FAULTS.fetch_add(usize::from(status != 0), Relaxed);
    }
}
