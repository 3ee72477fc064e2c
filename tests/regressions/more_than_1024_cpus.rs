//! The kernel refuses a set of CPUs smaller than its own. Ours had room for 1,024, so a larger
//! machine counted as one CPU: its threads shared two heaps.

use std::os::unix::process::CommandExt;
use std::sync::Barrier;
use std::thread;

use crate::ALLOCATOR;
use crate::child::sandbox::{self, Refusal};
use crate::child::{Ended, run};

/// Returns the heaps that many threads open, if the kernel's CPU sets have this many bytes.
fn heaps(bytes: Option<u32>) -> usize {
    let Ended { out, err, .. } = run("more_than_1024_cpus::threads", |command| {
        let Some(bytes) = bytes else { return };
        let refusal = Refusal {
            call: libc::SYS_sched_getaffinity,
            error: libc::EINVAL,
            below: Some((1, bytes)),
        };
        // SAFETY: installing the filter allocates nothing.
        unsafe { command.pre_exec(move || sandbox::install(refusal)) };
    });
    let number = out.lines().find_map(|line| line.strip_prefix("heaps: ")?.parse().ok());
    number.unwrap_or_else(|| panic!("{out}{err}"))
}

#[test]
fn a_large_machine_opens_heaps_for_all_its_cpus() {
    let usual = heaps(None);
    assert_eq!(heaps(Some(1024)), usual, "8,192 CPUs");
    assert_eq!(heaps(Some(8192)), usual, "65,536 CPUs");
    // musl counts the CPUs with the same system call.
    if cfg!(target_env = "gnu") {
        assert_eq!(heaps(Some(u32::MAX)), usual, "more than there are, or no answer at all");
    }
}

#[test]
#[ignore = "in a process of its own"]
fn threads() {
    let (started, counted) = (Barrier::new(41), Barrier::new(41));
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                drop(vec![1_u8; 100]);
                started.wait();
                counted.wait();
            });
        }
        started.wait();
        println!("\nheaps: {}", ALLOCATOR.stats().heaps);
        counted.wait();
    });
}
