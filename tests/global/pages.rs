//! Repeats tests with system pages of 64 KiB: a library loaded with this program answers its memory
//! calls as such a kernel would.

use std::path::Path;
use std::process::Command;

/// The modules that measure memory.
const MODULES: [&str; 5] = ["fork::", "layouts::", "limits::", "memory::", "statistics::"];

#[test]
fn tests_pass_with_pages_of_64_kib() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the library builds");
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(MODULES)
        .env("LD_PRELOAD", target.join("debug/libpages.so"))
        .output()
        .expect("this program can be run");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("cannot be preloaded"), "{out}{err}");
}
