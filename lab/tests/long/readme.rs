//! Runs every command of the README as written.

use std::path::Path;
use std::process::{Command, Stdio};

/// Commands of programs other than this binary: those that CI runs, general Rust commands, and
/// those covered by the tests of `libpagewise.so`.
const ELSEWHERE: [&str; 5] = [
    "cargo run --release",
    "cargo test --workspace",
    "cargo add pagewise",
    "cargo build --release -p pagewise-preload",
    "LD_PRELOAD=target/release/libpagewise.so python3 -c 'print(\"on pagewise\")'",
];

/// Returns the lines of the README's `sh` blocks.
fn commands(readme: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    readme.lines().filter(move |line| {
        if line.starts_with("```") {
            inside = *line == "```sh";
            return false;
        }
        inside && !line.is_empty()
    })
}

/// Clones the latest commits of a repository into a bare one: with all, the log that the commands
/// record would be several times as long.
fn clone_latest(repository: &Path, bare: &Path) {
    let root = repository.canonicalize().expect("the repository");
    let status = Command::new("git")
        .args(["clone", "--quiet", "--bare", "--depth", "200"])
        .arg(format!("file://{}", root.display()))
        .arg(bare)
        .status()
        .expect("git");
    assert!(status.success(), "the repository cannot be cloned");
}

#[test]
fn every_command_of_the_readme_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    // The commands' output must not go into the repository, where they would otherwise run.
    let folder = tempfile::tempdir().expect("a temporary directory");
    for file in std::fs::read_dir(&root).expect("the repository") {
        let path = file.expect("readable").path().canonicalize().expect("there");
        let link = folder.path().join(path.file_name().expect("named"));
        if !link.ends_with(".git") {
            std::os::unix::fs::symlink(&path, link).expect("a link");
        }
    }
    clone_latest(&root, &folder.path().join(".git"));
    let mut ran = 0;
    for command in commands(&readme) {
        let Some(arguments) = command.strip_prefix("pagewise ") else {
            assert!(ELSEWHERE.contains(&command), "{command} is not tested");
            continue;
        };
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("\"$PAGEWISE\" {arguments}"))
            .env("PAGEWISE", env!("CARGO_BIN_EXE_pagewise"))
            .env("GIT_PAGER", "cat")
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .status()
            .expect("a shell");
        assert!(status.success(), "{command}");
        ran += 1;
    }
    assert!(ran >= 6, "the README teaches at least six commands");
}
