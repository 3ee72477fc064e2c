//! The switch of a recording: [`Control`].
//!
//! A file in the directory of the logs; every recorder maps it and reads it before each record. It
//! contains one number, which only grows: odd while recording is on. Each odd number begins a new
//! log in every process. Without the file, recording is always on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

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
        let file = File::create_new(directory.as_ref().join(CONTROL))?;
        let mut control = Self { file, epoch: 0 };
        control.turn(on)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
