//! Builds packages of the repository that cargo does not build for a test by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the package in this folder into `target`.
pub(crate) fn build(folder: &str, target: &Path, prepare: impl FnOnce(&mut Command)) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--manifest-path"]).arg(manifest);
    command.arg("--target-dir").arg(target);
    prepare(&mut command);
    let built = command.status().expect("cargo runs");
    assert!(built.success(), "{folder} builds");
}

/// Returns the workspace's target directory, where other tests have built its packages already.
#[allow(dead_code, reason = "for packages of the workspace")]
pub(crate) fn workspace_target() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.ancestors().nth(3).expect("it lies in a target directory").to_owned()
}
