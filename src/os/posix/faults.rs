//! Reports faults, which POSIX delivers as SIGSEGV and SIGBUS.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize};

use crate::os::thread_id;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The previous handler of each signal, and whether it takes three arguments.
static BEFORE: [(AtomicUsize, AtomicBool); 2] =
    [const { (AtomicUsize::new(libc::SIG_DFL), AtomicBool::new(false)) }; 2];

/// Marks a signal that this handler has seen. It is written to the end of the signal's information,
/// which the system leaves zeros. A flag elsewhere would not do, since the previous handler may
/// jump out and never return.
const SEEN: u64 = 0x7061_6765_7769_7365;

/// How many times the handler was installed, for both signals together.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);

/// The thread whose fault is being reported; 0 if none.
static REPORTING: AtomicI32 = AtomicI32::new(0);

/// The function to call on a fault, a `fn(*mut u8)`, or null.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Has `callback` called with the address of each fault, before the previous handler. May be called
/// again with the same function: a handler that was installed in between is then called after it as
/// well.
pub(crate) fn on_fault(callback: fn(*mut u8)) {
    /// Installations per signal. A handler that the program installs after the last of them keeps
    /// the signal.
    const MOST: usize = 2;
    CALLBACK.store(callback as *mut c_void, Release);
    let ours = fault as Handler as *const c_void as usize;
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        // SAFETY: all zeros is a valid value; the handler has the type that `SA_SIGINFO` asks for,
        // and calls the previous one.
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
            // A previous handler that jumps out relies on the signals that it had blocked.
            let kept = if old.sa_sigaction == libc::SIG_DFL { 0 } else { libc::SA_NODEFER };
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | (old.sa_flags & kept);
            action.sa_mask = old.sa_mask;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
            INSTALLED.fetch_add(1, Relaxed);
        }
    }
}

/// Handles a fault: calls the function in [`CALLBACK`], then the previous handler.
extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid pointers, and the signal's information belongs to this
    // handler; each function is called by the type that it was stored with.
    unsafe {
        let seen = info.add(1).cast::<u64>().sub(1);
        // The previous handler may call this one again.
        let is_nested = seen.read_unaligned() == SEEN;
        seen.write_unaligned(SEEN);
        // A signal that was sent is no fault.
        let is_sent = (*info).si_code <= 0;
        if !is_nested && !is_sent {
            report((*info).si_addr().cast());
        }
        let at = SIGNALS.iter().position(|known| *known == signal).unwrap_or(0);
        let handler = BEFORE[at].0.load(Relaxed);
        if handler == libc::SIG_IGN && is_sent {
            // It is ignored, as without this handler.
        } else if handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_nested {
            // The faulting instruction runs again and ends the process, or the signal is sent again
            // and does.
            libc::signal(signal, libc::SIG_DFL);
            if is_sent {
                libc::raise(signal);
            }
        } else if BEFORE[at].1.load(Relaxed) {
            core::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            core::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
        }
    }
}

/// Calls the function that reports faults, unless this thread is in it: its own faults are not
/// reported.
fn report(address: *mut u8) {
    let callback = CALLBACK.load(Acquire);
    let thread = thread_id();
    if !callback.is_null() && REPORTING.swap(thread, Relaxed) != thread {
        // SAFETY: `CALLBACK` holds null or a function of this type.
        unsafe { core::mem::transmute::<*mut c_void, fn(*mut u8)>(callback)(address) };
        REPORTING.store(0, Relaxed);
    }
}
