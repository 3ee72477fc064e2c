//! The recording side.
//!
//! | module | what |
//! |---|---|
//! | `system` | the few calls of the system |
//! | `settings` | the settings of a recording |
//! | `sites` | the call stacks recorded so far |
//! | `log` | the log of the running process |
//! | `session` | settings and log, determined once and inherited by `fork` |

mod log;
mod session;
mod settings;
mod sites;
mod system;

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::record::Record;
use super::request;
pub use sites::{Loaded, Outermost, Stack, StackFrame, TellsLoaded};

/// Appends a record made by `thread` (see [`new_thread`]) to the log of this process, if the
/// environment armed recording. Never fails visibly; preserves `errno`. O(1), except when the log
/// grows.
#[inline]
pub fn record(thread: u32, record: Record) {
    if let Some((session, log)) = open() {
        log.record(session.settings(), thread, record);
    }
}

/// Appends a record like [`record`], with its call stack if stacks are requested: `walk` gets the
/// maximum number of frames, and passes on the stack.
#[inline]
pub fn record_at(
    thread: u32,
    record: Record,
    walk: impl FnOnce(usize, &mut dyn FnMut(&Stack<'_>)),
) {
    let Some((session, log)) = open() else { return };
    let settings = session.settings();
    match settings.stack_depth() {
        0 => log.record(settings, thread, record),
        _ if log.is_over() => {}
        depth => walk(depth, &mut |stack| log.record_at(settings, thread, record, stack)),
    }
}

/// Returns the requested number of frames per stack; 0 if there is no such request, or nothing is
/// recorded.
#[inline]
pub fn stack_depth() -> usize {
    match open() {
        Some((session, log)) if !log.is_over() => session.settings().stack_depth(),
        _ => 0,
    }
}

/// Returns the session and log of this process, if recording is armed and on.
#[inline]
fn open() -> Option<(&'static session::Session, &'static log::Log)> {
    let session = session::current()?;
    Some((session, session.log()?))
}

/// Arms recording with the words of a [`Request`](super::Request) instead of the environment,
/// before the first record; returns the addresses of its functions, or `None` if there is no
/// request.
pub fn arm(word: impl Fn(usize) -> u64) -> Option<[u64; super::FUNCTIONS.len()]> {
    let mut text = request::ROOM;
    let request = request::read(word, &mut text)?;
    session::arm(&request);
    Some(request.functions)
}

/// Returns a new thread number, unique in this process and its ancestors (a forked child's first
/// thread keeps its number); never 0. Store it in a thread-local variable.
pub fn new_thread() -> u32 {
    // Not in the wiped memory, so a child continues counting.
    static THREADS: AtomicU32 = AtomicU32::new(1);
    THREADS.fetch_add(1, Relaxed)
}
