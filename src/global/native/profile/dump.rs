//! Writes a profile to a file: at exit, on a signal, or on request. The file is complete or does
//! not appear. Nothing here allocates, so a signal handler may call it.

use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use super::book::Snapshot;
use super::pprof;
use super::sampling::{snapshot, start};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::once::Once;
use crate::global::native::base::settings::{self, Settings};
use crate::global::native::base::text::Text;
use crate::global::profile_error::ProfileError;
use crate::global::tuning::Tuning;
use crate::os::{self, File, FileIdentity, KeepErrno};

/// The most bytes of a path.
const PATH: usize = 1024;

/// The file that the environment names for the profile.
#[derive(Clone, Copy)]
struct Target {
    /// Its path, in the first `len` bytes.
    path: [u8; PATH],
    len: usize,
    /// The process that started the profile.
    process: u32,
    /// Standard error at that time.
    standard_error: Option<FileIdentity>,
}

/// The file of this process.
static TARGET: Apart<Once<Target>> = Apart::new(Once::new());

/// Set when a signal arrived while the book's lock was not available.
static WANTED: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Writes a profile in pieces to `sink`, which returns whether it took a piece. Returns whether all
/// of it was written.
#[cfg(feature = "std")]
pub(in super::super::super) fn write(
    snapshot: &Snapshot,
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    pprof::write(snapshot, sink)
}

/// Starts the profile if the environment asks for one. The calling thread has its lists.
pub(in super::super) fn start_if_set(asked: &Tuning, settings: &Settings) {
    let Some(mean) = settings.profile else { return };
    let mut path = [0; PATH];
    let Some(len) = settings::profile_path(&mut path) else {
        return say(format_args!("the path of the profile is longer than {PATH} bytes"));
    };
    let target = Target { path, len, process: os::process(), standard_error: os::standard_error() };
    if !TARGET.set(target) {
        return;
    }
    if let Err(error) = start(asked, mean) {
        return say(format_args!("cannot start the profile: {error}"));
    }
    os::at_exit(dump_at_exit);
    if let Some(signal) = settings.profile_signal
        && !os::on_signal(signal, dump_at_signal)
    {
        say(format_args!("cannot write a profile on signal {signal}"));
    }
}

/// Writes a line on standard error.
fn say(what: core::fmt::Arguments<'_>) {
    let mut text = Text::new();
    let _ = writeln!(text, "pagewise: {what}");
    text.flush();
}

extern "C" fn dump_at_exit() {
    /// Pauses, some 70 microseconds each, while another thread has the book, as when it forks.
    const PAUSES: usize = 15_000;
    let written = (0..PAUSES).any(|_| {
        dump() || {
            os::pause();
            false
        }
    });
    if !written {
        say(format_args!("cannot write the profile: {}", ProfileError::Busy.text()));
    }
}

extern "C" fn dump_at_signal(_signal: c_int) {
    dump_or_want();
}

/// Writes the profile if a signal arrived when it could not be written. Call without holding a
/// lock.
#[inline]
pub(in super::super) fn dump_if_wanted() {
    if WANTED.load(Relaxed) && WANTED.swap(false, Relaxed) {
        dump_or_want();
    }
}

/// Writes the profile now, or when it next can be.
fn dump_or_want() {
    if !dump() {
        WANTED.store(true, Relaxed);
    }
}

/// Writes the profile to the file that the environment names. The child of a fork writes only if
/// its path differs from its parent's. Returns `false` if the book's lock is not available.
#[cold]
fn dump() -> bool {
    let _errno = KeepErrno::new();
    let Some(target) = TARGET.get() else { return true };
    let mut path = Path::new();
    let own = path.push_target(&target.path[..target.len]);
    if !own && os::process() != target.process {
        return true;
    }
    let written = match snapshot() {
        Err(ProfileError::Busy) => return false,
        Err(error) => Err(error.text()),
        Ok(snapshot) => write_file(&snapshot, &path).map_err(|_| "input or output failed"),
    };
    if let Err(why) = written
        && os::standard_error() == target.standard_error
    {
        let path = path.as_c().to_bytes();
        say(format_args!("cannot write the profile {}: {why}", path.escape_ascii()));
    }
    true
}

