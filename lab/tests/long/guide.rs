//! Follows the guides of `docs/tuning.md` and `docs/who.md` literally: their commands, in order, in
//! one shell. Only steps that would take minutes are made smaller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The results of following a guide.
struct Followed {
    folder: TempDir,
    out: String,
    err: String,
}

impl Followed {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Follows the first section of a guide, which teaches these commands.
    fn guide(name: &str, commands: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("there");
        let guide = fs::read_to_string(root.join("docs").join(name)).expect("the guide");
        let script = script(&guide);
        for command in commands {
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
            // The packages that this test was built with are there, and must not be fetched again.
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .expect("a shell");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{out}\n{err}");
        Self { folder, out, err }
    }
}

/// Returns the commands of the first section as one script.
fn script(guide: &str) -> String {
    let section = guide.split("\n## ").nth(1).expect("a section");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect()
}

/// Makes a script faster: a debug build, a short log, few clients and candidates, nothing to
/// install.
fn shortened(script: &str) -> String {
    let mut short = String::from("set -e\n");
    for line in script.lines().filter(|line| !line.starts_with("cargo install ")) {
        let line = line
            .replace(" --release", "")
            .replace("target/release/access_log", "target/debug/access_log 30000")
            .replace("target/release/leaky_server 24000", "target/debug/leaky_server 4000")
            .replace("target/release/leaky_server", "target/debug/leaky_server 1500")
            .replace("pagewise tune ", "pagewise tune --candidates 8 ")
            .replace("pagewise report ", "pagewise report --strategy PAGEWISE,SYSTEM ");
        short += &line;
        short.push('\n');
    }
    short
}

#[test]
fn the_guide_leads_from_a_program_to_a_tuned_one() {
    let followed = Followed::guide("tuning.md", &["record", "info", "report", "tune"]);
    let err = &followed.err;
    // The program ran before and after, and printed its time and memory.
    assert!(err.matches("KiB resident at most").count() >= 2, "{err}");
    let program = followed.path("access_log");
    let code = fs::read_to_string(program.join("src/allocator.rs")).expect("the code");
    assert!(code.contains("Pagewise::with(\n    Tuning::new()"), "{code}");
    let page = fs::read_to_string(program.join("access_log.html")).expect("the report");
    assert!(page.contains("Gain from tuning: access_log"));
}

#[test]
fn the_guide_leads_from_a_server_that_grows_to_one_that_does_not() {
    let Followed { out, err, .. } = Followed::guide("who.md", &["record", "who", "tune"]);
    // It leaks, and more so with more clients; after the fix it does not.
    let served: Vec<&str> = out.lines().filter(|line| line.contains("sessions open")).collect();
    let open = |line: &&str| line.contains(" 0 sessions open");
    assert!(served.len() == 6 && !served[..3].iter().any(open), "{out}\n{err}");
    assert!(served[3..].iter().all(open), "{out}");
    // The leaking function was shown with its line before the fix, and not after.
    let (before, after) = out.split_once(" 0 sessions open").expect("mended");
    for place in ["open_session", "Sessions::visit", "main.rs:"] {
        assert!(before.contains(place), "{place}: {before}");
    }
    assert!(!after.contains("open_session"), "{after}");
}
