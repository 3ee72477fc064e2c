//! Files without a name, which no process leaves behind however it ends.

#[cfg(target_os = "linux")]
pub(super) use self::linux::{create, link};
#[cfg(not(target_os = "linux"))]
pub(super) use self::unsupported::{create, link};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// Creates a file that can get a name in this folder.
    pub(in crate::output) fn create(folder: &Path) -> io::Result<File> {
        let file =
            File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder)?;
        // Without `/proc` it could not be linked.
        Path::new(&path(&file)).symlink_metadata()?;
        Ok(file)
    }

    /// Gives a file this name, and returns it.
    pub(in crate::output) fn link(file: &File, name: &Path) -> io::Result<File> {
        let (from, to) = (CString::new(path(file))?, CString::new(name.as_os_str().as_bytes())?);
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both are C strings.
        match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) } {
            0 => file.try_clone(),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn path(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

/// Other systems have none.
#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(in crate::output) fn create(_: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::output) fn link(_: &File, _: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
