//! Files that are read and written without allocating.

use core::ffi::{CStr, c_int, c_void};

use crate::os::{Uncancelled, Unsignalled, errno};

/// An open file.
pub(crate) struct File(c_int);

fn done(answer: c_int) -> Result<(), c_int> {
    if answer == 0 { Ok(()) } else { Err(errno()) }
}

impl File {
    /// Opens a file for reading.
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        let _uncancelled = Uncancelled::new();
        // SAFETY: the path is a C string.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (file >= 0).then(|| Self(file))
    }

    /// Creates a file for writing, or empties it if it exists.
    pub(crate) fn create(path: &CStr) -> Result<Self, c_int> {
        let _uncancelled = Uncancelled::new();
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let file = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
        if file >= 0 { Ok(Self(file)) } else { Err(errno()) }
    }

    /// Reads the next bytes. Returns their number; 0 at the end or on an error.
    pub(crate) fn read(&self, to: &mut [u8]) -> usize {
        let _uncancelled = Uncancelled::new();
        loop {
            // SAFETY: the call writes no more than these bytes.
            let read = unsafe { libc::read(self.0, to.as_mut_ptr().cast::<c_void>(), to.len()) };
            match usize::try_from(read) {
                Ok(read) => return read,
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => return 0,
            }
        }
    }

    /// Reads at `offset`. Returns the number of bytes, 0 on an error.
    pub(crate) fn read_at(&self, to: &mut [u8], offset: u64) -> usize {
        let _uncancelled = Uncancelled::new();
        let Ok(offset) = libc::off_t::try_from(offset) else { return 0 };
        let bytes = to.as_mut_ptr().cast::<c_void>();
        // SAFETY: the call writes no more than these bytes.
        let read = unsafe { libc::pread(self.0, bytes, to.len(), offset) };
        usize::try_from(read).unwrap_or(0)
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(&self, mut bytes: &[u8]) -> Result<(), c_int> {
        let _uncancelled = Uncancelled::new();
        let unsignalled = Unsignalled::new();
        while !bytes.is_empty() {
            // SAFETY: the bytes are valid for reads.
            let written = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(0) => return Err(libc::ENOSPC),
                Ok(written) => bytes = &bytes[written..],
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => {
                    let error = errno();
                    unsignalled.receive(error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns whether `path` exists and is not a regular file.
    pub(crate) fn is_special(path: &CStr) -> bool {
        // SAFETY: all zeros is a valid value, and the call writes at most one; the path is a C
        // string.
        unsafe {
            let mut file: libc::stat = core::mem::zeroed();
            libc::stat(path.as_ptr(), &raw mut file) == 0
                && file.st_mode & libc::S_IFMT != libc::S_IFREG
        }
    }

    /// Renames a file, replacing any file named `to`.
    pub(crate) fn rename(from: &CStr, to: &CStr) -> Result<(), c_int> {
        // SAFETY: both are C strings.
        done(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(path: &CStr) {
        // SAFETY: the path is a C string.
        unsafe { libc::unlink(path.as_ptr()) };
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _uncancelled = Uncancelled::new();
        // SAFETY: the file is open, and only `self` uses its descriptor.
        unsafe { libc::close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that could not be opened is not closed: closing descriptor -1 would set `errno`.
    #[test]
    fn a_file_that_is_not_open_is_not_closed() {
        assert!(File::open(c"/nowhere/at/all").is_none());
        assert_eq!(errno(), libc::ENOENT);
    }
}
