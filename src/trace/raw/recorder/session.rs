//! What the environment asks of a recorder: found out once, at the first record, and inherited by
//! `fork`.

use core::ffi::CStr;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::log::Log;
use super::system::{self, Errno};
use crate::trace::raw::{DIRECTORY, EXTENSION, FAILED, HEAD, MAX_LOG, WORD};

/// Null: not known yet. `off()`: recording is not armed. Otherwise a mapping that is never undone.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// The pointer that says: do not record.
pub(super) const fn off<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

/// The session, if recording is armed.
#[inline]
pub(super) fn current() -> Option<&'static Session> {
    let mut session = SESSION.load(Acquire);
    if session.is_null() {
        session = begin();
    }
    if session.is_null() || session == off() {
        return None;
    }
    // SAFETY: a published session is valid, never undone, and constant.
    Some(unsafe { &*session })
}

/// What the environment asked for. Written before it is published, constant afterwards.
pub(super) struct Session {
    log: NonNull<Log>,
    /// Words that a log may have.
    most_words: u64,
    directory: [u8; LONGEST_DIRECTORY],
    directory_len: usize,
}

const LONGEST_DIRECTORY: usize = 1024;

/// Finds out whether recording is armed, and publishes the answer; null if it is too early to
/// tell.
#[cold]
fn begin() -> *mut Session {
    let _errno = Errno::keep();
    let session = match system::environment(DIRECTORY) {
        Err(()) => return ptr::null_mut(),
        Ok(None) => None,
        Ok(Some(directory)) => Session::new(directory),
    };
    let ours = session.map_or(off(), NonNull::as_ptr);
    match SESSION.compare_exchange(ptr::null_mut(), ours, AcqRel, Acquire) {
        Ok(_) => ours,
        Err(theirs) => {
            if let Some(session) = session {
                // SAFETY: nobody else has seen our session.
                unsafe { Session::undo(session) };
            }
            theirs
        }
    }
}

impl Session {
    /// The log of this process.
    #[inline]
    pub(super) fn log(&self) -> &'static Log {
        // SAFETY: the log is mapped with the session, never undone once that is published, and
        // changed through atomics only.
        unsafe { self.log.as_ref() }
    }

    /// Maps a session with its log; `None` if the directory will not do, or the system cannot.
    fn new(directory: &CStr) -> Option<NonNull<Self>> {
        let directory = directory.to_bytes();
        if directory.len() > LONGEST_DIRECTORY || directory.first() != Some(&b'/') {
            return None;
        }
        let log = system::map_zeros(size_of::<Log>())?;
        if !system::wipe_on_fork(log, size_of::<Log>()) {
            // SAFETY: mapped above, and used by nobody.
            unsafe { system::unmap(log, size_of::<Log>()) };
            return None;
        }
        let Some(session) = system::map_zeros(size_of::<Self>()) else {
            // SAFETY: as above.
            unsafe { system::unmap(log, size_of::<Log>()) };
            return None;
        };
        let session = session.cast::<Self>();
        // SAFETY: the mapping is ours, large enough, aligned to an OS page, and zeros are a valid
        // value of the other fields.
        unsafe {
            let session = session.as_ptr();
            (&raw mut (*session).log).write(log.cast());
            (&raw mut (*session).most_words).write(most_words());
            (&raw mut (*session).directory_len).write(directory.len());
            (&raw mut (*session).directory)
                .cast::<u8>()
                .copy_from_nonoverlapping(directory.as_ptr(), directory.len());
        }
        Some(session)
    }

    /// Takes a session back.
    ///
    /// # Safety
    /// It was made by [`new`](Self::new) and never published.
    unsafe fn undo(session: NonNull<Self>) {
        // SAFETY: both mappings have these lengths, and nobody else knows them.
        unsafe {
            system::unmap(session.as_ref().log.cast(), size_of::<Log>());
            system::unmap(session.cast(), size_of::<Self>());
        }
    }

    /// Words that a log may have.
    #[inline]
    pub(super) fn most_words(&self) -> u64 {
        self.most_words
    }

    /// The path of a log.
    pub(super) fn path(&self, process: u32, serial: u32) -> Path {
        let mut path = self.beginning(process, serial);
        path.push(EXTENSION.as_bytes());
        path
    }

    /// The path of a log that could not be begun, for the system's error number `error`.
    pub(super) fn failed_path(&self, process: u32, serial: u32, error: u32) -> Path {
        let mut path = self.beginning(process, serial);
        path.push_number(error);
        path.push(b".");
        path.push(FAILED.as_bytes());
        path
    }

    /// The path of a log, up to the extension.
    fn beginning(&self, process: u32, serial: u32) -> Path {
        let mut path = Path::new();
        path.push(&self.directory[..self.directory_len]);
        path.push(b"/");
        path.push_number(process);
        path.push(b".");
        path.push_number(serial);
        path.push(b".");
        path
    }
}

/// Words that the environment lets a log have: all, if it does not say.
fn most_words() -> u64 {
    let value = system::environment(MAX_LOG).ok().flatten();
    let bytes = value.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    bytes.map_or(u64::MAX >> 8, |bytes| bytes.saturating_sub(HEAD as u64) / WORD as u64)
}

/// The path of a log, built on the stack.
pub(super) struct Path {
    bytes: [u8; LONGEST_DIRECTORY + 64],
    len: usize,
}

impl Path {
    const fn new() -> Self {
        Self { bytes: [0; LONGEST_DIRECTORY + 64], len: 0 }
    }

    fn push(&mut self, text: &[u8]) {
        // The room suffices for the longest directory and name; the last byte stays 0.
        let end = self.len + text.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(text);
            self.len = end;
        }
    }

    fn push_number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }

    pub(super) fn c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_built() {
        let mut path = Path::new();
        path.push(b"/tmp/");
        path.push_number(0);
        path.push(b".");
        path.push_number(u32::MAX);
        assert_eq!(path.c_str(), c"/tmp/0.4294967295");
    }
}
