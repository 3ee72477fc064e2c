//! The thread that gives memory back while a program stands still.

use std::time::Duration;

use crate::fork::in_child;
use crate::memory::blocks_of;
use crate::run_prepared;

const DELAY: Duration = Duration::from_millis(100);
const PEAK: usize = 96 << 20;

/// Bytes of this process that are resident, found out without the allocator.
fn resident() -> usize {
    let mut text = [0_u8; 128];
    // SAFETY: the file is read into the buffer, and closed.
    let len = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY);
        let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        len
    };
    let text = str::from_utf8(&text[..len as usize]).expect("digits");
    let pages: usize =
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    // SAFETY: a plain query.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

/// Stands still until no more than this is resident, but not for ever; whether it came to that.
fn falls_to(most: usize, looks: usize) -> bool {
    (0..looks).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        resident() < most
    })
}

fn run(test: &str, background: &str) {
    run_prepared(test, |command| {
        command.env("PAGEWISE_PURGE_DELAY", DELAY.as_millis().to_string());
        command.env("PAGEWISE_BACKGROUND", background);
    });
}

#[test]
fn a_program_that_stands_still_gives_memory_back() {
    run("background::stands_still", "1");
}

/// Again and again: the thread sleeps in between. In the child of a fork there is another.
#[test]
#[ignore = "in a process of its own, with a thread of the allocator's"]
fn stands_still() {
    for _ in 0..3 {
        drop(blocks_of(PEAK));
        assert!(falls_to(PEAK / 8, 3000), "{} MiB are resident", resident() >> 20);
    }
    in_child(|| {
        drop(blocks_of(PEAK));
        assert!(falls_to(PEAK / 8, 3000), "{} MiB are resident", resident() >> 20);
    });
    assert_eq!(std::fs::read_dir("/proc/self/task").expect("there is a /proc").count(), 3);
}

#[test]
fn there_is_no_such_thread_unless_it_is_asked_for() {
    run("background::keeps", "0");
}

#[test]
#[ignore = "in a process of its own"]
fn keeps() {
    drop(blocks_of(PEAK));
    assert!(!falls_to(PEAK / 8, 50));
    assert_eq!(std::fs::read_dir("/proc/self/task").expect("there is a /proc").count(), 2);
}
