//! The length at which logs stop: [`MaxLog`].

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pagewise_replay::units;

use super::logs;

/// The default where there is room for it: two billion events, more than other commands take.
const MOST: u64 = 16 << 30;
/// The least default. On a disk with less room than twice this, nothing is gained by sparing it.
const LEAST: u64 = 1 << 20;

/// The length of all logs together at which recording stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxLog {
    pub(super) bytes: u64,
    /// Whether the user set none: then a program that runs for ever would fill the disk.
    is_default: bool,
}

impl MaxLog {
    /// Returns the limit that was asked for, or that for logs in this directory.
    pub(super) fn new(asked: Option<usize>, directory: &Path) -> Self {
        let usual = || free(directory).map_or(MOST, |free| (free / 2).clamp(LEAST, MOST));
        Self { bytes: asked.map_or_else(usual, |bytes| bytes as u64), is_default: asked.is_none() }
    }

    /// Says that the default limit was reached; `None` if this limit was asked for.
    pub(super) fn told(self) -> Option<String> {
        let text = || {
            format!(
                "pagewise: recording stopped at {} of logs, the default limit; --max-log BYTES \
                 sets another one",
                units::bytes(self.bytes)
            )
        };
        self.is_default.then(text)
    }

    /// Parses the option's value.
    pub(super) fn parse(text: &str) -> Result<usize, String> {
        let bytes = units::parse_bytes(text)?;
        if bytes >= logs::SHORTEST {
            return Ok(bytes);
        }
        let least = units::thousands(logs::SHORTEST as u64);
        Err(format!("a log with an event takes at least {least} bytes"))
    }
}

/// Returns the bytes that are free for this user in the file system of a directory.
fn free(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path is a C string; an all-zero `statvfs` is a valid value, and valid for writes.
    let about = unsafe {
        let mut about: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut about) == 0).then_some(about)
    }?;
    #[allow(clippy::unnecessary_cast, reason = "both are narrower on other systems")]
    Some((about.f_bavail as u64).saturating_mul(about.f_frsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_asked_for_or_leaves_half_of_the_space() {
        let asked = MaxLog::new(Some(1 << 40), Path::new("/"));
        assert_eq!((asked.bytes, asked.told()), (1 << 40, None));
        let folder = tempfile::tempdir().unwrap();
        let usual = MaxLog::new(None, folder.path());
        assert!((LEAST..=MOST).contains(&usual.bytes) && usual.told().is_some(), "{usual:?}");
        assert!(free(folder.path()).is_some_and(|free| free > 0));
        assert_eq!(MaxLog::new(None, Path::new("/no/such/folder")).bytes, MOST);
    }
}
