//! The sampling heap profiler: [`Profiler`] estimates, while the program runs, which call stacks
//! allocated the memory in use.

use core::ffi::{CStr, c_int};

use super::profile_error::ProfileError;
use super::{Pagewise, Tuning};

#[cfg(feature = "std")]
mod output;

/// The heap profiler of the process. It is off until it is [started](Self::start).
///
/// While it is on, one block in every *n* bytes, on average, is *sampled*: the profiler records the
/// stack that allocates the block, and later that the block is freed. Each sample is scaled up to
/// the blocks and bytes that it represents, so the sums for every stack and every size are
/// unbiased. `docs/profiler.md` in the repository explains how to read a profile and what profiling
/// costs.
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
    /// Returns the heap profiler. Needs the feature `profiler`.
    #[must_use]
    pub const fn profiler(&self) -> Profiler<'_> {
        Profiler { tuning: &self.tuning }
    }
}

impl Profiler<'_> {
    /// Starts a new profile with one sample in every `bytes_per_sample` bytes on average, from 1 to
    /// 1 GiB; 512 KiB is a good rate for production. Discards the previous profile. Another thread
    /// takes part from its next slow path on, at the latest after 2,048 small blocks. Memory that
    /// is in use already does not appear in the profile.
    ///
    /// # Errors
    /// If the profiler is already on, the rate is out of range, there is not enough memory, or this
    /// system has no profiler.
    pub fn start(&self, bytes_per_sample: usize) -> Result<(), ProfileError> {
        native::start(self.tuning, bytes_per_sample)
    }

    /// Stops the profiler. The profile stays as it is and can still be written. Does nothing if the
    /// profiler is off.
    ///
    /// # Errors
    /// [`ProfileError::Busy`]; a later call can succeed.
    pub fn stop(&self) -> Result<(), ProfileError> {
        native::stop()
    }

    /// Returns a copy of the current profile, or of the last one if the profiler is off. The copy
    /// takes memory from the system, not from the allocator.
    ///
    /// # Errors
    /// If the profiler was never on or is busy, or there is not enough memory.
    pub fn snapshot(&self) -> Result<Snapshot, ProfileError> {
        native::snapshot().map(Snapshot)
    }
}

/// A profile at one moment. All counts and bytes are estimates.
#[derive(Debug)]
pub struct Snapshot(native::Snapshot);

impl Snapshot {
    /// Returns the stacks that allocated something, in no particular order.
    pub fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.0.sites().map(Site)
    }

    /// Returns the mean number of bytes from one sample to the next.
    #[must_use]
    pub fn bytes_per_sample(&self) -> usize {
        self.0.bytes_per_sample()
    }

    /// Returns the number of samples that were dropped, because there was no memory for them or the
    /// profile's lock could not be waited for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Writes the profile as a gzip file in pprof's format to the file `path`, of at most 1,024
    /// bytes. The file has a temporary name until it is complete. Needs no `std`; with it there is
    /// also `Profiler::dump`.
    ///
    /// # Errors
    /// The system's error number, as in `errno`, if the file cannot be written.
    pub fn dump_to(&self, path: &CStr) -> Result<(), c_int> {
        native::write_to_path(&self.0, path.to_bytes())
    }
}

/// Estimates of the memory that one call stack allocated.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a>(native::Site<'a>);

impl<'a> Site<'a> {
    /// Returns the return addresses of the stack, innermost first, at most 64. The first ones are
    /// in the allocator itself.
    #[must_use]
    pub fn calls(&self) -> &'a [usize] {
        self.0.calls
    }

    /// Returns the number of samples *k* behind these figures. Their relative error is about
    /// 1/√*k*.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.0.samples
    }

    /// Returns the number of blocks in use.
    #[must_use]
    pub fn live_blocks(&self) -> u64 {
        self.0.live_blocks
    }

    /// Returns the bytes in use, as requested by the program.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.0.live_bytes
    }

    /// Returns the number of blocks allocated since the profile began.
    #[must_use]
    pub fn allocated_blocks(&self) -> u64 {
        self.0.allocated_blocks
    }

    /// Returns the bytes allocated since the profile began, as requested by the program.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.0.allocated_bytes
    }
}

#[cfg(all(target_os = "linux", not(pagewise_forwarding)))]
mod native {
    use core::alloc::{GlobalAlloc, Layout};

    use super::super::native::profile;
    #[cfg(feature = "std")]
    pub(super) use super::super::native::profile::write;
    pub(super) use super::super::native::profile::{Site, Snapshot, snapshot, stop, write_to_path};
    use super::super::{Pagewise, Tuning};
    use super::ProfileError;

    pub(super) fn start(tuning: &Tuning, bytes_per_sample: usize) -> Result<(), ProfileError> {
        // The first allocation initialises the allocator.
        let (opens, byte) = (Pagewise { tuning: *tuning }, Layout::new::<u8>());
        // SAFETY: the layout's size is not 0.
        let block = unsafe { opens.alloc(byte) };
        if block.is_null() {
            return Err(ProfileError::Memory);
        }
        // SAFETY: the block is in use, and freed once.
        unsafe { opens.dealloc(block, byte) };
        profile::start(tuning, bytes_per_sample)
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

    /// A snapshot tells the rate of its profile.
    #[cfg(not(miri))]
    #[test]
    fn a_snapshot_tells_its_rate() {
        crate::os::alone::passes("global::profiler::tests::told");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own, with a profile"]
    fn told() {
        let pagewise = crate::global::Pagewise::new();
        for rate in [1, 4096] {
            pagewise.profiler().start(rate).expect("there is memory");
            let told = pagewise.profiler().snapshot().map(|snapshot| snapshot.bytes_per_sample());
            assert_eq!(told, Ok(rate));
            pagewise.profiler().stop().expect("nobody else is at it");
        }
    }
}
