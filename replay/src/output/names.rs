//! Names of outputs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::input::STANDARD;
use crate::printable::printable;

/// Returns an output's name for messages, on one line.
pub fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD) {
        return "standard output".into();
    }
    printable(&path.display().to_string()).into_owned()
}

/// Returns the folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the path of the file that is written under this name: where links lead, also if nothing
/// is there yet.
pub(super) fn target(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST: usize = 40;
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    // The system does not follow every link: in `/tmp`, none of another user.
    match fs::metadata(path) {
        Ok(_) => return path.canonicalize(),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = folder(&path).join(next);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}
