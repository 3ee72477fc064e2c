//! Threads in their places: each on a CPU of its own, so that two of them run at the same time in
//! every run, or in none.

/// Has the calling thread run on the `index`-th of the CPUs this process was given (modulo their
/// number), and nowhere else. Threads it spawns inherit that. Where it cannot be done, nothing is.
pub(crate) fn to_cpu(index: usize) {
    let given = given();
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is one of the set's.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &given) })
        .collect();
    if cpus.is_empty() {
        return;
    }
    // SAFETY: all bits zero is an empty set; the number is one of the set's.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpus[index % cpus.len()], &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// The CPUs this process was given, asked for before any thread was pinned.
fn given() -> libc::cpu_set_t {
    static GIVEN: std::sync::OnceLock<libc::cpu_set_t> = std::sync::OnceLock::new();
    *GIVEN.get_or_init(|| {
        // SAFETY: all bits zero is an empty set, and the call writes one.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
            set
        }
    })
}
