//! Output files, whole or not at all.

use std::fs::{File, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

/// Creates the file `path`, or replaces it, with what `write` writes. The content grows in a
/// temporary file beside it, which takes its name only when `write` has succeeded; otherwise
/// nothing is left behind, and what was there stays.
///
/// # Errors
/// If the file cannot be created; what `write` fails with.
pub(crate) fn create<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let unwritable = || format!("{} cannot be written", path.display());
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().with_context(unwritable)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let temporary = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        // The user's mask is applied to this, as to any file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|error| {
            // What went wrong, without the name of a file that nobody asked for.
            let cause = error.get_ref().and_then(|cause| cause.source()).map(ToString::to_string);
            cause.map_or_else(|| error.into(), |cause| anyhow::anyhow!(cause))
        })
        .with_context(unwritable)?;
    let mut buffered = BufWriter::new(temporary.as_file());
    let result = write(&mut buffered)?;
    buffered.into_inner().map_err(|error| error.into_error()).with_context(unwritable)?;
    temporary.persist(path).map_err(|error| error.error).with_context(unwritable)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "before").unwrap();
        let failed: anyhow::Result<()> = create(&path, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_success_replaces_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "before").unwrap();
        create(&path, |out| Ok(out.write_all(b"after")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = create(Path::new("/no/such/directory/out"), |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").starts_with("/no/such/directory/out cannot be written: "));
    }
}
