//! A recorder's settings: the directory and maximum length of logs. They come from the environment,
//! or from the program that loaded the recorder.

use core::ffi::CStr;

use super::system::{self, File};
use crate::raw::head::{HEAD, WORD};
use crate::raw::names::{CONTROL, DEEPEST, DIRECTORY, EXTENSION, FAILED, KEEPER, MAX_LOG, STACKS};
use crate::raw::request::Request;

/// Maximum length of the directory.
const LONGEST_DIRECTORY: usize = 1024;

/// The settings of a recording; constant once known.
pub(super) struct Settings {
    /// Maximum words of a log.
    most_words: u64,
    /// Maximum frames of a stack; 0: none.
    stack_depth: usize,
    directory: [u8; LONGEST_DIRECTORY],
    directory_len: usize,
}

/// Returns the request in the environment. `Err`: too early to tell. `Ok(None)`: recording is not
/// armed.
pub(super) fn in_environment() -> Result<Option<Request<'static>>, ()> {
    let Some(directory) = system::environment(DIRECTORY)? else { return Ok(None) };
    let (max_log, stacks) = (number(MAX_LOG), number(STACKS).unwrap_or(0));
    Ok(Some(Request {
        functions: Default::default(),
        max_log,
        stacks,
        directory: directory.to_bytes(),
    }))
}

/// Returns whether a request's directory is usable.
pub(super) fn has_usable_directory(request: &Request<'_>) -> bool {
    let directory = request.directory;
    directory.len() <= LONGEST_DIRECTORY && directory.first() == Some(&b'/')
}

impl Settings {
    /// Fills settings in place.
    ///
    /// # Safety
    /// `place` is valid for writes, and all its bytes are 0. The directory [is
    /// usable](has_usable_directory).
    pub(super) unsafe fn write(place: *mut Self, request: &Request<'_>) {
        let directory = request.directory;
        let words = |bytes: u64| bytes.saturating_sub(HEAD as u64) / WORD as u64;
        // SAFETY: the caller guarantees a valid place filled with zeros, which are a valid value of
        // every field, and a directory that fits its field.
        unsafe {
            (&raw mut (*place).most_words).write(request.max_log.map_or(u64::MAX >> 8, words));
            (&raw mut (*place).stack_depth).write(request.stacks.min(DEEPEST as u64) as usize);
            (&raw mut (*place).directory_len).write(directory.len());
            (&raw mut (*place).directory)
                .cast::<u8>()
                .copy_from_nonoverlapping(directory.as_ptr(), directory.len());
        }
    }

    /// Returns the maximum words of a log.
    #[inline]
    pub(super) fn most_words(&self) -> u64 {
        self.most_words
    }

    /// Returns the maximum frames of a stack; 0: none.
    #[inline]
    pub(super) fn stack_depth(&self) -> usize {
        self.stack_depth
    }

    /// Returns the path of a log.
    pub(super) fn path(&self, process: u32, serial: u32) -> Path {
        let mut path = self.beginning(process, serial);
        path.push(EXTENSION.as_bytes());
        path
    }

    /// Returns the path that marks a log that could not be created, with the system's error number
    /// `error`.
    pub(super) fn failed_path(&self, process: u32, serial: u32, error: u32) -> Path {
        let mut path = self.beginning(process, serial);
        path.push_number(error);
        path.push(b".");
        path.push(FAILED.as_bytes());
        path
    }

    /// Returns the path of the switch.
    pub(super) fn control_path(&self) -> Path {
        let mut path = self.inside();
        path.push(CONTROL.as_bytes());
        path
    }

    /// Returns whether the directory had a [keeper](crate::raw::Keeper), which has ended.
    pub(super) fn is_abandoned(&self) -> bool {
        let mut path = self.inside();
        path.push(KEEPER.as_bytes());
        File::open(path.c_str(), libc::O_RDONLY).is_ok_and(|file| file.is_unlocked())
    }

    /// Returns the path of a log without its extension.
    fn beginning(&self, process: u32, serial: u32) -> Path {
        let mut path = self.inside();
        path.push_number(process);
        path.push(b".");
        path.push_number(serial);
        path.push(b".");
        path
    }

    /// Returns the path of a file in the directory without its name.
    fn inside(&self) -> Path {
        let mut path = Path::new();
        path.push(&self.directory[..self.directory_len]);
        path.push(b"/");
        path
    }
}

/// Returns a number from the environment.
fn number(name: &str) -> Option<u64> {
    let value = system::environment(name).ok().flatten();
    value.and_then(|value| value.to_str().ok()?.parse().ok())
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
        // The buffer suffices for the longest directory and name; the last byte stays 0.
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
