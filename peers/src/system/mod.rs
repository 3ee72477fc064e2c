//! Calls of the operating system: threads pinned to a CPU each, so that two of them run at the same
//! time in every run, or in none; time and memory.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use self::unix::{resident, resources, thread_time, to_cpu};
#[cfg(windows)]
pub(crate) use self::windows::{resident, resources, thread_time, to_cpu};

/// The resources that this process took so far.
pub(crate) struct Resources {
    /// Nanoseconds of CPU time, of all threads.
    pub(crate) cpu: i64,
    /// KiB resident at most.
    pub(crate) peak: i64,
    /// Minor page faults; on Windows, all.
    pub(crate) faults: i64,
}

/// C's functions as the system has them.
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
