//! [`Profiler`]: which call stacks the memory in use was allocated by, by samples, while the program runs.

use core::fmt;
use std::io;
use std::path::Path;

use super::{Pagewise, Tuning};

/// The heap profiler of the process, which is off until it is [started](Self::start).
///
/// While it is on, one block in so many bytes is *sampled*: the stack that allocates it is noted, and when it is freed. What
/// was sampled is scaled up to what it stands for, so sums are right on average, of every stack and size. `docs/profiler.md`
/// in the repository says how to read a profile, and what it costs.
///
/// ```no_run
/// use pagewise::Pagewise;
///
/// #[global_allocator]
/// static ALLOCATOR: Pagewise = Pagewise::new();
///
/// # fn serve() {}
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let profiler = ALLOCATOR.profiler();
///     profiler.start(512 << 10)?;
///     serve();
///     profiler.dump("heap.pb.gz")?; // for `go tool pprof heap.pb.gz`
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Profiler<'a> {
    #[allow(dead_code, reason = "where there is no profiler it cannot be started")]
    tuning: &'a Tuning,
}

impl Pagewise {
    /// The heap profiler (feature `profiler`).
    #[must_use]
    pub const fn profiler(&self) -> Profiler<'_> {
        Profiler { tuning: &self.tuning }
    }
}

/// Why the profiler does not do what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is on already.
    On,
    /// It was never on.
    NeverOn,
    /// The bytes per sample are not from 1 to 1 GiB.
    Rate,
    /// There is no memory for it.
    Memory,
    /// The process forks just now, or a signal's handler interrupted the profiler.
    Busy,
    /// There is no profiler on this system.
    Unsupported,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "the profiler is on already",
            Self::NeverOn => "the profiler was never on",
            Self::Rate => "the bytes per sample must be from 1 to 1073741824",
            Self::Memory => "there is no memory for the profile",
            Self::Busy => "the profiler is busy: the process forks, or a signal interrupted it",
            Self::Unsupported => "there is no profiler on this system",
        })
    }
}

impl core::error::Error for ProfileError {}

impl From<ProfileError> for io::Error {
    fn from(error: ProfileError) -> Self {
        let kind = match error {
            ProfileError::Memory => io::ErrorKind::OutOfMemory,
            ProfileError::Busy => io::ErrorKind::ResourceBusy,
            ProfileError::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl Profiler<'_> {
    /// Begins a new profile, with one sample in so many bytes on average, from 1 to 1 GiB; 512 KiB is a good rate for
    /// production. What an earlier one had is forgotten. Other threads take part once they come by, after 2,048 small blocks
    /// at the latest. Memory that is in use already is not in the profile.
    ///
    /// # Errors
    /// It is on already; the rate is out of range; there is no memory, or no profiler on this system.
    pub fn start(&self, bytes_per_sample: usize) -> Result<(), ProfileError> {
        native::start(self.tuning, bytes_per_sample)
    }

    /// Ends the profile, which stays as it is then, and can be written. Nothing happens if it is off.
    ///
    /// # Errors
    /// [`ProfileError::Busy`], for a moment.
    pub fn stop(&self) -> Result<(), ProfileError> {
        native::stop()
    }

    /// The profile as it is now, or as it was when it ended. Takes memory for it, but none of the allocator's.
    ///
    /// # Errors
    /// It was never on, is busy, or there is no memory.
    pub fn snapshot(&self) -> Result<Snapshot, ProfileError> {
        native::snapshot().map(Snapshot)
    }

    /// Writes the profile [as it is now](Self::snapshot) in pprof's format, a gzip file.
    ///
    /// # Errors
    /// There is none, or writing fails.
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        self.snapshot()?.write(to)
    }

    /// As [`write`](Self::write), to a file. As long as that is not whole, it has another name.
    ///
    /// # Errors
    /// As there.
    pub fn dump(&self, path: impl AsRef<Path>) -> io::Result<()> {
        native::write_file(&native::snapshot()?, path.as_ref())
    }
}

/// A profile as it was at a moment. All counts and bytes are estimates.
#[derive(Debug)]
pub struct Snapshot(native::Snapshot);

impl Snapshot {
    /// The stacks that allocated something, in no order.
    pub fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.0.sites().map(Site)
    }

