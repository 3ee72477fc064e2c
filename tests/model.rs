//! The global allocator's lock and what it publishes without one, under a model checker. The
//! checker is a dependency of a package of its own.

use std::path::Path;
use std::process::Command;

#[test]
fn every_model_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(root.join("tests/model/Cargo.toml"))
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("model"))
        .env("RUSTFLAGS", "--cfg pagewise_model")
        .output()
        .expect("cargo runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("every model holds\n"), "{out}{err}");
}
