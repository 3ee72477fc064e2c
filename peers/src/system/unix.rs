//! Linux.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use super::Resources;

/// Pins the calling thread to the `index`-th CPU that this process may use (modulo their number).
/// Spawned threads inherit that. Does nothing where it is not possible.
pub(crate) fn to_cpu(index: usize) {
    let given = allowed_cpus();
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is within the set.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &given) })
        .collect();
    if cpus.is_empty() {
        return;
    }
    // SAFETY: all bits zero is an empty set; the number is within the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpus[index % cpus.len()], &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Returns the CPUs that this process may use, read before any thread was pinned.
fn allowed_cpus() -> libc::cpu_set_t {
    static GIVEN: OnceLock<libc::cpu_set_t> = OnceLock::new();
    *GIVEN.get_or_init(|| {
        // SAFETY: all bits zero is an empty set, and the call writes one.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
            set
        }
    })
}

pub(crate) fn resources() -> Resources {
    // SAFETY: all bits zero is a valid value, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let nanoseconds = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
    Resources {
        cpu: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        peak: usage.ru_maxrss,
        faults: usage.ru_minflt,
    }
}

/// Returns the nanoseconds of CPU time of the calling thread.
pub(crate) fn thread_time() -> u64 {
    // SAFETY: all bits zero is a valid value, and the call writes one.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the resident bytes of this process. Allocates at most in the first call.
pub(crate) fn resident() -> usize {
    static STATM: OnceLock<File> = OnceLock::new();
    let statm =
        STATM.get_or_init(|| File::open("/proc/self/statm").expect("the system has the file"));
    let mut text = [0_u8; 128];
    // SAFETY: the first call writes no more than the buffer holds; the other is a plain query.
    let (len, page) = unsafe {
        let len = libc::pread(statm.as_raw_fd(), text.as_mut_ptr().cast(), text.len(), 0);
        (usize::try_from(len).expect("the system tells"), libc::sysconf(libc::_SC_PAGESIZE))
    };
    let text = str::from_utf8(&text[..len]).expect("the system writes text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * page as usize
}
