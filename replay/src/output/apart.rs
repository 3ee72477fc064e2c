//! No output replaces an input or another output: [`check`].

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::names::{folder, shown, target};
use crate::input::{self, STANDARD};
use crate::usage::Usage;

/// Refuses outputs that are the same file as an input or as another output, also by another name.
/// What is no file can be both.
pub(super) fn check<'p>(
    inputs: impl IntoIterator<Item = &'p Path>,
    outputs: &[&Path],
) -> Result<(), Usage> {
    let outputs: Vec<_> =
        outputs.iter().filter_map(|&path| Some((path, place(path, "/dev/stdout")?))).collect();
    for input in inputs {
        // An input that does not exist is replaced by nothing.
        let Some(read @ Place::There(..)) = place(input, "/dev/stdin") else { continue };
        if let Some((output, _)) = outputs.iter().find(|(_, written)| *written == read) {
            let (name, output) = (name_of_input(input), shown(output));
            return Err(Usage(if name == output {
                format!("{output} is both input and output: give the output another name")
            } else {
                format!(
                    "{output} is the same file as the input {name}: give the output another name"
                )
            }));
        }
    }
    for (index, (output, written)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..index].iter().find(|(_, other)| other == written) {
            let (output, other) = (shown(output), shown(other));
            return Err(Usage(if output == other {
                format!("{output} is the name of two outputs")
            } else {
                format!("{output} and {other}, two outputs, are the same file")
            }));
        }
    }
    Ok(())
}

/// Returns whether two paths name the same file, which exists.
pub(super) fn are_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| place(path, "/dev/stdin"));
    matches!(one, Some(Place::There(..))) && one == other
}

/// What distinguishes files.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Device and inode.
    There(u64, u64),
    /// A file that is yet to be created.
    New(PathBuf),
}

/// Returns the place of a file; `None` for what is no file. `-` is `standard`.
fn place(path: &Path, standard: &str) -> Option<Place> {
    let path = if path == Path::new(STANDARD) { Path::new(standard) } else { path };
    match fs::metadata(path) {
        Ok(about) => about.is_file().then(|| Place::There(about.dev(), about.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path = target(path).ok()?;
            Some(Place::New(folder(&path).canonicalize().ok()?.join(path.file_name()?)))
        }
        Err(_) => None,
    }
}

fn name_of_input(path: &Path) -> String {
    if path == Path::new(STANDARD) { "on standard input".to_owned() } else { input::shown(path) }
}
