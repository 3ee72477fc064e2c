//! The guide of `docs/tuning.md`, followed to the letter: its commands, in their order, in one shell.
//! Only what would take minutes is made smaller.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The commands of the first section, in one script.
fn script(guide: &str) -> String {
    let section = guide.split("\n## ").nth(1).expect("a section");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect()
}

/// The same in less time: a debug build, a short log, few candidates, nothing to install.
fn shortened(script: &str) -> String {
    let mut short = String::from("set -e\n");
    for line in script.lines().filter(|line| !line.starts_with("cargo install ")) {
        let line = line
            .replace(" --release", "")
            .replace("target/release/access_log", "target/debug/access_log 30000")
            .replace("pagewise tune ", "pagewise tune --candidates 8 ")
            .replace("pagewise report ", "pagewise report --strategy PAGEWISE,SYSTEM ");
        short += &line;
        short.push('\n');
    }
    short
}

#[test]
fn the_guide_leads_from_a_program_to_a_tuned_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("there");
    let guide = fs::read_to_string(root.join("docs/tuning.md")).expect("the guide");
    let script = script(&guide);
    for command in ["record", "info", "report", "tune"] {
        assert!(script.contains(&format!("pagewise {command} ")), "{script}");
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::os::unix::fs::symlink(&root, folder.path().join("pagewise")).expect("a link");
    let tool = Path::new(env!("CARGO_BIN_EXE_pagewise")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .arg("-c")
        .arg(shortened(&script))
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", tool.display()))
        // What this test was built with is there, and need not be fetched again.
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("a shell");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    // The program ran before and after, and says what it took.
    assert!(err.matches("KiB resident at most").count() >= 2, "{err}");
    let program = folder.path().join("access_log");
    let code = fs::read_to_string(program.join("src/allocator.rs")).expect("the code");
    assert!(code.contains("Pagewise::with(\n    Tuning::new()"), "{code}");
    let page = fs::read_to_string(program.join("access_log.html")).expect("the report");
    assert!(page.contains("What tuning gains: access_log"));
}
