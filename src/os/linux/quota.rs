//! The processor time, in CPUs, that the process's control groups (version 2) allow it.

use core::ffi::CStr;

/// Returns how many CPUs' time the process may use, rounded up: the smallest quota of its control
/// group and of the groups around it. Returns `None` if there is no quota, or none is readable.
pub(crate) fn cpu_quota() -> Option<usize> {
    let mut buffer = [0; 512];
    // Version 2 has a single line, `0::/path`, among those of version 1.
    let groups = read(c"/proc/self/cgroup", &mut buffer)?;
    let group = groups.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    let mut least = None;
    let mut end = group.len();
    loop {
        let cpus = quota_of_group(group.get(..end)?);
        least = match (least, cpus) {
            (Some(least), Some(cpus)) => Some(cpus.min(least)),
            (one, other) => one.or(other),
        };
        match group[..end].iter().rposition(|&byte| byte == b'/') {
            Some(up) => end = up,
            None => return least,
        }
    }
}

/// Returns the quota of the control group at `path`, in CPUs.
fn quota_of_group(path: &[u8]) -> Option<usize> {
    let mut file = [0; 600];
    let mut len = 0;
    for part in [b"/sys/fs/cgroup", path, b"/cpu.max\0"] {
        file.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    let mut buffer = [0; 64];
    quota(read(CStr::from_bytes_until_nul(&file).ok()?, &mut buffer)?)
}

/// Parses a `cpu.max` file: `150000 100000` (microseconds of processor time per period, and the
/// period in microseconds) or `max 100000`.
fn quota(text: &[u8]) -> Option<usize> {
    let mut words = str::from_utf8(text).ok()?.split_ascii_whitespace();
    let quota: usize = words.next()?.parse().ok()?;
    let period: usize = words.next()?.parse().ok().filter(|&period| period > 0)?;
    Some(quota.div_ceil(period).max(1))
}

/// Reads the beginning of a file into `buffer`. Uses system calls directly: the C library's
/// functions may be interposed by ones that allocate, and are cancellation points, which could end
/// the thread while it holds a lock.
pub(super) fn read<'a>(file: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name is a C string; the call writes at most the buffer's length; the descriptor
    // is opened here and closed once.
    unsafe {
        let number = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, file.as_ptr(), flags);
        if number < 0 {
            return None;
        }
        let got = libc::syscall(libc::SYS_read, number, buffer.as_mut_ptr(), buffer.len());
        libc::syscall(libc::SYS_close, number);
        buffer.get(..usize::try_from(got).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{cpu_quota, quota, read};

    /// Holds on any machine: the quota is at least one CPU, or there is none.
    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn files_are_read() {
        let mut buffer = [0; 64];
        assert_eq!(read(c"/proc/self/comm", &mut buffer).and_then(<[u8]>::last), Some(&b'\n'));
        assert_eq!(read(c"/proc/self/no such file", &mut buffer), None);
        assert_ne!(cpu_quota(), Some(0));
    }

    #[test]
    fn a_quota_is_rounded_up_to_cpus() {
        assert_eq!(quota(b"150000 100000\n"), Some(2));
        assert_eq!(quota(b"400000 100000\n"), Some(4));
        assert_eq!(quota(b"1000 100000\n"), Some(1));
        assert_eq!(quota(b"max 100000\n"), None);
        assert_eq!(quota(b"100000 0\n"), None);
        assert_eq!(quota(b""), None);
        assert_eq!(quota(b"\xff 1"), None);
    }
}
