//! The few calls of the operating system that a recorder makes.
//!
//! Files are opened and closed by system calls, not by the C library's functions: other preloaded
//! libraries interpose those, may allocate in them, and would re-enter the recorder.

use core::ffi::{CStr, c_int};
use core::ptr::{self, NonNull};

/// Restores the C library's error number when dropped: a recorder's own calls must not change the
/// program's `errno`.
pub(super) struct Errno(c_int);

impl Errno {
    pub(super) fn keep() -> Self {
        // SAFETY: the location is the calling thread's own and always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as in `keep`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// An open file, closed when dropped. It is never inherited by an `exec`.
pub(super) struct File(c_int);

impl File {
    /// Opens a file; the error is the error number.
    pub(super) fn open(path: &CStr, flags: c_int) -> Result<Self, c_int> {
        // SAFETY: the path is a C string; the call touches no other memory.
        let file = unsafe {
            libc::syscall(
                libc::SYS_openat,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags | libc::O_CLOEXEC,
                0o600,
            )
        };
        match c_int::try_from(file) {
            Ok(file) if file >= 0 => Ok(Self(file)),
            // SAFETY: the location is the calling thread's own and always valid.
            _ => Err(unsafe { *libc::__errno_location() }),
        }
    }

    /// Reads until `buffer` is full or the file ends; returns the bytes read.
    ///
    /// # Safety
    /// `buffer` is valid for writes of `len` bytes.
    pub(super) unsafe fn read(&self, buffer: *mut u8, len: usize) -> usize {
        let mut done = 0;
        while done < len {
            // SAFETY: by the caller's promise the rest of the buffer is valid for writes.
            let count =
                unsafe { libc::syscall(libc::SYS_read, self.0, buffer.add(done), len - done) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        done
    }

    /// Returns the file's length in bytes; 0 if it has none, as a pipe. Reads go on at its end.
    pub(super) fn len(&self) -> u64 {
        // SAFETY: the call touches no memory.
        let len = unsafe { libc::syscall(libc::SYS_lseek, self.0, 0_usize, libc::SEEK_END) };
        u64::try_from(len).unwrap_or(0)
    }

    /// Returns whether no process has locked the file.
    pub(super) fn is_unlocked(&self) -> bool {
        // SAFETY: the call touches no memory. The lock that it takes ends with this file.
        unsafe { libc::syscall(libc::SYS_flock, self.0, libc::LOCK_SH | libc::LOCK_NB) == 0 }
    }

    /// Reserves disk space for `len` bytes from offset `from`, so that writing to the mapping
    /// cannot fail later, which would kill the program. The error is the error number.
    pub(super) fn allocate(&self, from: u64, len: usize) -> Result<(), c_int> {
        let (Ok(from), Ok(len)) = (libc::off_t::try_from(from), libc::off_t::try_from(len)) else {
            return Err(libc::EFBIG);
        };
        if from.checked_add(len).is_none_or(|end| !within_file_size_limit(end as u64)) {
            return Err(libc::EFBIG);
        }
        if self.fallocate(from, len) {
            return Ok(());
        }
        // Some file systems cannot reserve space; then the file just grows.
        // SAFETY: the call touches no memory.
        if errno() == libc::EOPNOTSUPP && unsafe { libc::ftruncate(self.0, from + len) } == 0 {
            return Ok(());
        }
        Err(errno())
    }

    /// Reserves disk space by the system call; returns whether it succeeded. The C library's
    /// function is a cancellation point, which `malloc` and `free` are not.
    fn fallocate(&self, from: libc::off_t, len: libc::off_t) -> bool {
        #[cfg(target_pointer_width = "64")]
        // SAFETY: the call touches no memory.
        let result = unsafe { libc::syscall(libc::SYS_fallocate, self.0, 0, from, len) };
        #[cfg(target_pointer_width = "32")]
        let result = {
            let ([a, b], [c, d]) = (words(from.into()), words(len.into()));
            // SAFETY: the call touches no memory. It takes its two numbers of 64 bits as two
            // words each.
            unsafe { libc::syscall(libc::SYS_fallocate, self.0, 0, a, b, c, d) }
        };
        result == 0
    }

    /// Maps `len` bytes of the file from offset `from`, shared, for reads and writes. The error is
    /// the error number.
    pub(super) fn map(&self, from: u64, len: usize) -> Result<NonNull<u8>, c_int> {
        let from = libc::off_t::try_from(from).map_err(|_| libc::EFBIG)?;
        map(len, libc::MAP_SHARED, self.0, from).ok_or_else(errno)
    }
}

/// Returns the words of a number as two arguments of a system call, in their order in memory.
#[cfg(target_pointer_width = "32")]
fn words(number: i64) -> [libc::c_long; 2] {
    let [low, high] = [number as libc::c_long, (number >> 32) as libc::c_long];
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}

/// Returns the C library's error number.
fn errno() -> c_int {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// Renames a file, if possible.
pub(super) fn rename(from: &CStr, to: &CStr) {
    // SAFETY: both are C strings; the call touches no other memory.
    unsafe { libc::rename(from.as_ptr(), to.as_ptr()) };
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the file is ours; nothing uses its number afterwards.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// Exceeding the limit would raise a signal that kills the program.
fn within_file_size_limit(end: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    let unlimited = limit.rlim_cur == libc::RLIM_INFINITY;
    known && (unlimited || u128::from(end) <= u128::from(limit.rlim_cur))
}

/// Maps `len` bytes of zeros, private to the process, for reads and writes.
pub(super) fn map_zeros(len: usize) -> Option<NonNull<u8>> {
    map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}

fn map(len: usize, flags: c_int, file: c_int, from: libc::off_t) -> Option<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
    let base = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, file, from)
    };
    if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast()) }
}

/// Removes a mapping.
///
/// # Safety
/// `base` was mapped with `len` bytes, and nothing uses it any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that it is a mapping that nothing uses.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

/// Makes a forked child find zeros in a mapping; false if the kernel cannot (before 4.14).
pub(super) fn wipe_on_fork(base: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the advice changes nothing in this process.
    unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_WIPEONFORK) == 0 }
}

