//! Extracts the README's snippet on arenas unchanged.

use std::path::Path;
use std::{env, fs};

fn main() {
    let readme = "../../README.md";
    println!("cargo::rerun-if-changed={readme}");
    let readme = fs::read_to_string(readme).expect("the README");
    let section = readme.split("\n## ").find(|section| section.starts_with("An arena\n"));
    let (_, code) = section.expect("a section").split_once("```rust\n").expect("a snippet");
    let (code, _) = code.split_once("```").expect("its end");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("arena.rs"), code).expect("a file");
}
