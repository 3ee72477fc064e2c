//! Examples that must be packages of their own build and run: one without `std`, whose linking is the
//! proof that the library needs none, and one for a nightly compiler.

use std::path::Path;
use std::process::Command;

/// Builds the package `examples/<name>` and runs its program, to its end.
fn builds_and_runs(name: &str, environment: &[(&str, &str)]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .envs(environment.iter().copied())
        .status()
        .expect("cargo runs");
    assert!(built.success(), "examples/{name} builds");
    let status = Command::new(target.join("debug").join(name)).status();
    let status = status.expect("the program starts");
    assert_eq!(status.code(), Some(0), "the number of the step that went wrong");
}

#[test]
fn a_program_without_std_links_and_runs() {
    builds_and_runs("no_std", &[]);
}

#[test]
fn collections_of_the_standard_library_live_in_an_arena() {
    // The stable compiler, told to be a nightly one.
    builds_and_runs("nightly", &[("RUSTC_BOOTSTRAP", "1")]);
}
