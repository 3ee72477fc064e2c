//! Memory in proportion to what a program uses.

mod sparse;
mod zeroed;

/// A mebibyte.
const MIB: usize = 1 << 20;

/// Bytes of this process that are resident now.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).expect("the second number");
    // SAFETY: the call touches no memory of ours.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
    pages.parse::<usize>().expect("a number") * page
}
