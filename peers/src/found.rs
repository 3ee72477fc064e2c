//! Figures that a workload finds itself, beside the time and memory it takes.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock};

static NOTED: Mutex<Vec<(&str, usize)>> = Mutex::new(Vec::new());

/// Notes a figure.
pub(crate) fn note(name: &'static str, value: usize) {
    NOTED.lock().expect("nobody panicked").push((name, value));
}

/// Prints what was noted, in that order.
pub(crate) fn print() {
    for (name, value) in NOTED.lock().expect("nobody panicked").iter() {
        println!("{value} {name}");
    }
}

/// Bytes of this process that are resident. Allocates the first time at most.
pub(crate) fn resident() -> usize {
    static STATM: OnceLock<File> = OnceLock::new();
    let statm =
        STATM.get_or_init(|| File::open("/proc/self/statm").expect("the system has the file"));
    let mut text = [0_u8; 128];
    // SAFETY: the call writes no more than there is room for; the other only answers.
    let (len, page) = unsafe {
        let len = libc::pread(statm.as_raw_fd(), text.as_mut_ptr().cast(), text.len(), 0);
        (usize::try_from(len).expect("the system tells"), libc::sysconf(libc::_SC_PAGESIZE))
    };
    let text = str::from_utf8(&text[..len]).expect("the system writes text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * page as usize
}
