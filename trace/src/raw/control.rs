//! The switch of a recording: [`Control`].
//!
//! A file in the directory of the logs; every recorder maps it and reads it before each record. It
//! contains one number, which only grows: odd while recording is on. Each odd number begins a new
//! log in every process. Without the file, recording is always on.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::names::CONTROL;

/// Switches the recorders of one directory on and off.
#[derive(Debug)]
pub struct Control {
    file: File,
    epoch: u32,
}

impl Control {
    /// Creates the switch of a directory, before any recorder looks for it.
    ///
    /// # Errors
    /// If the file cannot be written, or exists already.
    pub fn create(directory: impl AsRef<Path>, on: bool) -> io::Result<Self> {
        let path = directory.as_ref().join(CONTROL);
        // It gets its name when it is complete: a recorder takes a file without a number for none.
        let (part, file) = create_part(&path)?;
        let mut control = Self { file, epoch: 0 };
        let named = control.turn(on).map(|()| fs::hard_link(&part, &path));
        // What is left behind does no harm.
        let _ = fs::remove_file(&part);
        match named? {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // Some file systems have no links.
                control = Self { file: File::create_new(&path)?, epoch: 0 };
                control.turn(on)?;
            }
            linked => linked?,
        }
        Ok(control)
    }

    /// Returns whether recording is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.epoch % 2 == 1
    }

    /// Turns recording on or off; a thread that is recording at this moment may finish its record.
    /// After it is turned on again, every process begins a new log.
    ///
    /// # Errors
    /// If the file cannot be written; then nothing is changed.
    pub fn turn(&mut self, on: bool) -> io::Result<()> {
        let epoch = self.epoch + u32::from(on != self.is_on());
        self.file.write_all_at(&epoch.to_ne_bytes(), 0)?;
        self.epoch = epoch;
        Ok(())
    }
}

/// Creates a file with a name of its own beside that at `path`.
fn create_part(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Relaxed);
        let part = path.with_extension(format!("{}.{number}.part", std::process::id()));
        match File::create_new(&part) {
            // A process with this number left it behind.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (part, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (Regression: a recorder could find the file before its number was written; it was left
    /// behind where that failed.)
    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot fork")]
    fn a_switch_is_complete_or_absent() {
        let name = format!("pagewise-no-control-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        // SAFETY: the child ends without returning; the limit is valid for reads, the status for
        // writes.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const nothing);
                libc::_exit(if Control::create(&folder, true).is_err() { 7 } else { 8 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn each_start_has_a_new_odd_number() {
        // (Not with the crate `tempfile`: these tests also run without dev-dependencies.)
        let folder = std::env::temp_dir().join(format!("pagewise-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let number = || {
            let bytes = std::fs::read(folder.join(CONTROL)).unwrap();
            u32::from_ne_bytes(bytes.try_into().unwrap())
        };
        let mut control = Control::create(&folder, false).unwrap();
        let mut seen = vec![number()];
        for on in [true, true, false, false, true] {
            control.turn(on).unwrap();
            assert_eq!(control.is_on(), on);
            seen.push(number());
        }
        assert_eq!(seen, [0, 1, 1, 2, 2, 3]);
        assert!(Control::create(&folder, true).is_err(), "there is one");
        assert_eq!((number(), fs::read_dir(&folder).unwrap().count()), (3, 1));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
