//! Reports faults, which POSIX delivers as SIGSEGV and SIGBUS.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize};

use super::action_of;
use crate::os::thread_id;

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installations per signal. A handler that the program installs after the last of them keeps the
/// signal.
const MOST: usize = 2;

/// The handler of each installation. Each is another function: a program that puts back the handler
/// that it found gets the installation that it found, and what was before that.
const OURS: [Handler; MOST] = [fault::<0>, fault::<1>];

/// A signal that is handled here, and the handlers that it had before.
struct Signal {
    number: c_int,
    /// How many times a handler was installed.
    installed: AtomicUsize,
    /// The handler before each installation.
    before: [Before; MOST],
}

impl Signal {
    /// Returns a signal without an installation.
    const fn new(number: c_int) -> Self {
        Self { number, installed: AtomicUsize::new(0), before: [const { Before::new() }; MOST] }
    }
}

/// The handler before an installation.
struct Before {
    /// The function, `SIG_DFL` or `SIG_IGN`.
    handler: AtomicUsize,
    /// Whether it takes three arguments.
    takes_three: AtomicBool,
    /// Whether it is called once, and is `SIG_DFL` from then on.
    is_once: AtomicBool,
}

impl Before {
    /// Returns the system's default.
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(libc::SIG_DFL),
            takes_three: AtomicBool::new(false),
            is_once: AtomicBool::new(false),
        }
    }

    /// Keeps what the handler that a signal has says about itself.
    fn set(&self, old: &libc::sigaction) {
        self.handler.store(old.sa_sigaction, Relaxed);
        self.takes_three.store(old.sa_flags & libc::SA_SIGINFO != 0, Relaxed);
        self.is_once.store(old.sa_flags & libc::SA_RESETHAND != 0, Relaxed);
    }

    /// Returns the handler for one call.
    fn take(&self) -> usize {
        // As in the kernel, the first of several threads gets it.
        match self.is_once.load(Relaxed) {
            true => self.handler.swap(libc::SIG_DFL, Relaxed),
            false => self.handler.load(Relaxed),
        }
    }
}

/// Returns the flags for a handler of this file, with which the one before it is called as if it
/// were installed itself: on its stack, with its signals blocked (it may jump out), and the same
/// system calls started again.
fn flags_over(old: &libc::sigaction) -> c_int {
    const KEPT: c_int = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    let of_old = match old.sa_sigaction {
        libc::SIG_DFL => libc::SA_ONSTACK,
        // What is ignored interrupts nothing.
        libc::SIG_IGN => libc::SA_ONSTACK | libc::SA_RESTART,
        _ => old.sa_flags & KEPT,
    };
    libc::SA_SIGINFO | of_old
}

static SIGNALS: [Signal; 2] = [Signal::new(libc::SIGSEGV), Signal::new(libc::SIGBUS)];

/// Marks a signal that a handler of this file has seen; the installation is added. It is written to
/// the end of the signal's information, which the system leaves zeros. A flag elsewhere would not
/// do, since the previous handler may jump out and never return.
const SEEN: u64 = 0x7061_6765_7769_7365;

/// The thread whose fault is being reported; 0 if none.
static REPORTING: AtomicI32 = AtomicI32::new(0);

/// The function to call on a fault, a `fn(*mut u8)`, or null.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Has `callback` called with the address of each fault, before the previous handler. May be called
/// again with the same function: a handler that was installed in between is then called after it as
/// well.
pub(crate) fn on_fault(callback: fn(*mut u8)) {
    CALLBACK.store(callback as *mut c_void, Release);
    let is_ours = |handler| OURS.iter().any(|ours| *ours as *const c_void as usize == handler);
    for signal in &SIGNALS {
        let Some(old) = action_of(signal.number) else { continue };
        if is_ours(old.sa_sigaction) || signal.installed.load(Relaxed) >= MOST {
            continue;
        }
        // SAFETY: all zeros is a valid value; the handler has the type that `SA_SIGINFO` asks for,
        // and calls the previous one.
        unsafe {
            // Several threads may be here; each takes an installation of its own.
            let installation = signal.installed.fetch_add(1, Relaxed);
            let (Some(ours), Some(before)) =
                (OURS.get(installation), signal.before.get(installation))
            else {
                continue;
            };
            before.set(&old);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = *ours as *const c_void as usize;
            action.sa_flags = flags_over(&old);
            action.sa_mask = old.sa_mask;
            libc::sigaction(signal.number, &raw const action, ptr::null_mut());
        }
    }
}

/// Puts back the handlers from before. One that the program installed since stays.
#[cfg(not(any(miri, target_os = "macos")))]
pub(super) fn put_handlers_back() {
    for signal in SIGNALS.iter().filter(|signal| signal.installed.load(Relaxed) > 0) {
        let Some(mut action) = action_of(signal.number) else { continue };
        let is_now = |ours: &Handler| *ours as *const c_void as usize == action.sa_sigaction;
        let Some(installation) = OURS.iter().position(is_now) else { continue };
        let before = &signal.before[installation];
        action.sa_sigaction = before.handler.load(Relaxed);
        if !before.takes_three.load(Relaxed) {
            action.sa_flags &= !libc::SA_SIGINFO;
        }
        if before.is_once.load(Relaxed) {
            action.sa_flags |= libc::SA_RESETHAND;
        }
        // SAFETY: the handler has the type that the flag says.
        unsafe { libc::sigaction(signal.number, &raw const action, ptr::null_mut()) };
    }
}

/// Handles a fault: calls the function in [`CALLBACK`], then the handler before this installation.
extern "C" fn fault<const INSTALLATION: usize>(
    number: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the system passes valid pointers, and the signal's information belongs to this
    // handler; each function is called by the type that it was stored with.
    unsafe {
        let mark = info.add(1).cast::<u64>().sub(1);
        let seen_by = mark.read_unaligned().wrapping_sub(SEEN);
        // A handler in between may call an earlier installation, or this one again.
        let is_seen = seen_by < MOST as u64;
        let is_nested = seen_by <= INSTALLATION as u64;
        mark.write_unaligned(SEEN + INSTALLATION as u64);
        // A signal that was sent is no fault.
        let is_sent = (*info).si_code <= 0;
        if !is_seen && !is_sent {
            report((*info).si_addr().cast());
        }
        let at = SIGNALS.iter().position(|known| known.number == number).unwrap_or(0);
        let before = &SIGNALS[at].before[INSTALLATION];
        let handler = before.take();
        if handler == libc::SIG_IGN && is_sent {
            // It is ignored, as without this handler.
        } else if handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_nested {
            // The faulting instruction runs again and ends the process, or the signal is sent again
            // and does.
            libc::signal(number, libc::SIG_DFL);
            if is_sent {
                libc::raise(number);
            }
        } else if before.takes_three.load(Relaxed) {
            core::mem::transmute::<usize, Handler>(handler)(number, info, context);
        } else {
            core::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(number);
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

#[cfg(all(test, not(miri)))]
mod tests;
