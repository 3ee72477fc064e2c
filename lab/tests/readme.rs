//! Every command of the README works as it stands there.

use std::path::Path;
use std::process::Command;

/// The lines of the README's `sh` blocks.
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

#[test]
fn every_command_of_the_readme_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    // What the commands write must not land in the repository, which they otherwise run in.
    let folder = tempfile::tempdir().expect("a temporary directory");
    for file in std::fs::read_dir(&root).expect("the repository") {
        let path = file.expect("readable").path().canonicalize().expect("there");
        let link = folder.path().join(path.file_name().expect("named"));
        std::os::unix::fs::symlink(&path, link).expect("a link");
    }
    let mut ran = 0;
    for command in commands(&readme) {
        // The first two are what CI and whoever reads the README run.
        let Some(arguments) = command.strip_prefix("cargo run --release -- ") else {
            assert!(["cargo run --release", "cargo test --workspace"].contains(&command));
            continue;
        };
        // `cargo run` but for building again what is being tested.
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("\"$PAGEWISE\" {arguments} >/dev/null"))
            .env("PAGEWISE", env!("CARGO_BIN_EXE_pagewise"))
            .env("GIT_PAGER", "cat")
            .current_dir(folder.path())
            .status()
            .expect("a shell");
        assert!(status.success(), "{command}");
        ran += 1;
    }
    assert!(ran >= 7, "the README teaches at least seven commands");
}
