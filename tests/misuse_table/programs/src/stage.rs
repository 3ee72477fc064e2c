//! The program's messages to the watching process: a word per line, written without `malloc`. The
//! last line shows how far the program got before it was stopped.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

/// The misuse is done.
pub(crate) const MISUSED: &str = "misused";
/// The misused access itself faulted: the memory is not mapped, or guarded.
pub(crate) const FAULTED: &str = "faulted";

/// Reports how far the program got.
pub(crate) fn reached(word: &str) {
    for text in [word, "\n"] {
        // SAFETY: the text is valid for reads of its length.
        unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    }
}

/// Reports the outcome, and ends the program at once.
pub(crate) fn end(word: &str) -> ! {
    reached(word);
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}

/// Whether a misused access is in progress.
static ACCESSING: AtomicBool = AtomicBool::new(false);

/// Performs a read or write that the program must not make.
pub(crate) fn access<T>(access: impl FnOnce() -> T) -> T {
    ACCESSING.store(true, Ordering::SeqCst);
    let result = access();
    ACCESSING.store(false, Ordering::SeqCst);
    result
}

/// The action that was installed before.
static mut BEFORE: Option<libc::sigaction> = None;

/// Distinguishes faults of [`access`] from faults in the allocator; passes both on to the action
/// that was installed before, perhaps the allocator's.
pub(crate) fn watch_faults() {
    // SAFETY: all bits zero is a value of the type, and both places are valid; there is one thread.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_fault as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, &mut before);
        BEFORE = Some(before);
    }
}

extern "C" fn on_fault(_: i32) {
    if ACCESSING.load(Ordering::SeqCst) {
        reached(FAULTED);
    }
    // The access is retried, and faults again under the restored action.
    // SAFETY: written once, before the first fault.
    unsafe {
        if let Some(before) = BEFORE {
            libc::sigaction(libc::SIGSEGV, &before, std::ptr::null_mut());
        }
    }
}
