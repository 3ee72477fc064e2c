//! Raw logs: what a recorder writes while the program runs, and its conversion to events.
//!
//! ```text
//!  0      Head: who recorded                    64 KiB
//!  65536  record, record, record, …, zeros      8, 16 or 24 bytes each, in the order of the events
//! ```
//! Every process image, that is every process after its last `exec`, writes a file of its own,
//! `PID.SERIAL.pwlog`, in the directory the environment variable [`DIRECTORY`] names. Numbers are
//! in the byte order of the machine: raw logs are converted where they were made.
//!
//! # Order
//! A free is recorded *before* it happens, an allocation *after*. So when one thread frees a block
//! and another is given its address, the free stands first in the log, whatever the threads'
//! speed. A reallocation is both, and is recorded as both: a record before, a record after, paired
//! by the thread.
//!
//! # A record
//! is one word of 64 bits if it is a common one, and two or three otherwise. The three lowest bits
//! of a word tell what it is, so that a reader can go on behind a record that was never completed
//! because its thread or process was killed: places that were claimed and not written are 0, and
//! the first word of a longer record is written last.
//! ```text
//!  bits   3        5        2       10     44
//!        kind  │ thread │ align │  size  │ address / 16      allocated, reallocating
//!        kind  │       thread   17       │ address / 16      freeing, reallocated
//!
//!  bits   3     2      5      22       32
//!         5  │ kind │ align │ thread │ size                   two words: any address below 2⁶¹
//!         7  │ address
//!  bits   3     2      5      32     3        3       16
//!         6  │ kind │ align │ thread │ address │ size │ 0     three words: whatever else there is;
//!         7  │ address, its 61 low bits                       their high bits stand in the first
//!         7  │ size, its 61 low bits
//! ```
//! `align` of the first form is an index of `Form::aligns`. On a machine with pointers of 32 bits
//! addresses are divided by 8, not by 16.

mod convert;
mod form;
mod read;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod recorder;

use core::sync::atomic::AtomicU32;

pub use convert::{Converter, Dropped};
pub use read::{LogOrigin, LogReader, open, stop, written};
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use recorder::{new_thread, record};

/// The environment variable that arms a recorder: the absolute path of the directory, which must
/// exist, that takes the logs. Without it nothing is recorded.
pub const DIRECTORY: &str = "PAGEWISE_RECORD_DIR";

/// The environment variable that limits the length of each log, in bytes; without it there is no
/// limit.
pub const MAX_LOG: &str = "PAGEWISE_RECORD_MAX_LOG";

/// Extension of a raw log's file name.
pub const EXTENSION: &str = "pwlog";

/// Extension of what is left of a log that could not be begun: `PID.SERIAL.ERROR.pwfail`, where
/// `ERROR` is the system's error number.
pub const FAILED: &str = "pwfail";

/// One record of a raw log. Addresses are those of the recorded program; 0 is C's null pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block was allocated.
    Allocated {
        /// Where.
        address: u64,
        /// Bytes requested.
        size: u64,
        /// Alignment requested, as the exponent of a power of two.
        align_log2: u8,
    },
    /// A block is about to be freed.
    Freeing {
        /// Where it is.
        address: u64,
    },
    /// A block is about to be reallocated.
    Reallocating {
        /// Where it is; 0 if it is to be allocated.
        address: u64,
        /// Bytes requested; any number, since the request may fail.
        size: u64,
        /// Its alignment, as the exponent of a power of two; needed if the block is new or was
        /// allocated before the log began.
        align_log2: u8,
    },
    /// The reallocation this thread began last is over.
    Reallocated {
        /// Where the block is now; 0 if the reallocation failed and the block stays as it was, or
        /// was to 0 bytes and freed it.
        address: u64,
    },
}

/// A recorder's first word, which it writes atomically. Targets without atomics of 64 bits have no
/// recorder; they read logs.
#[cfg(target_has_atomic = "64")]
type Magic = core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "64"))]
type Magic = u64;

/// The head of a raw log. It is written in place, by the recorder, and read field by field.
#[repr(C)]
struct Head {
    /// Written last: a head with its magic is complete.
    magic: Magic,
    version: u32,
    /// Bits of a pointer.
    pointer_width: u32,
    process: u32,
    parent: u32,
    /// Distinguishes the process images of one process.
    serial: u32,
    /// Not 0 once the log has stopped, and what follows is missing: see [`Stopped`].
    stopped: AtomicU32,
    /// Nanoseconds since 1970.
    started: u64,
    /// Bytes of `text` that hold the path of the executable; the arguments, the program itself
    /// first, each with a 0 byte after it, follow.
    path: u32,
    arguments: u32,
    text: [u8; TEXT],
}

const HEAD: usize = 1 << 16;
const TEXT: usize = HEAD - 48;
/// Bytes of a word.
const WORD: usize = 8;
const MAGIC: u64 = u64::from_be_bytes(*b"PWLOG\r\n\x1a");
const VERSION: u32 = 2;

const _: () = assert!(size_of::<Head>() == HEAD);

/// Why a log ends before its process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It could not grow: the system's error number.
    Failed(i32),
    /// It reached the length that [`MAX_LOG`] allows.
    Limit,
    /// Somebody asked for it: [`stop`].
    Asked,
}

impl Stopped {
    const LIMIT: u32 = u32::MAX;
    const ASKED: u32 = u32::MAX - 1;

    /// As it stands in the head; never 0.
    fn code(self) -> u32 {
        match self {
            Self::Failed(error) => u32::try_from(error).unwrap_or(0).clamp(1, Self::ASKED - 1),
            Self::Limit => Self::LIMIT,
            Self::Asked => Self::ASKED,
        }
    }

    /// What stands in the head; `None` if the log has not stopped.
    fn of_code(code: u32) -> Option<Self> {
        match code {
            0 => None,
            Self::LIMIT => Some(Self::Limit),
            Self::ASKED => Some(Self::Asked),
            error => Some(Self::Failed(i32::try_from(error).unwrap_or(i32::MAX))),
        }
    }
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Failed(error) => {
                let error = std::io::Error::from_raw_os_error(error);
                write!(f, "the log could not grow: {error}")
            }
            Self::Limit => f.write_str("the log reached its limit"),
            Self::Asked => f.write_str("the recording was stopped"),
        }
    }
}
