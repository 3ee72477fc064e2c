//! Faults: what the program is told of by SIGSEGV and SIGBUS.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize};

use crate::os::thread_id;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What was done on these signals before: the handler, and whether it takes three arguments.
static BEFORE: [(AtomicUsize, AtomicBool); 2] =
    [const { (AtomicUsize::new(libc::SIG_DFL), AtomicBool::new(false)) }; 2];

/// How often the handler was installed.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);

/// The thread that a fault is being handled for; 0: none.
static HANDLING: AtomicI32 = AtomicI32::new(0);

/// What is called with the address of a fault: a `fn(*mut u8)`, or null.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Has `callback` called with the address of each fault, before what was done there so far. May be called more than
/// once, with the same function: a handler that others installed since is called after it, too.
pub(crate) fn on_fault(callback: fn(*mut u8)) {
    /// Who takes the signals after that shall have them.
    const MOST: usize = 2;
    CALLBACK.store(callback as *mut c_void, Release);
    let ours = fault as Handler as *const c_void as usize;
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        // SAFETY: all zeros is a value; the handler is one for this kind, and calls what was there.
        unsafe {
            let mut old: libc::sigaction = core::mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &raw mut old) != 0
                || old.sa_sigaction == ours
                || INSTALLED.load(Relaxed) >= MOST * SIGNALS.len()
            {
                continue;
            }
            before.0.store(old.sa_sigaction, Relaxed);
            before.1.store(old.sa_flags & libc::SA_SIGINFO != 0, Relaxed);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = ours;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
            INSTALLED.fetch_add(1, Relaxed);
        }
    }
}

/// Called on a fault: tells of it, and leaves everything to what was there before.
extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = thread_id();
    // What was there before may call this again.
    let is_nested = HANDLING.swap(thread, Relaxed) == thread;
    // SAFETY: the system passes valid pointers; what is told, and what was there before, is called as it asks for.
    unsafe {
        let callback = CALLBACK.load(Acquire);
        if !is_nested && !callback.is_null() {
            core::mem::transmute::<*mut c_void, fn(*mut u8)>(callback)((*info).si_addr().cast());
        }
        let at = SIGNALS.iter().position(|known| *known == signal).unwrap_or(0);
        let handler = BEFORE[at].0.load(Relaxed);
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_nested {
            // The instruction is tried again, and ends the process.
            libc::signal(signal, libc::SIG_DFL);
        } else if BEFORE[at].1.load(Relaxed) {
            core::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            core::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
        }
    }
    HANDLING.store(0, Relaxed);
}
