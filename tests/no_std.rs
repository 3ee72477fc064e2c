//! The library builds and links without `std`: the proof is a program that has none.

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_without_std_links_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_std");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(root.join("examples/no_std/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "examples/no_std builds");
    let program = target.join("debug/no_std");
    let status = Command::new(&program).status().expect("the program starts");
    assert_eq!(status.code(), Some(0), "the number of the step that went wrong");
}
