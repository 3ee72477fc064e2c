//! Linux: the process, the calling thread, and the processors.

use core::ffi::c_int;
use core::ptr;

use super::quota::read;
use crate::os::{CpuSet, is_sandboxed, thread_time};

/// Returns the address of the calling thread's `errno`, which is always valid.
#[inline]
pub(crate) fn errno_location() -> *mut c_int {
    // SAFETY: the call may be made at any time.
    unsafe { libc::__errno_location() }
}

/// Returns the system's number for the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call may be made at any time.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Returns whether the calling thread is the only one that still runs; `false` if the system does
/// not tell.
pub(crate) fn is_last_thread() -> bool {
    let mut buffer = [0; 512];
    read(c"/proc/self/stat", &mut buffer).and_then(counts_one_thread).unwrap_or(false)
}

/// Parses `/proc/self/stat`: `number (name) state …`, whose 20th field is the number of threads. A
/// main thread that has ended (state `Z`) counts as long as the others run.
fn counts_one_thread(text: &[u8]) -> Option<bool> {
    let end_of_name = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = str::from_utf8(&text[end_of_name + 1..]).ok()?.split_ascii_whitespace();
    let ended = u32::from(fields.next()? == "Z");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    Some(threads == 1 + ended)
}

/// Adds the CPUs that the calling thread may run on to `seen`. Returns how many CPUs threads were
/// seen to be allowed on, at least 1; where the kernel's set is larger, only those of this thread.
/// In a [sandbox](is_sandboxed) no CPUs are added.
pub(crate) fn cpus(seen: &mut CpuSet) -> usize {
    if is_sandboxed() {
        return count(seen).max(1);
    }
    let own: Option<CpuSet> = affinity();
    if let Some(own) = own {
        seen.iter_mut().zip(own).for_each(|(seen, own)| *seen |= own);
        return count(seen);
    }
    // The kernel refuses a set that is smaller than its own, and does not tell its size. The
    // smallest set that it accepts is used, since a thread may have little stack.
    let larger = affinity::<128>().map(|set| count(&set));
    larger.or_else(|| affinity::<1024>().map(|set| count(&set))).unwrap_or_else(|| {
        // SAFETY: the call touches no memory of ours.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
            .map_or(1, |n| n.max(1))
    })
}

/// Returns the number of CPUs in a set.
fn count(set: &[usize]) -> usize {
    set.iter().map(|word| word.count_ones() as usize).sum()
}

/// Returns the CPUs that the calling thread may run on, if a set of `WORDS` words is large enough
/// for the kernel.
#[inline(never)]
fn affinity<const WORDS: usize>() -> Option<[usize; WORDS]> {
    let mut set = [0_usize; WORDS];
    // SAFETY: the call writes no more than the set's bytes.
    let got = unsafe {
        libc::sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    (got == 0 && count(&set) > 0).then_some(set)
}

/// Returns the NUMA node of the CPU that the calling thread runs on now; 0 if the system does not
/// tell.
pub(crate) fn node() -> u32 {
    let mut node = 0;
    // SAFETY: the call writes the node, and writes nothing through null pointers.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getcpu,
            ptr::null_mut::<u32>(),
            &raw mut node,
            ptr::null_mut::<u8>(),
        )
    };
    if got == 0 { node } else { 0 }
}

/// Returns an unpredictable number; a merely hard-to-guess one if the system has none.
pub(crate) fn random() -> u64 {
    let mut number = 0_u64;
    let bytes = size_of::<u64>();
    // SAFETY: the call writes at most the number's bytes.
    let got =
        unsafe { libc::syscall(libc::SYS_getrandom, &raw mut number, bytes, libc::GRND_NONBLOCK) };
    if usize::try_from(got).ok() != Some(bytes) {
        let place = errno_location().addr() as u64;
        number = (place ^ thread_time().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Returns whether the process has more rights than the user who started it (setuid, file
/// capabilities). Its environment comes from that user and cannot be trusted then.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: the call touches no memory of ours. Miri lacks it.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::{counts_one_thread, is_last_thread};

    /// A main thread that has ended counts as long as the others run; a name may hold anything.
    #[test]
    fn threads_are_counted() {
        let stat = |name: &str, state, threads| {
            let others = "1 ".repeat(16);
            format!("77 ({name}) {state} {others}{threads} 0 5")
        };
        let cases = [("S", 1, true), ("R", 2, false), ("Z", 2, true), ("Z", 3, false)];
        for (state, threads, expected) in cases {
            for name in ["a", "a b) Z 1 2 3", ") ("] {
                let text = stat(name, state, threads);
                assert_eq!(counts_one_thread(text.as_bytes()), Some(expected), "{text}");
            }
        }
        for text in ["", "77 (a", "77 (a) S 1 1", "77 (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 x"] {
            assert_eq!(counts_one_thread(text.as_bytes()), None, "{text}");
        }
    }

    /// The test runner has a thread besides.
    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn a_thread_among_others_is_not_the_last() {
        assert!(!is_last_thread());
    }
}
