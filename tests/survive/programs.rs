//! Runs the programs of `tests/survive/programs`, which work under any malloc library, under
//! `libpagewise.so`. Figures are compared with glibc's on the same machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::child::process::without_huge_pages;
use crate::package;

/// The library, and the binary with all programs.
struct Built {
    library: PathBuf,
    survive: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("survive");
        package::build("tests/survive/programs", &target, |_| {});
        let workspace = package::workspace_target();
        package::build("preload/malloc", &workspace, |_| {});
        Built {
            library: workspace.join("debug/libpagewise.so"),
            survive: target.join("debug/survive"),
        }
    })
}

/// Runs one program with and without the library: its outcome must be as the programs' table
/// requires.
fn survives(name: &str) {
    survives_when(name, |_| {});
}

/// Like [`survives`], with programs set up by `prepare`.
fn survives_when(name: &str, prepare: impl FnOnce(&mut Command)) {
    let built = built();
    let mut run = Command::new(&built.survive);
    prepare(&mut run);
    let run = run
        .args(["run", "--preload"])
        .arg(&built.library)
        .arg(name)
        // Other tests run at the same time.
        .env("SURVIVE_PATIENCE", "4")
        .output()
        .expect("the program starts");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{out}{}", String::from_utf8_lossy(&run.stderr));
}

macro_rules! programs {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            survives($name);
        }
    )*};
}

#[test]
fn many_sparse_blocks() {
    survives_when("sparse-many", without_huge_pages);
}

#[test]
fn zeroed_blocks_that_stay_untouched() {
    survives_when("calloc", without_huge_pages);
}

#[test]
fn system_calls_that_allocate_in_hardened_mode() {
    survives_when("own-calls", |run| _ = run.env("PAGEWISE_HARDENED", "1"));
}

programs! {
    fork_while_streams_are_read: "fork-stdio";
    allocation_in_a_child: "fork-child";
    a_fork_handler_that_allocates: "fork-handler";
    a_fork_in_a_signal_handler: "fork-in-signal";
    an_exit_in_a_signal_handler: "exit-in-signal";
    a_limit_the_program_sets: "rlimit-as";
    small_blocks_under_a_limit_of_100_000_kib: "ulimit-100";
    small_blocks_under_a_limit_of_300_000_kib: "ulimit-300";
    small_blocks_under_a_limit_of_1_000_000_kib: "ulimit-1000";
    refused_mincore: "no-mincore";
    refused_madvise: "no-madvise";
    refused_mremap: "no-mremap";
    refused_sched_getaffinity: "no-affinity";
    refused_getrandom: "no-getrandom";
    refused_prlimit: "no-prlimit";
    refused_mprotect: "no-mprotect";
    refused_munmap: "no-munmap";
    refused_futex: "no-futex";
    locked_memory: "mlockall";
    two_threads_by_turns_with_small_blocks: "turns-small";
    two_threads_by_turns_with_large_blocks: "turns-large";
    two_threads_by_turns_in_a_cgroup: "turns-cgroup";
    a_hot_program_after_a_peak: "hot";
    one_sparse_block: "sparse-one";
    huge_requests_that_fail: "huge-requests";
    a_thousand_keys_and_threads_that_end: "keys-many";
    all_keys_and_threads_that_end: "keys-all";
    threads_that_end: "threads";
    a_library_bound_to_itself: "deepbind";
    a_clock_that_allocates: "own-clock";
    system_calls_that_allocate: "own-calls";
    system_calls_that_allocate_with_guarded_blocks: "own-calls-guarded";
    children_of_the_system_call_clone: "raw-clone";
    children_that_share_the_memory: "shared-memory";
    blocks_freed_with_what_the_program_set: "attributes";
    a_process_that_ends_with_its_last_thread: "last-thread";
}
