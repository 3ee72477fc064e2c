//! Names of outputs.

use std::path::Path;

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
