//! Gives `libpagewise.so` its SONAME: the name that programs linked with it ask the loader for. Until 1.0 a minor
//! version may break programs, so it is part of the name.

use std::env;

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
}
