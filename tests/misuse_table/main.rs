//! Runs the programs of `tests/misuse_table/programs`, which work under any malloc library, under
//! `libpagewise.so`: no outcome may be worse than documented in `docs/misuse.md`.

#![cfg(target_os = "linux")]

#[path = "programs/src/outcome.rs"]
mod outcome;
#[path = "../package/mod.rs"]
mod package;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use outcome::Outcome;

/// Builds the program that runs the misuses, and the library in release mode, without debug checks.
fn built() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("misuse");
        package::build("tests/misuse_table/programs", &target, |_| {});
        let workspace = package::workspace_target();
        package::build("preload/malloc", &workspace, |command| {
            command.arg("--release");
        });
        [target.join("debug/misuse"), workspace.join("release/libpagewise.so")]
    })
}

/// Returns the outcomes in the column of this name, by misuse and size; empty if there is no such
/// column.
fn documented(column: &str) -> BTreeMap<[String; 2], Outcome> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/misuse.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let cells = |line: &str| {
        let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(row.split(" | ").map(|cell| cell.replace("**", "")).collect::<Vec<_>>())
    };
    let mut rows = text.lines().filter_map(cells);
    let head = rows.find(|cells| cells.len() > 2).expect("the table's head");
    let Some(column) = head.iter().position(|cell| cell == column) else { return BTreeMap::new() };
    let rows = rows.take_while(|cells| cells[0] != "bold");
    let rows = rows.filter(|cells| cells.len() == head.len());
    rows.map(|cells| {
        let outcome = Outcome::named(&cells[column]).expect("the name of an outcome");
        ([cells[0].clone(), cells[1].clone()], outcome)
    })
    .collect()
}

/// Runs all misuses under the library, and compares the outcomes.
fn no_worse_than_documented(column: &str, settings: &str, worst: Outcome) {
    let documented = documented(column);
    let [misuse, library] = built();
    let library = format!("{column}={}{settings}", library.display());
    let run = Command::new(misuse).args(["run", &library]).output().expect("the program starts");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{out}{}", String::from_utf8_lossy(&run.stderr));
    let mut faults = String::new();
    let mut lines = 0;
    for line in out.lines() {
        let [misuse, size, outcome, message] = line.splitn(4, '\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let outcome = Outcome::named(outcome).expect("the name of an outcome");
        let key = [misuse, size].map(str::to_owned);
        let allowed = documented.get(&key).copied().unwrap_or(worst).min(worst);
        let told = matches!(outcome, Outcome::Stops | Outcome::Late);
        if outcome > allowed || told && !message.starts_with("pagewise: ") {
            faults += &format!("{line}: {allowed} is documented\n");
        }
        lines += 1;
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert_eq!(lines, 12 * 4, "every misuse in every size");
}

#[test]
fn by_default() {
    assert_eq!(documented("pagewise").len(), 13 * 4, "every misuse in every size, and none");
    no_worse_than_documented("pagewise", "", Outcome::Overlap);
}

/// Nothing goes undetected, and only guarded accesses fault.
#[test]
fn hardened() {
    assert_eq!(documented("hardened").len(), 13 * 4, "every misuse in every size, and none");
    no_worse_than_documented("hardened", ",PAGEWISE_HARDENED=1", Outcome::Late);
}

#[test]
fn the_documented_table_is_parsed() {
    assert!(documented("nobody").is_empty());
    let glibc = documented("glibc");
    assert_eq!(glibc[&["none".to_owned(), "64 B".to_owned()]], Outcome::Unnoticed);
}
