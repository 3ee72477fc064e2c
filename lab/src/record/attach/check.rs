//! Checks whether a process can be attached to, and explains why not: [`Process`].

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::threads::{Stopped, folder, stat};

/// A running process.
pub(crate) struct Process {
    pub(super) id: i32,
    /// Its id in its own namespace: in a container, another one.
    pub(super) own_id: u32,
    /// Its user and group for file access.
    pub(super) owner: (u32, u32),
    name: String,
    /// Its start time, since ids are reused.
    began: String,
    /// The kernel's start data of the program, which include random addresses, so they change with
    /// an `exec`.
    image: Vec<u8>,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.id)
    }
}

impl Process {
    /// Examines a process, as far as any user may.
    pub(crate) fn find(id: u32) -> anyhow::Result<Self> {
        let known = i32::try_from(id).ok().filter(|&id| id > 0);
        let id = known.with_context(|| format!("there is no process {id}"))?;
        let status = fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.ok().with_context(|| format!("there is no process {id}"))?;
        let name = field(&status, "Name").unwrap_or_default().to_owned();
        anyhow::ensure!(
            field(&status, "Tgid") == Some(&id.to_string()),
            "{id} is a thread: its process is {}",
            field(&status, "Tgid").unwrap_or("unknown")
        );
        // The line has four ids: the last one is for file access.
        let last = |key| field(&status, key)?.split_whitespace().next_back()?.parse().ok();
        let there = folder(id).with_context(|| format!("process {id} has ended"))?;
        let process = Self {
            id,
            own_id: last("NSpid").unwrap_or(id as u32),
            owner: (last("Uid").unwrap_or(0), last("Gid").unwrap_or(0)),
            name,
            began: began(id).with_context(|| format!("there is no process {id}"))?,
            image: image(id),
        };
        // The main thread may have ended.
        let status = fs::read_to_string(there.join("status")).unwrap_or(status);
        process.check(&there, &status)?;
        Ok(process)
    }

    /// Refuses processes that certainly cannot be recorded.
    fn check(&self, there: &Path, status: &str) -> anyhow::Result<()> {
        anyhow::ensure!(self.id as u32 != std::process::id(), "pagewise cannot attach to itself");
        let state = field(status, "State").and_then(|state| state.chars().next());
        anyhow::ensure!(!matches!(state, Some('Z' | 'X')), "{self} has ended");
        anyhow::ensure!(
            !matches!(state, Some('T' | 't')),
            "{self} is stopped: resume it first (`kill -CONT {}`), or end the debugger",
            self.id
        );
        match field(status, "TracerPid") {
            None | Some("0") => {}
            Some(other) => {
                drop(self.claim()?);
                anyhow::bail!(
                    "{self} is being traced by process {other}, perhaps a debugger: end that \
                     process first"
                )
            }
        }
        // A container's filters apply to this process as well.
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        anyhow::ensure!(
            filters(status) <= filters(&own),
            "{self} restricts its system calls (seccomp), and those of the recorder could kill it: \
             start it with `pagewise record`"
        );
        let mut head = [0; 20];
        let program = fs::File::open(there.join("exe"));
        match program.and_then(|mut program| program.read_exact(&mut head)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(self.denied());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot attach to {self}"));
            }
        }
        // 64 bits, x86-64.
        let is_ours = head[4] == 2 && head[18..] == [62, 0];
        anyhow::ensure!(is_ours, "cannot attach to {self}: it is not an x86-64 program");
        Ok(())
    }

    /// Keeps other recordings away from the process until the result is dropped.
    pub(super) fn claim(&self) -> anyhow::Result<Option<fs::File>> {
        // Only its user may open this file, which is there even after the main thread has ended.
        // Whoever may not is told why later.
        let Ok(file) = fs::File::open(format!("/proc/{}/personality", self.id)) else {
            return Ok(None);
        };
        // SAFETY: the call touches no memory.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        let is_taken = locked == -1 && io::Error::last_os_error().kind() == ErrorKind::WouldBlock;
        anyhow::ensure!(!is_taken, "{self} is already being recorded");
        Ok(Some(file))
    }

    /// Returns the folder below `/proc` with its memory and files.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        folder(self.id).with_context(|| format!("{self} has ended"))
    }

    /// Stops its threads.
    pub(super) fn stop(&self) -> anyhow::Result<Stopped> {
        Stopped::all(self.id).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => self.denied(),
            Some(libc::ESRCH | libc::ENOENT) => anyhow::anyhow!("{self} has ended"),
            _ => anyhow::Error::new(error).context(format!("{self} cannot be stopped")),
        })
    }

    /// Explains why the system does not allow it, with advice.
    fn denied(&self) -> anyhow::Error {
        // SAFETY: the call always succeeds and touches no memory.
        let user = unsafe { libc::geteuid() };
        if self.owner.0 != user {
            return anyhow::anyhow!(
                "{self} belongs to another user: run pagewise as that user, or as root"
            );
        }
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        match scope.trim() {
            "" | "0" => anyhow::anyhow!(
                "the system forbids attaching to {self}, which has more rights than its user or \
                 protects itself: start it with `pagewise record`"
            ),
            "3" => anyhow::anyhow!(
                "this system lets nobody attach to a process (kernel.yama.ptrace_scope is 3): \
                 start {} with `pagewise record`",
                self.name
            ),
            scope => anyhow::anyhow!(
                "this system lets only root attach to a process (kernel.yama.ptrace_scope is {scope}): \
                 run pagewise as root, or start {} with `pagewise record`",
                self.name
            ),
        }
    }

    /// Refuses a process that finds another file, or none, at a path: one in a container.
    pub(super) fn check_finds(&self, path: &Path) -> anyhow::Result<()> {
        let inside = self.folder()?.join("root").join(path.strip_prefix("/").unwrap_or(path));
        let same = |about: fs::Metadata| {
            let ours = fs::metadata(path).ok()?;
            ((ours.dev(), ours.ino()) == (about.dev(), about.ino())).then_some(())
        };
        match fs::metadata(&inside) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(self.denied()),
            found => found.ok().and_then(same).with_context(|| {
                format!(
                    "{self} sees other files, as in a container: run pagewise inside it, or set \
                     TMPDIR to a folder that has the same path for both"
                )
            }),
        }
    }

    /// Returns the name of its program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it has ended, or executed another program.
    pub(super) fn is_over(&self) -> bool {
        began(self.id).as_ref() != Some(&self.began) || image(self.id) != self.image
    }
}

/// Returns a field of `/proc/PID/status`.
fn field<'s>(status: &'s str, key: &str) -> Option<&'s str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim())
}

/// Returns the number of system call filters (seccomp). Before Linux 5.9 the kernel gives no
/// number: one, if any.
fn filters(status: &str) -> u32 {
    let number = |key| field(status, key)?.parse().ok();
    number("Seccomp_filters").or_else(|| number("Seccomp")).unwrap_or(0)
}

/// Returns the auxiliary vector; empty if it cannot be read.
fn image(process: i32) -> Vec<u8> {
    let read = |_| fs::read(folder(process)?.join("auxv")).ok().filter(|found| !found.is_empty());
    // A thread may end while its folder is read.
    (0..10).find_map(read).unwrap_or_default()
}

/// Returns a process's start time, in the system's ticks; `None` if it does not exist.
fn began(process: i32) -> Option<String> {
    stat(process)?.split_whitespace().nth(19).map(ToOwned::to_owned)
}
