//! Builds the recorder, `libpagewise_record.so`, so that the `pagewise` binary carries it inside
//! and works wherever it is installed.
//!
//! The recorder must be a shared library of its own. A build dependency would be built by the same
//! cargo, but then two of its builds, for the workspace and for this script, would write one file;
//! so this script runs a cargo of its own, in a directory of its own. Everything it needs was
//! fetched for the lab itself.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

fn main() -> Result<(), Box<dyn Error>> {
    let lab = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let recorder = lab.join("../preload/record");
    for input in ["src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", recorder.join(input).display());
    }
    println!("cargo::rerun-if-changed={}", lab.join("../trace/src").display());
    println!("cargo::rerun-if-changed=build.rs");

    let out = PathBuf::from(env::var("OUT_DIR")?);
    let library = out.join("libpagewise_record.so");
    let linux = env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if linux && recorder.exists() {
        let built = build(&recorder, &out)?;
        std::fs::copy(built, &library)?;
    } else {
        // Recording by preload is for Linux, and a package of the lab alone lacks the recorder's
        // sources: `pagewise record` says so.
        std::fs::write(&library, [])?;
    }
    println!("cargo::rustc-env=PAGEWISE_RECORDER={}", library.display());
    Ok(())
}

/// Builds the recorder below `out` and gives the library's path.
fn build(recorder: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = env::var("TARGET")?;
    let directory = out.join("recorder");
    let cargo = |offline: bool| -> Result<ExitStatus, Box<dyn Error>> {
        let mut command = Command::new(env::var("CARGO")?);
        command
            .args(["build", "--quiet", "--profile", "recorder", "--target", &target])
            .arg("--manifest-path")
            .arg(recorder.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&directory)
            .args(offline.then_some("--offline"))
            // A cargo that checks, lints or measures coverage wants that of its own packages.
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        // The recorder finds stacks by them there; older versions of rustc keep none unless told to.
        if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "aarch64") {
            command.env("RUSTFLAGS", "-Cforce-frame-pointers=yes");
        }
        Ok(command.status()?)
    };
    if !cargo(true)?.success() && !cargo(false)?.success() {
        return Err("the recorder could not be built; see above".into());
    }
    Ok(directory.join(target).join("recorder/libpagewise_record.so"))
}
