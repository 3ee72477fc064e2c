//! Finds the traces that come with the project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Extension of trace files.
const EXTENSION: &str = "pwt";

/// The family of recordings of the papers' own programs, a directory within `traces`.
const CLASSICS: &str = "mallocbench";

/// Returns the bundled traces of today's programs, sorted by name: those in the directory `traces`
/// of the current directory or of its nearest parent that has one, else of the source tree that
/// this binary was built from.
///
/// # Errors
/// If there are none; says where they were searched.
pub fn traces() -> anyhow::Result<Vec<PathBuf>> {
    of_family(Path::new(""))
}

/// Returns the bundled recordings of the papers' own programs on their own inputs, found like
/// [`traces`].
///
/// # Errors
/// If there are none; says where they were searched.
pub fn classics() -> anyhow::Result<Vec<PathBuf>> {
    of_family(Path::new(CLASSICS))
}

fn of_family(family: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let here = std::env::current_dir().context("the current directory cannot be read")?;
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../traces"));
    let candidates = here.ancestors().map(|dir| dir.join("traces")).chain([built_from.into()]);
    for directory in candidates {
        let traces = in_directory(&directory.join(family))?;
        if !traces.is_empty() {
            return Ok(traces);
        }
    }
    bail!(
        "no bundled traces: neither {} nor its parents have a directory '{}' with *.{EXTENSION} \
         files; name a trace, or make one with `pagewise record`",
        here.display(),
        Path::new("traces").join(family).display()
    )
}

/// Returns the traces of a directory, sorted; none if there is no such directory.
fn in_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let unreadable = || format!("{} cannot be read", directory.display());
    let mut traces = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_traces_are_listed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.pwt", "a.pwt", "README.md"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let traces = in_directory(directory.path()).unwrap();
        let names: Vec<_> = traces.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.pwt", "b.pwt"]);
        assert!(in_directory(&directory.path().join("none")).unwrap().is_empty());
    }
}