    /// The mean bytes from one sample to the next.
    #[must_use]
    pub fn bytes_per_sample(&self) -> usize {
        self.0.bytes_per_sample()
    }

    /// Samples that are missing, since there was no memory for them, or the profile could not be waited for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Writes it in pprof's format, a gzip file.
    ///
    /// # Errors
    /// There is no memory, or writing fails.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut error = None;
        let sink = &mut |bytes: &[u8]| to.write_all(bytes).map_err(|why| error = Some(why)).is_ok();
        if native::write(&self.0, sink) {
            return to.flush();
        }
        Err(error.unwrap_or_else(|| ProfileError::Memory.into()))
    }
}

/// What was allocated by one stack of calls, estimated.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a>(native::Site<'a>);

impl<'a> Site<'a> {
    /// The addresses that its calls return to, the innermost first, 64 at most; the first are the allocator's own.
    #[must_use]
    pub fn calls(&self) -> &'a [usize] {
        self.0.calls
    }

    /// Samples that the figures are of: their error is about one over the square root of this.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.0.samples
    }

    /// Blocks in use.
    #[must_use]
    pub fn live_blocks(&self) -> u64 {
        self.0.live_blocks
    }

    /// Bytes in use, as they were asked for.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.0.live_bytes
    }

    /// Blocks allocated since the profile began.
    #[must_use]
    pub fn allocated_blocks(&self) -> u64 {
        self.0.allocated_blocks
    }

    /// Bytes allocated since the profile began, as they were asked for.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.0.allocated_bytes
    }
}

#[cfg(all(target_os = "linux", not(pagewise_forwarding)))]
mod native {
    use std::alloc::{GlobalAlloc, Layout};
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::super::native::profile::{self, Refused};
    pub(super) use super::super::native::profile::{Site, Snapshot, write};
    use super::super::{Pagewise, Tuning};
    use super::ProfileError;

    fn told(refused: Refused) -> ProfileError {
        match refused {
            Refused::On => ProfileError::On,
            Refused::None => ProfileError::NeverOn,
            Refused::Rate => ProfileError::Rate,
            Refused::Memory => ProfileError::Memory,
            Refused::Busy => ProfileError::Busy,
        }
    }

    pub(super) fn start(tuning: &Tuning, bytes_per_sample: usize) -> Result<(), ProfileError> {
        // The first block opens the allocator.
        let (opens, byte) = (Pagewise { tuning: *tuning }, Layout::new::<u8>());
        // SAFETY: the block has a size, and is freed once.
        unsafe { opens.dealloc(opens.alloc(byte), byte) };
        profile::start(tuning, bytes_per_sample).map_err(told)
    }

    pub(super) fn stop() -> Result<(), ProfileError> {
        profile::stop().map_err(told)
    }

    pub(super) fn snapshot() -> Result<Snapshot, ProfileError> {
        profile::snapshot().map_err(told)
    }

    pub(super) fn write_file(snapshot: &Snapshot, path: &Path) -> io::Result<()> {
        let path = path.as_os_str().as_bytes();
        profile::write_to_path(snapshot, path).map_err(io::Error::from_raw_os_error)
    }
}

#[cfg(not(all(target_os = "linux", not(pagewise_forwarding))))]
mod unsupported;
#[cfg(not(all(target_os = "linux", not(pagewise_forwarding))))]
use unsupported as native;

#[cfg(all(test, target_os = "linux", not(pagewise_forwarding)))]
mod tests {
    use super::*;

    #[test]
    fn a_site_tells_its_figures() {
        let calls = &[7, 8, 9];
        let site = Site(native::Site {
            calls,
            samples: 2,
            live_blocks: 3,
            live_bytes: 4,
            allocated_blocks: 5,
            allocated_bytes: 6,
        });
        assert_eq!(site.calls(), calls);
        let figures = [
            site.samples(),
            site.live_blocks(),
            site.live_bytes(),
            site.allocated_blocks(),
            site.allocated_bytes(),
        ];
        assert_eq!(figures, [2, 3, 4, 5, 6]);
    }
}
