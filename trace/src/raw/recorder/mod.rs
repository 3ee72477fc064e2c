//! The recording side.
//!
//! | module | what |
//! |---|---|
//! | `system` | the few calls of the system |
//! | `settings` | the settings of a recording |
//! | `sites` | the call stacks that were recorded |
//! | `log` | the log of the running process |
//! | `session` | settings and log, found out once and inherited by `fork` |

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
/// environment armed recording. Never fails visibly; keeps `errno`. O(1), but for the log's
/// growth.
#[inline]
pub fn record(thread: u32, record: Record) {
    if let Some((session, log)) = open() {
        log.record(session.settings(), thread, record);
    }
}

/// Appends a record as [`record`] does, with the stack it was made at if that is asked for: `walk` is
/// passed the most frames of it that are, and passes the stack on.
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

/// Returns the most frames that are asked for of each stack; 0 if none are, or nothing is recorded.
#[inline]
pub fn stack_depth() -> usize {
    match open() {
        Some((session, log)) if !log.is_over() => session.settings().stack_depth(),
        _ => 0,
    }
}

/// Returns the session and the log of this process, if recording is armed and on.
#[inline]
fn open() -> Option<(&'static session::Session, &'static log::Log)> {
    let session = session::current()?;
    Some((session, session.log()?))
}

/// Arms recording by the words of a [`Request`](super::Request) instead of the environment, before the
/// first record, and gives the addresses of its functions; `None` if nothing was asked for.
pub fn arm(word: impl Fn(usize) -> u64) -> Option<[u64; super::FUNCTIONS.len()]> {
    let mut text = request::ROOM;
    let request = request::read(word, &mut text)?;
    session::arm(&request);
    Some(request.functions)
}

/// Returns a number for a thread that has none yet, unique in this process and its ancestors (a
/// forked child's first thread keeps the number it had); to be kept in a thread-local variable.
/// Never 0.
pub fn new_thread() -> u32 {
    // Lies outside the wiped memory, so a child goes on counting.
    static THREADS: AtomicU32 = AtomicU32::new(1);
    THREADS.fetch_add(1, Relaxed)
}
