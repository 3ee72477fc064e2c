//! Sets the SONAME of `libpagewise.so`: the name by which programs linked with it ask the loader
//! for it. Until 1.0 a minor version may be incompatible, so it is part of the name.
//!
//! Links the unwinder statically if the linker has it as an archive. Otherwise the library would
//! load `libgcc_s.so` into C programs, which takes as long as the rest of its startup.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let (major, minor) = (of("CARGO_PKG_VERSION_MAJOR"), of("CARGO_PKG_VERSION_MINOR"));
    let version = if major == "0" { format!("0.{minor}") } else { major };
    let stem = match env::var_os("CARGO_FEATURE_OVERRIDE") {
        Some(_) => "libpagewise",
        None => "libpagewise_prefixed",
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{stem}.so.{version}");
    if of("CARGO_CFG_TARGET_ENV") == "gnu" && has_archive() {
        let folder = PathBuf::from(of("OUT_DIR")).join("unwinder");
        // Asked for `-lgcc_s`, the linker finds this script first.
        let script = "/* The unwinder, from archives. */\nGROUP ( -lgcc_eh -lgcc )\n";
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("libgcc_s.so"), script));
        if let Err(error) = written {
            panic!("cannot write {}/libgcc_s.so: {error}", folder.display());
        }
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
}

/// Returns whether the linker, a C compiler, knows the unwinder as an archive.
fn has_archive() -> bool {
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    // For an unknown file it prints just the name.
    asked.is_ok_and(|answer| {
        let path = String::from_utf8_lossy(&answer.stdout).into_owned();
        answer.status.success() && Path::new(path.trim_end()).is_absolute()
    })
}
