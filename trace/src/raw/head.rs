//! The head of a raw log, and why a log may end early: [`Stopped`].

use core::sync::atomic::AtomicU32;

/// A head's first word, which the recorder writes atomically. Targets without 64-bit atomics have
/// no recorder; they only read logs.
#[cfg(target_has_atomic = "64")]
pub(super) type Magic = core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "64"))]
pub(super) type Magic = u64;

/// The head of a raw log. The recorder writes it in place; it is read field by field.
#[repr(C)]
pub(super) struct Head {
    /// Written last: a head with its magic is complete.
    pub(super) magic: Magic,
    pub(super) version: u32,
    /// Bits of a pointer.
    pub(super) pointer_width: u32,
    pub(super) process: u32,
    pub(super) parent: u32,
    /// Distinguishes the process images of one process.
    pub(super) serial: u32,
    /// Not 0 if the log has stopped, so that later events are missing: see [`Stopped`].
    pub(super) stopped: AtomicU32,
    /// Nanoseconds since 1970.
    pub(super) started: u64,
    /// Bytes of the executable's path in `text`; the arguments, beginning with the program itself,
    /// follow, each terminated by a 0 byte.
    pub(super) path: u32,
    pub(super) arguments: u32,
    pub(super) text: [u8; TEXT],
}

pub(super) const HEAD: usize = 1 << 16;
pub(super) const TEXT: usize = HEAD - 48;
/// Bytes of a word.
pub(super) const WORD: usize = 8;
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"PWLOG\r\n\x1a");
/// Versions without and with call stacks.
pub(super) const VERSION: u32 = 4;
pub(super) const VERSION_WITH_STACKS: u32 = 5;
/// Versions of logs without times, without and with call stacks.
pub(super) const WITHOUT_TIMES: [u32; 2] = [2, 3];

const _: () = assert!(size_of::<Head>() == HEAD);

/// Why a log ends before its process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It could not grow: the system's error number.
    Failed(i32),
    /// It reached the maximum length set by [`MAX_LOG`](super::MAX_LOG).
    Limit,
    /// It was requested to stop: [`stop`](super::stop).
    Asked,
}

impl Stopped {
    const LIMIT: u32 = u32::MAX;
    const ASKED: u32 = u32::MAX - 1;

    /// Returns the value for the head; never 0.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Failed(error) => u32::try_from(error).unwrap_or(0).clamp(1, Self::ASKED - 1),
            Self::Limit => Self::LIMIT,
            Self::Asked => Self::ASKED,
        }
    }

    /// Decodes the head's value; `None` if the log has not stopped.
    pub(super) fn of_code(code: u32) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_to_stop_is_read_back() {
        for stopped in [Stopped::Limit, Stopped::Asked, Stopped::Failed(1), Stopped::Failed(28)] {
            assert_eq!(Stopped::of_code(stopped.code()), Some(stopped));
        }
        assert_eq!(Stopped::of_code(0), None);
        assert_eq!(Stopped::Limit.to_string(), "the log reached its limit");
        assert_eq!(Stopped::Asked.to_string(), "the recording was stopped");
        let failed = Stopped::Failed(28).to_string();
        assert!(failed.starts_with("the log could not grow: "), "{failed}");
        // A value that is not an error number of the system must not be taken for another reason or
        // for none.
        assert_eq!(Stopped::of_code(Stopped::Failed(-1).code()), Some(Stopped::Failed(1)));
    }
}
