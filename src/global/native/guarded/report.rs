//! What is said of a misuse of a guarded block: which block, and where it was allocated, freed and misused.

use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

use super::super::text::Text;
use super::pool::{PLACES, POOL, Place, State, Trace, has, index_of, with_place};
use super::stack::Stack;
use crate::os;

/// What is to be done about a free or a fault.
pub(super) enum Misuse {
    FreedTwice,
    NoBlock,
    Overflow,
}

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What was done on these signals before: the handler, and whether it takes three arguments.
static BEFORE: [(AtomicUsize, AtomicBool); 2] =
    [const { (AtomicUsize::new(libc::SIG_DFL), AtomicBool::new(false)) }; 2];

/// How often the handler was installed.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);

/// The thread that a fault is being handled for; 0: none.
static HANDLING: AtomicI32 = AtomicI32::new(0);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Has faults among the places reported. Called more than once: Rust's library looks for a handler before its
/// first allocation, which comes here, and installs its own after.
pub(super) fn install() {
    /// Who takes the signals after that shall have them.
    const MOST: usize = 2;
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

/// Called on a fault: reports one among the places, and leaves everything to what was there before.
extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = os::thread_id();
    // What was there before may call this again.
    let is_nested = HANDLING.swap(thread, Relaxed) == thread;
    // SAFETY: the system passes valid pointers; what was there before is called as it asks for.
    unsafe {
        let address = (*info).si_addr().cast::<u8>();
        if has(address) && !is_nested {
            report_fault(address);
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

/// A fault at an address among the places.
fn report_fault(address: *mut u8) {
    let page = os::page_size();
    let offset = address.addr() - POOL.load(Relaxed).addr();
    let mut text = Text::new();
    let in_guard = (offset / page).is_multiple_of(2);
    // Of a closed page: the place before it was overrun, or the one behind it underrun, whichever is nearer.
    let before = in_guard && offset % page < page / 2 && offset / page > 0;
    let shown = if before { address.wrapping_sub(page) } else { address };
    let place = with_place(shown, |place| place);
    let Some(place) = place.filter(|place| place.state != State::Unused) else {
        let _ = writeln!(text, "pagewise: a fault at {:#x}, near no guarded block", address.addr());
        return text.write();
    };
    let what = match (place.state, in_guard, before) {
        (State::Freed, _, _) => "memory was used after it was freed",
        (_, true, true) => "memory was used beyond the end of a block",
        (_, true, false) => "memory was used before the start of a block",
        _ => "a fault in a block in use",
    };
    say(&mut text, what, address, &place);
}

/// Reports a misuse that a free noticed, and ends the process. No lock is held.
pub(super) fn misuse(block: *mut u8, misuse: &Misuse) -> ! {
    let mut text = Text::new();
    let what = match misuse {
        Misuse::FreedTwice => "a block was freed twice",
        Misuse::NoBlock => "a pointer was freed, resized or measured that is no block in use",
        Misuse::Overflow => "memory was written beyond the end of a block",
    };
    let place = with_place(block, |place| place).unwrap_or(Place::UNUSED);
    say(&mut text, what, block, &place);
    os::abort()
}

fn say(text: &mut Text, what: &str, address: *mut u8, place: &Place) {
    let here = Trace { thread: os::thread_id(), stack: Stack::here() };
    let _ = writeln!(
        text,
        "pagewise: {what}: {:#x}, thread {}; the guarded block is {} bytes at {:#x}, place {} of {PLACES}",
        address.addr(),
        here.thread,
        place.size,
        place.block,
        if has(address) { index_of(address) } else { 0 },
    );
    let mut trace = |what: &str, trace: &Trace| {
        let _ = writeln!(text, "pagewise:   {what} by thread {}:", trace.thread);
        trace.stack.show(text);
    };
    trace("misused", &here);
    if place.state == State::Freed {
        trace("freed", &place.freed);
    }
    if place.state != State::Unused {
        trace("allocated", &place.allocated);
    }
    text.write();
}
