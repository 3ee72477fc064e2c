//! Raw logs: what a recorder writes while the program runs, and its conversion to events.
//!
//! ```text
//!  0      Head: who recorded                    64 KiB
//!  65536  record, record, record, …, zeros      24 bytes each, in the order of the events
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

mod convert;
mod read;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod recorder;

use core::sync::atomic::AtomicU32;

pub use convert::{Converter, Dropped};
pub use read::{LogOrigin, LogReader, open};
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use recorder::{new_thread, record};

/// The environment variable that arms a recorder: the absolute path of the directory, which must
/// exist, that takes the logs. Without it nothing is recorded.
pub const DIRECTORY: &str = "PAGEWISE_RECORD_DIR";

/// Extension of a raw log's file name.
pub const EXTENSION: &str = "pwlog";

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

/// Words of a record as it stands in the log. The first one is never 0, so that a record that was
/// begun and never completed, because its process was killed, can be told.
type Words = [u64; 3];

impl Record {
    /// ```text
    ///  word 0   kind (8 bits) | align_log2 (8) | 0 (16) | thread (32)
    ///  word 1   address
    ///  word 2   size
    /// ```
    #[cfg(any(test, all(target_os = "linux", target_has_atomic = "64")))]
    fn encode(self, thread: u32) -> Words {
        let (kind, align_log2, address, size) = match self {
            Self::Allocated { address, size, align_log2 } => (1, align_log2, address, size),
            Self::Freeing { address } => (2, 0, address, 0),
            Self::Reallocating { address, size, align_log2 } => (3, align_log2, address, size),
            Self::Reallocated { address } => (4, 0, address, 0),
        };
        [kind | u64::from(align_log2) << 8 | u64::from(thread) << 32, address, size]
    }

    /// The thread and the record; what is wrong if the words are none.
    fn decode(words: Words) -> Result<(u32, Self), &'static str> {
        let [word, address, size] = words;
        let align_log2 = (word >> 8) as u8;
        if align_log2 > 31 {
            return Err("an alignment is out of bounds");
        }
        let record = match word as u8 {
            1 => Self::Allocated { address, size, align_log2 },
            2 => Self::Freeing { address },
            3 => Self::Reallocating { address, size, align_log2 },
            4 => Self::Reallocated { address },
            _ => return Err("its kind is unknown"),
        };
        Ok(((word >> 32) as u32, record))
    }
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
    /// Not 0 once the log could not grow: what follows is missing.
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
const MAGIC: u64 = u64::from_be_bytes(*b"PWLOG\r\n\x1a");
const VERSION: u32 = 1;

const _: () = assert!(size_of::<Head>() == HEAD);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let (address, size, align_log2) = (0x7fff_1234_5678, 99, 12);
        for record in [
            Record::Allocated { address, size, align_log2 },
            Record::Freeing { address },
            Record::Reallocating { address, size, align_log2 },
            Record::Reallocated { address: 0 },
        ] {
            assert_eq!(Record::decode(record.encode(u32::MAX)), Ok((u32::MAX, record)));
        }
        assert!(Record::decode([0, 0, 0]).is_err());
        assert!(Record::decode([1 | 32 << 8, 1, 1]).is_err());
        assert!(Record::decode([5, 1, 1]).is_err());
    }
}
