//! Resident memory stays proportional to the memory in use.

mod idle;
mod sparse;
mod turns;
mod zeroed;

const MIB: usize = 1 << 20;

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).expect("the second number");
    // SAFETY: the call touches no memory of ours.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
    pages.parse::<usize>().expect("a number") * page
}

/// Returns the peak of this process's resident bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its line");
    let kib: usize = line.trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}
