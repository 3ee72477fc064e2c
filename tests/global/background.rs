//! The background thread, which gives memory back while a program is idle.

use std::time::Duration;

#[cfg(unix)]
use crate::child::fork::in_child;
use crate::child::memory::resident;
#[cfg(target_os = "linux")]
use crate::child::memory::threads;
use crate::child::passes_when;
use crate::memory::blocks_of;

const DELAY: Duration = Duration::from_millis(100);
const PEAK: usize = 96 << 20;

/// Sleeps until at most this much is resident; gives up after `looks` checks. Returns whether it
/// succeeded.
fn resident_falls_to(most: usize, looks: usize) -> bool {
    (0..looks).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        resident() < most
    })
}

fn run(test: &str, background: &str) {
    passes_when(test, |command| {
        command.env("PAGEWISE_PURGE_DELAY", DELAY.as_millis().to_string());
        command.env("PAGEWISE_BACKGROUND", background);
    });
}

#[test]
fn an_idle_program_gives_memory_back() {
    run("background::memory_is_freed_without_a_call", "1");
}

/// Repeated, because the thread sleeps in between. The child of a fork gets a new one.
#[test]
#[ignore = "in a process of its own, with a thread of the allocator's"]
fn memory_is_freed_without_a_call() {
    let before = resident();
    for _ in 0..3 {
        drop(blocks_of(PEAK));
        assert!(
            resident_falls_to(before + PEAK / 8, 3000),
            "{} MiB are resident",
            resident() >> 20
        );
    }
    #[cfg(unix)]
    in_child(|| {
        drop(blocks_of(PEAK));
        assert!(
            resident_falls_to(before + PEAK / 8, 3000),
            "{} MiB are resident",
            resident() >> 20
        );
    });
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 3);
}

/// What threads free as they end goes back, though no thread uses the allocator after that.
/// (Regression: the background thread was not told of it.)
#[test]
fn what_ending_threads_free_goes_back() {
    run("background::threads_end", "1");
}

#[test]
#[ignore = "in a process of its own, with a thread of the allocator's"]
fn threads_end() {
    const THREADS: usize = 96;
    let before = resident();
    for _ in 0..3 {
        let all = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    // What comes and goes stays on the thread's lists in the end.
                    for _ in 0..40 {
                        let sizes = (1..9).flat_map(|n| [n * 16, n * 128, n * 1000].repeat(16));
                        drop(sizes.map(|size| vec![1_u8; size]).collect::<Vec<_>>());
                    }
                    all.wait();
                });
            }
        });
        assert!(
            resident_falls_to(before + (16 << 20), 1000),
            "{} MiB are resident",
            resident() >> 20
        );
    }
}

#[test]
fn there_is_no_background_thread_by_default() {
    run("background::keeps", "0");
}

#[test]
#[ignore = "in a process of its own"]
fn keeps() {
    let before = resident();
    drop(blocks_of(PEAK));
    assert!(!resident_falls_to(before + PEAK / 8, 50));
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 2);
}
