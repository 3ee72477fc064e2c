//! Whether a recording is still kept by the program that began it: [`Keeper`].
//!
//! A locked file in the directory of the logs. The kernel releases the lock when the program ends,
//! however it ends; a recorder that finds the file unlocked when its log is to grow stops the log.
//! So a program that is left alone does not fill the disk. Without the file, recording goes on.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::names::KEEPER;

/// Keeps the recorders of one directory recording, until it is dropped or its process ends.
#[derive(Debug)]
pub struct Keeper {
    _locked: File,
}

impl Keeper {
    /// Begins to keep the recorders of a directory, before any of them records.
    ///
    /// # Errors
    /// If the file cannot be written, exists already, or its file system has no locks.
    pub fn create(directory: impl AsRef<Path>) -> io::Result<Self> {
        let path = directory.as_ref().join(KEEPER);
        let file = File::create_new(&path)?;
        if !lock(&file, libc::LOCK_EX) {
            let error = io::Error::last_os_error();
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Self { _locked: file })
    }

    /// Returns whether a directory has a keeper that has not ended.
    #[must_use]
    pub fn is_there(directory: impl AsRef<Path>) -> bool {
        let file = File::open(directory.as_ref().join(KEEPER));
        file.is_ok_and(|file| !lock(&file, libc::LOCK_SH))
    }
}

/// Locks a file, unless another process has. The lock ends with the open file.
fn lock(file: &File, how: libc::c_int) -> bool {
    // SAFETY: the call touches no memory.
    unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) == 0 }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_is_there_until_it_is_dropped() {
        // (Not with the crate `tempfile`: these tests also run without dev-dependencies.)
        let folder = std::env::temp_dir().join(format!("pagewise-keeper-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(!Keeper::is_there(&folder));
        let keeper = Keeper::create(&folder).unwrap();
        assert!(Keeper::is_there(&folder) && Keeper::create(&folder).is_err());
        drop(keeper);
        assert!(!Keeper::is_there(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
