//! When a program had closed standard error and its own file had got descriptor 2, the statistics
//! at exit were written into that file.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::{env, process};

use crate::ALLOCATOR;
use crate::child::passes_when;

/// Environment variable with the folder for the child's files.
const FOLDER: &str = "PAGEWISE_TEST_FOLDER";

/// Returns the child's files: the one for statistics, and the one that must stay free of them.
fn files(folder: &Path) -> [PathBuf; 2] {
    ["log", "database"].map(|name| folder.join(name))
}

#[test]
fn the_programs_file_stays_as_it_is() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files.{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    passes_when("statistics_in_a_file_of_the_program::daemon", |command| {
        command.env("PAGEWISE_SHOW_STATS", "1").env(FOLDER, &folder);
    });
    let [log, database] = files(&folder).map(|file| fs::read_to_string(file).expect("it is there"));
    fs::remove_dir_all(&folder).expect("nobody uses it");
    assert!(log.starts_with("pagewise:"), "who asks for them gets them: {log}");
    assert_eq!(database, "");
}

#[test]
#[ignore = "in a process of its own"]
fn daemon() {
    let folder = PathBuf::from(env::var_os(FOLDER).expect("it is set"));
    let [log, database] = files(&folder).map(|file| File::create(file).expect("a file"));
    // SAFETY: nothing else in this process uses descriptor 2.
    unsafe {
        assert_eq!(libc::dup2(log.as_raw_fd(), 2), 2);
        ALLOCATOR.show_stats();
        assert_eq!(libc::dup2(database.as_raw_fd(), 2), 2);
    }
}
