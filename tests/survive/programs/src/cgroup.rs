//! A memory cgroup with a limit, of either version, if the machine allows it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a group with at most this many mebibytes of memory, and no swap.
    pub(crate) fn new(mebibytes: u64) -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("survive-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let bytes = (mebibytes << 20).to_string();
        let (folder, limit, swap) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.swappiness")
        };
        let group = Self(Path::new(folder).join(name));
        let made = fs::create_dir(&group.0)
            .and_then(|()| fs::write(group.0.join(limit), bytes))
            .and_then(|()| match fs::write(group.0.join(swap), "0") {
                // A kernel without swap has no such file.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            });
        made.map(|()| group).map_err(|error| format!("no cgroup ({error})"))
    }

    /// Returns the file to which a process writes its id.
    pub(crate) fn tasks(&self) -> CString {
        let path = self.0.join("cgroup.procs").into_os_string().into_encoded_bytes();
        CString::new(path).expect("a path has no zeros")
    }

    /// Moves the calling process into the group, by system calls only.
    pub(crate) fn enter(tasks: &CString) -> io::Result<()> {
        // SAFETY: the path is NUL-terminated, the buffer has a byte.
        let written = unsafe {
            let file = libc::open(tasks.as_ptr(), libc::O_WRONLY);
            let written = libc::write(file, c"0".as_ptr().cast(), 1);
            libc::close(file);
            written
        };
        if written == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes leave a group some time after they were killed.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
