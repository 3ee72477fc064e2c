//! The processor time and page faults charged to a process or thread.

use std::time::Duration;

/// Returns the processor time of this thread so far. Unlike the wall clock, it does not advance
/// while the system runs something else on this processor.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`; this clock exists wherever the lab builds.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Number of page faults so far.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Faults without I/O.
    pub minor: u64,
    /// Faults with I/O.
    pub major: u64,
}

impl Faults {
    /// Returns those of this process.
    pub fn of_process() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    /// Returns those of this thread.
    pub fn of_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    fn of(whom: libc::c_int) -> Self {
        // SAFETY: all-zero bits are a valid value, and the call writes it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(whom, &mut usage);
            usage
        };
        Self { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
    }

    /// Returns the total.
    pub fn count(self) -> u64 {
        self.minor + self.major
    }
}
