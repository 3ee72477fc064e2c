//! The recorder library embedded in this binary, and where it is written for the loader.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::system::library::is_preloadable;

/// `libpagewise_record.so`, built by `build.rs`; empty where recording is not supported, or without
/// the recorder's sources.
const LIBRARY: &[u8] = include_bytes!(env!("PAGEWISE_RECORDER"));

/// Writes the library into the user's cache directory, or else into `fallback`, and returns its
/// path.
///
/// The cache is better: processes that outlive the recording can still load it.
pub(super) fn place(fallback: &Path) -> anyhow::Result<PathBuf> {
    check()?;
    let cached = cache_directory().filter(|path| holds_recorder(path)).and_then(|directory| {
        fs::create_dir_all(&directory).ok()?;
        put(&directory).ok()
    });
    if let Some(path) = cached {
        return Ok(path);
    }
    if !holds_recorder(fallback) {
        anyhow::bail!(
            "the recorder cannot be preloaded from {}: the path has a space or a colon; set TMPDIR",
            fallback.display()
        );
    }
    put(fallback).with_context(|| format!("{} cannot be written", fallback.display()))
}

/// Checks that there is a library.
pub(super) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(
        !LIBRARY.is_empty(),
        "recording needs Linux, and a pagewise built from a checkout"
    );
    Ok(())
}

/// Returns whether the recorder can be put into a folder: its path is in UTF-8, and `LD_PRELOAD` can
/// hold it.
fn holds_recorder(folder: &Path) -> bool {
    folder.to_str().is_some() && is_preloadable(folder)
}

fn cache_directory() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("pagewise"))
}

/// Writes the library into `directory`, unless it is there already. Its name contains its checksum,
/// so that versions of pagewise do not interfere.
pub(super) fn put(directory: &Path) -> std::io::Result<PathBuf> {
    let path = directory.join(format!("libpagewise_record-{:08x}.so", crc32fast::hash(LIBRARY)));
    if fs::read(&path).is_ok_and(|found| found == LIBRARY) {
        return Ok(path);
    }
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(LIBRARY)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}
