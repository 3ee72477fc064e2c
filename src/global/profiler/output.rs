//! Writes profiles to files and streams of the standard library.

use std::io;
use std::path::Path;

use super::{Profiler, Snapshot, native};
use crate::global::profile_error::ProfileError;

impl From<ProfileError> for io::Error {
    fn from(error: ProfileError) -> Self {
        let kind = match error {
            ProfileError::Memory => io::ErrorKind::OutOfMemory,
            ProfileError::Busy => io::ErrorKind::ResourceBusy,
            ProfileError::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl Profiler<'_> {
    /// Writes the [current profile](Self::snapshot) as a gzip file in pprof's format. Needs the
    /// feature `std`.
    ///
    /// # Errors
    /// If no snapshot can be taken, or writing fails.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        self.snapshot()?.write(to)
    }

    /// Writes the profile as [`write`](Self::write) does, to the file `path`. The file has a
    /// temporary name until it is complete. Needs the feature `std`.
    ///
    /// # Errors
    /// If no snapshot can be taken, or the file cannot be written.
    pub fn dump(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        native::write_to_path(&self.snapshot()?.0, path).map_err(io::Error::from_raw_os_error)
    }
}

impl Snapshot {
    /// Writes the profile as a gzip file in pprof's format. Needs the feature `std`.
    ///
    /// # Errors
    /// If there is not enough memory, or writing fails.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut error = None;
        let sink = &mut |bytes: &[u8]| to.write_all(bytes).map_err(|why| error = Some(why)).is_ok();
        if native::write(&self.0, sink) {
            return to.flush();
        }
        Err(error.unwrap_or_else(|| ProfileError::Memory.into()))
    }
}
