//! Compares the global allocator and the default arena with the system's allocator: recorded
//! programs and random requests are replayed on both. Contents, zeros, alignment and usable sizes
//! must agree, resized blocks must keep the same bytes, and both must refuse the same requests.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "../harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only its requests are used")]
mod harness;
mod subject;
mod twin;

use std::alloc::Layout;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use harness::Request;
use pagewise::Pagewise;
use pagewise::trace::{self, Event};
use proptest::proptest;
use subject::{Growing, Subject};
use twin::Twin;

static PAGEWISE: Pagewise = Pagewise::new();

/// Address space of an arena, more than any of the programs needs.
const CAPACITY: usize = 1 << 30;

/// Runs a test in its own thread, one test at a time, because blocks in use are counted. The
/// thread's exit returns the blocks on its quick lists, so it is joined before the next test
/// counts.
fn alone(test: impl FnOnce() + Send + 'static) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

fn replay(subject: &impl Subject, path: &PathBuf) -> usize {
    let mut twin = Twin::new(subject);
    for event in trace::open(path).expect("a trace") {
        match event.expect("an intact trace") {
            Event::Allocate { slot, size, align } => {
                let layout = Layout::from_size_align(size as usize, (align as usize).max(16));
                twin.allocate(slot as usize, layout.expect("a valid layout"));
            }
            Event::Reallocate { slot, size } => twin.reallocate(slot as usize, size as usize),
            Event::Free { slot } => twin.free(slot as usize),
            Event::Thread { .. } | Event::Tick { .. } => {}
        }
    }
    twin.end()
}

#[test]
fn recorded_programs() {
    alone(replay_all);
}

fn replay_all() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces");
    let files = std::fs::read_dir(folder).expect("the repository has traces");
    let files = files.map(|file| file.expect("a readable folder").path());
    let mut traces: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "pwt")).collect();
    traces.sort();
    assert_eq!(traces.len(), 15);
    for path in traces {
        let global = replay(&PAGEWISE, &path);
        let arena = replay(&Growing::growing(CAPACITY), &path);
        assert_eq!(global, arena);
        println!("| {} | {global} |", path.file_stem().expect("a name").display());
    }
}

fn perform(subject: &impl Subject, requests: &[Request]) {
    let mut twin = Twin::new(subject);
    for (slot, &request) in requests.iter().enumerate() {
        let live = twin.live();
        let pick = |which: usize| which.checked_rem(live.len()).map(|index| live[index]);
        match request {
            Request::Allocate { size, align } => {
                let layout = Layout::from_size_align(size, align.max(16)).expect("a valid layout");
                twin.allocate(slot, layout);
            }
            Request::Resize { which, size } | Request::Keep { which, size, .. } => {
                if let Some(slot) = pick(which) {
                    twin.reallocate(slot, size);
                }
            }
            Request::Free { which } | Request::CheckedFree { which } => {
                if let Some(slot) = pick(which) {
                    twin.free(slot);
                }
            }
            // C has no such requests.
            Request::WrongFree { .. } | Request::Misaligned { .. } => {}
        }
    }
    twin.end();
}

proptest! {
    #![proptest_config(harness::config())]

    #[test]
    fn random_requests(requests in harness::requests()) {
        alone(move || {
            perform(&PAGEWISE, &requests);
            perform(&Growing::growing(CAPACITY), &requests);
        });
    }
}

/// Sizes that no allocator has memory for, or that are not valid sizes at all.
#[test]
fn impossible_sizes_are_refused_by_both() {
    alone(refuse);
}

fn refuse() {
    let most = isize::MAX as usize - 15;
    for size in [most, most / 2, 1 << 47] {
        let mut twin = Twin::new(&PAGEWISE);
        twin.allocate(0, Layout::from_size_align(size, 16).expect("a valid layout"));
        if let Ok(layout) = Layout::from_size_align(size, 1 << 12) {
            twin.allocate(1, layout);
        }
        twin.allocate(2, Layout::from_size_align(100, 16).expect("a valid layout"));
        twin.reallocate(2, size);
        assert_eq!(twin.layout(2).size(), 100);
        twin.end();
    }
}
