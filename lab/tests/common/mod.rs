//! Runs the binary, and makes small traces for it.

// Each test binary uses only some of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The result of a run of `pagewise`.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `pagewise` with these arguments.
pub(crate) fn pagewise<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise")).args(args).output();
    run(output.expect("the binary runs"))
}

fn run(output: Output) -> Run {
    Run {
        status: output.status.code().expect("the binary was not killed"),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

impl Run {
    /// Asserts success; returns stdout.
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self.stdout
    }

    /// Asserts that the run failed with this status, printed nothing on stdout and one line on
    /// stderr that contains `part`.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, part: &str) {
        assert_eq!(self.status, status, "{}", self.stderr);
        assert_eq!(self.stdout, "");
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("pagewise: "), "{}", self.stderr);
        assert!(self.stderr.contains(part), "{}", self.stderr);
    }
}

/// Returns the path of `libpagewise.so`; builds it if necessary.
pub(crate) fn libpagewise() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_pagewise"));
    let folder = program.parent().expect("a folder");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/malloc/Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder.parent().expect("the target directory"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the library can be built");
    folder.join("libpagewise.so")
}

/// A directory with a small generated trace, `small.pwt`.
pub(crate) struct Workbench {
    directory: TempDir,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        let bench = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        bench.write("sizes.csv", "size,rate,live\n24,500,100\n1000,50,20\n100000,2,3\n");
        let made = pagewise(&[
            "generate",
            "--distribution",
            &bench.path("sizes.csv"),
            "--seconds",
            "5",
            "-o",
            &bench.trace(),
        ]);
        made.succeeds();
        bench
    }

    /// Path of the small trace.
    pub(crate) fn trace(&self) -> String {
        self.path("small.pwt")
    }

    /// Path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Writes a file in the directory; returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Returns the names of the files in the directory.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path()).expect("the directory can be read");
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into()).collect();
        files.sort();
        files
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}
