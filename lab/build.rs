//! Builds the recorder, `libpagewise_record.so`, which is embedded in the `pagewise` binary, so
//! that it works wherever that is installed.
//!
//! The recorder must be a shared library of its own. As a build dependency it would be built twice
//! by the same cargo, for the workspace and for this script, and both builds would write the same
//! file. So this script runs its own cargo in its own directory. Everything it needs was fetched
//! for the lab already.

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
        // Recording by preload needs Linux, and a package of the lab alone lacks the recorder's
        // sources: `pagewise record` reports that.
        std::fs::write(&library, [])?;
    }
    println!("cargo::rustc-env=PAGEWISE_RECORDER={}", library.display());
    // `PROFILE/build/PACKAGE/out`: the folder where cargo puts programs and libraries.
    let built = out.ancestors().nth(3).ok_or("the output directory is in another")?;
    println!("cargo::rustc-env=LAB_BUILT_IN={}", built.display());
    Ok(())
}

/// Builds the recorder beside `out`; returns the library's path.
fn build(recorder: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = env::var("TARGET")?;
    // One for all builds of the lab in this target directory: lints, tests and programs have a
    // directory `out` each.
    let directory = out.ancestors().nth(2).ok_or("the output directory is in another")?;
    let directory = directory.join("recorder");
    let cargo = |offline: bool| -> Result<ExitStatus, Box<dyn Error>> {
        let mut command = Command::new(env::var("CARGO")?);
        command
            .args(["build", "--quiet", "--profile", "recorder", "--target", &target])
            .arg("--manifest-path")
            .arg(recorder.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&directory)
            .args(offline.then_some("--offline"))
            // Wrappers set by a cargo that checks, lints or measures coverage are for its own
            // packages.
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        // The recorder unwinds by frame pointers there; older versions of rustc omit them by
        // default.
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
