//! Calls of the operating system: pinning threads to CPUs, so that two of them run in parallel in
//! every run, or in none; time and memory.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use self::unix::{resident, resources, thread_time, to_cpu};
#[cfg(windows)]
pub(crate) use self::windows::{resident, resources, thread_time, to_cpu};

/// The resources used by this process so far.
pub(crate) struct Resources {
    /// Nanoseconds of CPU time, all threads.
    pub(crate) cpu: i64,
    /// Peak resident memory, KiB.
    pub(crate) peak: i64,
    /// Minor page faults; on Windows, all page faults.
    pub(crate) faults: i64,
}

/// The system's C functions.
#[allow(unused_imports, dead_code, reason = "an allocator that is measured may have its own")]
pub(crate) mod c {
    #[cfg(unix)]
    pub(crate) use libc::malloc_usable_size as usable_size;
    pub(crate) use libc::{free, malloc, realloc};

    #[cfg(windows)]
    unsafe extern "C" {
        #[link_name = "_msize"]
        pub(crate) fn usable_size(block: *mut libc::c_void) -> usize;
    }
}
