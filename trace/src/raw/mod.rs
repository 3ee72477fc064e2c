//! Raw logs: the records that a recorder writes while the program runs, and their conversion to
//! events.
//!
//! ```text
//!  0      Head: the recorded process            64 KiB
//!  65536  record, record, record, …, zeros      8, 16 or 24 bytes each, in the order of the events
//! ```
//! Every process image, that is every process after its last `exec`, writes its own file,
//! `PID.SERIAL.pwlog`, in the directory named by the environment variable [`DIRECTORY`]. Numbers
//! are in the machine's byte order: raw logs are converted where they were made.
//!
//! # Order
//! A free is recorded *before* it happens, an allocation *after*. So when one thread frees a block
//! and another is given its address, the free always comes first in the log.
//! A reallocation is both, and has two records, one before and one after, paired by the thread.
//!
//! # A record
//! A record is one 64-bit word in the common case, and two or three words otherwise. The three
//! lowest bits of a word give its role. So a reader can continue after a record that was never
//! completed because its thread or process was killed: places that were claimed but not written are
//! 0, and the first word of a longer record is written last.
//! ```text
//!  bits   3        5        2       10     44
//!        kind  │ thread │ align │  size  │ address / 16      allocated, reallocating
//!        kind  │       thread   17       │ address / 16      freeing, reallocated
//!
//!  bits   3     2      5      22       32
//!         5  │ kind │ align │ thread │ size                   two words: any address below 2⁶¹
//!         7  │ address
//!  bits   3     2      5      32     3        3       16
//!         6  │ kind │ align │ thread │ address │ size │ 0     three words: everything else;
//!         7  │ address, its 61 low bits                       the high bits are in the first
//!         7  │ size, its 61 low bits
//! ```
//! Other records contain the time and, if requested, call stacks; `side` describes them.
//!
//! `align` of the first form is an index of `Form::aligns`. On a machine with 32-bit pointers
//! addresses are divided by 8, not by 16.

mod blocks;
#[cfg(unix)]
mod control;
mod convert;
mod form;
mod head;
#[cfg(target_os = "linux")]
mod keeper;
mod names;
mod read;
mod record;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod recorder;
mod request;
mod side;
mod stacks;

#[cfg(unix)]
pub use control::Control;
pub use convert::{Converter, Dropped};
pub use head::Stopped;
#[cfg(target_os = "linux")]
pub use keeper::Keeper;
pub use names::{DEEPEST, DIRECTORY, EXTENSION, FAILED, MAX_LOG, STACKS};
pub use read::{LogOrigin, LogReader, open, stop, stopped, written};
pub use record::Record;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use recorder::{
    Loaded, Outermost, Stack, StackFrame, TellsLoaded, arm, new_thread, record, record_at,
    stack_depth,
};
pub use request::{FUNCTIONS, REQUEST, Request, WORDS};