/// Excludes a mapping from forked children.
pub(super) fn not_in_children(base: NonNull<u8>, len: usize) {
    // Miri knows neither the call nor `fork`.
    if cfg!(miri) {
        return;
    }
    // SAFETY: the advice changes nothing in this process.
    unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTFORK) };
}

/// Lets the kernel reclaim the memory of a shared file mapping; the file keeps the contents.
pub(super) fn release(base: NonNull<u8>, len: usize) {
    // SAFETY: for a shared file mapping the advice loses nothing.
    unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTNEED) };
}

/// Returns the nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the microseconds of a monotonic clock. Makes no system call if the C library reads the
/// clock through the vDSO.
pub(super) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Returns the ids of the process and its parent.
pub(super) fn processes() -> (u32, u32) {
    // SAFETY: the calls always succeed and touch no memory.
    unsafe { (libc::getpid() as u32, libc::getppid() as u32) }
}

/// Writes the path of the program's executable to `buffer`; returns its length, 0 if unknown.
///
/// # Safety
/// `buffer` is valid for writes of `len` bytes.
pub(super) unsafe fn executable(buffer: *mut u8, len: usize) -> usize {
    // SAFETY: the path is a C string, and the buffer valid by the caller's promise.
    let count = unsafe {
        libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, c"/proc/self/exe".as_ptr(), buffer, len)
    };
    usize::try_from(count).unwrap_or(0)
}

/// Returns the value of an environment variable. Copy it at once: the program may overwrite it.
/// Like the loader, returns `None` for a program with more privileges than its user. `Err` while
/// the C library has not initialised the environment yet.
pub(super) fn environment(name: &str) -> Result<Option<&'static CStr>, ()> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: `environ` is null or points to C strings, followed by null. It is read before the
    // program can have threads that change it, or, in a Rust program, at its first allocation,
    // before `main`.
    unsafe {
        if environ.is_null() {
            return Err(());
        }
        if libc::getauxval(libc::AT_SECURE) != 0 {
            return Ok(None);
        }
        let mut entry = environ;
        while !(*entry).is_null() {
            let text = CStr::from_ptr(*entry);
            if let Some(value) = text.to_bytes().strip_prefix(name.as_bytes())
                && value.first() == Some(&b'=')
            {
                return Ok(Some(CStr::from_ptr((*entry).add(name.len() + 1))));
            }
            entry = entry.add(1);
        }
    }
    Ok(None)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    }

    /// Returns a file in memory.
    fn file() -> File {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"pagewise-test".as_ptr(), 0) };
        assert!(file >= 0);
        File(file)
    }

    #[test]
    fn disk_space_is_reserved_where_it_was_asked_for() {
        for (from, len) in [(0, 4096), (4096, 8192), (1 << 16, 1)] {
            let file = file();
            assert_eq!(file.allocate(from, len), Ok(()));
            assert_eq!(file.len(), from + len as u64);
        }
        assert_eq!(file().allocate(0, 0), Err(libc::EINVAL));
        assert_eq!(File(-1).allocate(0, 1), Err(libc::EBADF));
    }

    /// A log that grows is part of `malloc` and `free`, which never end a cancelled thread.
    /// (Regression: it did.)
    #[test]
    fn reserving_disk_space_is_no_cancellation_point() {
        let file = file();
        // SAFETY: the child ends without returning; the status is valid for writes.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                pthread_cancel(libc::pthread_self());
                let is_done = file.allocate(0, 4096) == Ok(());
                libc::_exit(if is_done { 7 } else { 8 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
        }
    }
}
