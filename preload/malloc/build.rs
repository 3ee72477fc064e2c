//! Gives `libpagewise.so` its SONAME: the name that programs linked with it ask the loader for. Until 1.0 a minor
//! version may break programs, so it is part of the name.
//!
//! And has it carry its unwinder inside, where the linker has that as an archive. Else a program in C would load
//! `libgcc_s.so` for it, which takes as long as all that the library itself does at the start.

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
        // The standard library asks the linker for `-lgcc_s`: it finds this script first.
        let script = "/* The unwinder, from archives. */\nGROUP ( -lgcc_eh -lgcc )\n";
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("libgcc_s.so"), script));
        if let Err(error) = written {
            panic!("cannot write {}/libgcc_s.so: {error}", folder.display());
        }
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
}

/// Whether the linker, a C compiler, knows the unwinder as an archive.
fn has_archive() -> bool {
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    // It repeats the name of a file that it does not know.
    asked.is_ok_and(|answer| {
        let path = String::from_utf8_lossy(&answer.stdout).into_owned();
        answer.status.success() && Path::new(path.trim_end()).is_absolute()
    })
}
