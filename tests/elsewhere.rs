//! Where the global allocator is not supported, it compiles and passes everything on to the
//! system's: the proof is a program built as if it were elsewhere.

use std::path::Path;
use std::process::Command;

#[test]
fn elsewhere_everything_is_passed_on() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(root.join("tests/elsewhere/Cargo.toml"))
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere"))
        .env("RUSTFLAGS", "--cfg pagewise_elsewhere -D warnings")
        .output()
        .expect("cargo runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == "passed on\n", "{out}{err}");
}