/// Does the same as [`write_file`] for a path given as bytes, at most `PATH` of them.
pub(in super::super::super) fn write_to_path(
    snapshot: &Snapshot,
    path: &[u8],
) -> Result<(), c_int> {
    if path.contains(&0) {
        return Err(libc::EINVAL);
    }
    if path.len() > PATH {
        return Err(libc::ENAMETOOLONG);
    }
    let mut name = Path::new();
    name.push(path);
    write_file(snapshot, &name)
}

/// Writes a profile to a file. At any time, the path names the complete old file or the complete
/// new one.
///
/// # Errors
/// The system's error number.
fn write_file(snapshot: &Snapshot, path: &Path) -> Result<(), c_int> {
    static SERIAL: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));
    let mut error = libc::ENOMEM;
    let mut write_to = |file: &File| {
        let sink = &mut |bytes: &[u8]| file.write(bytes).map_err(|number| error = number).is_ok();
        pprof::write(snapshot, sink)
    };
    if File::is_special(path.as_c()) {
        // A terminal or a pipe.
        let file = File::create(path.as_c())?;
        return if write_to(&file) { Ok(()) } else { Err(error) };
    }
    let mut beside = path.clone();
    let _ = write!(beside, ".{}-{}.tmp", os::process(), SERIAL.fetch_add(1, Relaxed));
    let written = {
        let file = File::create(beside.as_c())?;
        write_to(&file)
    };
    let result = if written { File::rename(beside.as_c(), path.as_c()) } else { Err(error) };
    if result.is_err() {
        File::remove(beside.as_c());
    }
    result
}

/// A path, terminated by a 0 byte.
#[derive(Clone)]
struct Path {
    bytes: [u8; PATH + 64],
    len: usize,
}

impl Path {
    /// Makes an empty path.
    const fn new() -> Self {
        Self { bytes: [0; PATH + 64], len: 0 }
    }

    /// Appends as many of `bytes` as there is room for.
    fn push(&mut self, bytes: &[u8]) {
        // The last byte always stays 0.
        let room = self.bytes.len() - 1 - self.len;
        let len = bytes.len().min(room);
        self.bytes[self.len..self.len + len].copy_from_slice(&bytes[..len]);
        self.len += len;
    }

    /// Appends a target's path, with `%p` replaced by the process number. Returns whether there was
    /// a `%p`.
    fn push_target(&mut self, mut target: &[u8]) -> bool {
        let mut own = false;
        while let Some(at) = target.windows(2).position(|two| two == b"%p") {
            self.push(&target[..at]);
            let _ = write!(self, "{}", os::process());
            target = &target[at + 2..];
            own = true;
        }
        self.push(target);
        own
    }

    /// Returns the path as C has it.
    fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of `PATH` bytes is accepted; a longer one, or one with a 0 byte, is refused.
    #[cfg(not(miri))]
    #[test]
    fn a_path_has_a_length() {
        use super::super::book::Book;
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        let snapshot = book.snapshot().expect("there is memory");
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("profile");
        let folder = folder.path().to_str().expect("it is UTF-8");
        let path = |len: usize| {
            let between = len - folder.len() - "profile".len();
            [folder, &"/".repeat(between), "profile"].concat().into_bytes()
        };
        assert_eq!(write_to_path(&snapshot, &path(PATH + 1)), Err(libc::ENAMETOOLONG));
        assert_eq!(write_to_path(&snapshot, b"/a\0b"), Err(libc::EINVAL));
        assert!(!file.exists());
        assert_eq!(write_to_path(&snapshot, &path(PATH)), Ok(()));
        assert!(file.metadata().is_ok_and(|file| file.len() > 0));
    }

    /// A path that is too long is cut, and ends with a 0 byte.
    #[test]
    fn a_path_is_cut_where_it_has_no_room() {
        let mut path = Path::new();
        for pushed in 1..=3 {
            path.push(&[b'a'; PATH]);
            assert_eq!(path.as_c().count_bytes(), (pushed * PATH).min(PATH + 63));
        }
    }

    /// A dump that a signal had to postpone is made once.
    #[test]
    fn a_dump_that_is_wanted_is_made_once() {
        dump_if_wanted();
        assert!(!WANTED.load(Relaxed));
        WANTED.store(true, Relaxed);
        dump_if_wanted();
        assert!(!WANTED.load(Relaxed), "it is wanted no more");
    }
}
