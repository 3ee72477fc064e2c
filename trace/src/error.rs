//! The faults that a trace may have, and their positions.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an event is invalid at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Invalid {
    /// A block that is not live is freed or reallocated.
    NotLive {
        /// The block's slot.
        slot: u32,
    },
    /// An allocation does not take the slot that the rule assigns.
    Slot {
        /// The slot taken.
        slot: u32,
        /// The slot assigned.
        expected: u32,
    },
    /// More than 2²⁸ blocks would be live at one time.
    TooManyLive,
    /// The size, or the sum of the live sizes, exceeds 2⁶³ − 1 bytes.
    Size {
        /// Bytes requested.
        size: u64,
    },
    /// The alignment is not a power of two.
    Align {
        /// Bytes.
        align: u32,
    },
    /// The thread's number was not seen before, and is not the next new one; or it is 2³² − 1.
    Thread {
        /// Its number.
        thread: u32,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive { slot } => write!(f, "no block is live in slot {slot}"),
            Self::Slot { slot, expected } => {
                write!(f, "an allocation takes slot {slot}, but {expected} is the next")
            }
            Self::TooManyLive => f.write_str("more than 2^28 blocks are live"),
            Self::Size { size } => {
                write!(f, "more than 2^63 - 1 bytes would be live with a block of {size} B")
            }
            Self::Align { align } => write!(f, "the alignment {align} is not a power of two"),
            Self::Thread { thread } => write!(f, "thread {thread} appears before its turn"),
        }
    }
}

impl core::error::Error for Invalid {}

/// Why a trace could not be read: the reason and the position in the file.
#[derive(Debug)]
pub struct ReadError(Box<At>);

/// Boxed, so that the success case stays small.
#[derive(Debug)]
struct At {
    file: Option<PathBuf>,
    event: u64,
    offset: u64,
    reason: Reason,
}

/// A fault in a file that should be a trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The file could not be opened or read.
    Io(io::Error),
    /// The file does not begin like a trace.
    NotATrace,
    /// The file does not begin like a raw log.
    NotALog,
    /// This library does not know the format version.
    Version {
        /// The file's.
        found: u16,
        /// The library's.
        known: u16,
    },
    /// The file ends too early.
    Truncated,
    /// The checksum does not match: the bytes were changed after they were written.
    Checksum,
    /// The header is invalid, for this reason.
    Header(&'static str),
    /// A frame is invalid, for this reason.
    Frame(&'static str),
    /// A record of a raw log is invalid, for this reason.
    Record(&'static str),
    /// The call stacks are invalid, for this reason.
    Stacks(&'static str),
    /// The times are invalid, for this reason.
    Times(&'static str),
    /// The event is invalid at its position.
    Event(Invalid),
    /// The sums over the events differ from the header's figures.
    Claim {
        /// Name of the figure.
        what: &'static str,
        /// The header's figure.
        claimed: u64,
        /// The figure computed from the events.
        found: u64,
    },
    /// Data follows the last event.
    Trailing,
}

impl ReadError {
    /// `reason`, found after `event` events at byte `offset`.
    pub(crate) fn new(reason: Reason, event: u64, offset: u64) -> Self {
        Self(Box::new(At { file: None, event, offset, reason }))
    }

    /// Returns the same error, naming the file it is about.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        self.0.file = Some(file.to_owned());
        self
    }

    /// Returns the fault.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Returns the file, if known.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// Returns how many events (or records, in a raw log) were read before.
    #[must_use]
    pub fn event(&self) -> u64 {
        self.0.event
    }

    /// Returns the offset in the file, in bytes, of the faulty header, frame or record.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::new(Reason::Io(error), 0, 0)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let At { file, event, offset, reason } = &*self.0;
        if let Some(file) = file {
            write!(f, "{}: ", file.display())?;
        }
        match reason {
            Reason::Io(error) => return write!(f, "{error}"),
            Reason::NotATrace => return f.write_str("not a pagewise trace"),
            Reason::NotALog => return f.write_str("not a raw log of this kind of machine"),
            Reason::Version { found, known } => {
                return write!(
                    f,
                    "unknown trace format version {found} (this pagewise reads versions up to {known})",
                );
            }
            Reason::Truncated => f.write_str("the file ends too early")?,
            Reason::Checksum => f.write_str("the checksum does not match: the file is damaged")?,
            Reason::Header(what) => write!(f, "bad header: {what}")?,
            Reason::Frame(what) => write!(f, "bad frame: {what}")?,
            Reason::Record(what) => write!(f, "bad record: {what}")?,
            Reason::Stacks(what) => write!(f, "bad call stacks: {what}")?,
            Reason::Times(what) => write!(f, "bad times: {what}")?,
            Reason::Event(invalid) => write!(f, "bad event: {invalid}")?,
            Reason::Claim { what, claimed, found } => {
                write!(f, "the header claims {claimed} {what}, but the events have {found}")?;
            }
            Reason::Trailing => f.write_str("extra data after the last event")?,
        }
        write!(f, " (after {event} events, at byte {offset})")
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.reason() {
            Reason::Event(invalid) => Some(invalid),
            _ => None,
        }
    }
}

/// Why an event could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    Io(io::Error),
    /// The event is invalid at its position. Nothing was written.
    Event {
        /// Number of events written before.
        event: u64,
        /// The fault.
        invalid: Invalid,
    },
    /// The texts of the header exceed a mebibyte in total.
    HeaderTooLong,
    /// A reader would refuse the call stacks, for this reason. Nothing more was written.
    BadStacks(&'static str),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Event { event, invalid } => write!(f, "event {event}: {invalid}"),
            Self::BadStacks(what) => write!(f, "bad call stacks: {what}"),
            Self::HeaderTooLong => f.write_str("program, arguments and note exceed 1 MiB"),
        }
    }
}

impl core::error::Error for WriteError {}
