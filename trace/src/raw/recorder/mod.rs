//! The recording side.
//!
//! | module | what |
//! |---|---|
//! | `system` | the few calls of the system |
//! | `settings` | what the environment asks for |
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
pub use sites::{Loaded, Outermost, Stack, TellsLoaded};

/// Appends a record made by `thread` (see [`new_thread`]) to the log of this process, if the
/// environment armed recording. Never fails visibly; keeps `errno`. O(1), but for the log's
/// growth.
#[inline]
pub fn record(thread: u32, record: Record) {
    if let Some(session) = session::current() {
        session.log().record(session.settings(), thread, record);
    }
}

/// Appends a record as [`record`] does, with the stack it was made at.
#[inline]
pub fn record_at(thread: u32, record: Record, stack: &Stack<'_>) {
    if let Some(session) = session::current() {
        session.log().record_at(session.settings(), thread, record, stack);
    }
}

/// The most frames that are asked for of each stack; 0 if none are, or nothing is recorded.
#[inline]
pub fn stack_depth() -> usize {
    session::current().map_or(0, |session| session.settings().stack_depth())
}

/// A number for a thread that has none yet, unique in this process and its ancestors (a forked
/// child's first thread keeps the number it had); to be kept in a thread-local variable. Never 0.
pub fn new_thread() -> u32 {
    // Lies outside the wiped memory, so a child goes on counting.
    static THREADS: AtomicU32 = AtomicU32::new(1);
    THREADS.fetch_add(1, Relaxed)
}
