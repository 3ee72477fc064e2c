//! Checks that the documented table of targets matches the script that runs them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::root;

/// Returns the platforms that `tests/targets.sh` lists: by name, how each is tested and how much of
/// it.
fn listed() -> BTreeMap<String, [String; 2]> {
    let list = Command::new("bash").args(["tests/targets.sh", "list"]).current_dir(root()).output();
    let list = list.expect("there is a shell");
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let lines = String::from_utf8(list.stdout).expect("text");
    let cells = lines.lines().map(|line| line.split('|').map(str::to_owned).collect::<Vec<_>>());
    let row = |cells: Vec<String>| {
        let [name, how, what] = cells.try_into().expect("a line has three fields");
        (name, [how, what])
    };
    cells.map(row).collect()
}

/// Returns the same from the document: the rows whose first cell is a single name.
fn described() -> BTreeMap<String, [String; 2]> {
    let text = fs::read_to_string(root().join("docs/platforms.md")).expect("the document");
    let (_, section) = text.split_once("\n## How that is known\n").expect("its section");
    let (section, _) = section.split_once("\n### ").expect("the section's end");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |line: &str| {
        let (name, cells) = line.split_once("` | ")?;
        let mut cells = cells.split(" | ").map(str::to_owned);
        Some((name.to_owned(), [cells.next()?, cells.next()?]))
    };
    rows.map(|line| row(line).expect("a row has three cells")).collect()
}

#[test]
#[cfg(unix)]
fn documented_targets_match_the_script() {
    let (listed, described) = (listed(), described());
    assert!(listed.len() >= 8, "{listed:?}");
    assert_eq!(described, listed);
}
