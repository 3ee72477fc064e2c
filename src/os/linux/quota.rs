//! The processor time that the process's control groups (version 2) leave it, in CPUs.

use core::ffi::CStr;

/// CPUs that the process may use at one time by the quota of its control group, and of those around that, rounded
/// up; `None` if there is no quota, or none that can be read.
pub(crate) fn cpu_quota() -> Option<usize> {
    let mut buffer = [0; 512];
    // Version 2 has one line, beside those of version 1: `0::/path`.
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

/// The quota of a control group, by its path.
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

/// What such a file says, as `150000 100000` or `max 100000`: microseconds of processor time in each so many.
fn quota(text: &[u8]) -> Option<usize> {
    let mut words = str::from_utf8(text).ok()?.split_ascii_whitespace();
    let quota: usize = words.next()?.parse().ok()?;
    let period: usize = words.next()?.parse().ok().filter(|&period| period > 0)?;
    Some(quota.div_ceil(period).max(1))
}

/// The beginning of a file. By the kernel's calls: those of C's library may be another's, which allocates, and may
/// end a thread that was cancelled, while a lock is held.
pub(super) fn read<'a>(file: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name is a string of C's; the call writes no more than the buffer's bytes; the number is a file's,
    // opened here and closed once.
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

    /// On any machine: there is a quota of at least one CPU, or none.
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
