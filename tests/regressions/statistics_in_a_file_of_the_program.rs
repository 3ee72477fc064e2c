//! A program that had closed standard error and opened a file of its own, which got number 2, found the
//! statistics in it that are written at exit.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::{env, process};

use crate::ALLOCATOR;
use crate::child::passes_when;

/// The environment variable that tells the child where its files may lie.
const FOLDER: &str = "PAGEWISE_TEST_FOLDER";

/// Returns the files of the child: where it wants statistics, and where it does not.
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
    // SAFETY: nothing else in this process has number 2.
    unsafe {
        assert_eq!(libc::dup2(log.as_raw_fd(), 2), 2);
        ALLOCATOR.show_stats();
        assert_eq!(libc::dup2(database.as_raw_fd(), 2), 2);
    }
}
