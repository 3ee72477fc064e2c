//! Checks with a fake wine that `tests/windows/prefix.sh` completes wine's folder or reports
//! failure.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::{executable, root};

/// A fake wine. With `STOPPED` set it stops after its first steps.
const WINE: &str = r#"
echo "$@" >>"$CALLS"
echo noise; echo noise >&2
[ "$1" != wineboot ] || mkdir -p "$WINEPREFIX/dosdevices"
[ -z "${STOPPED-}" ] || exit 53
mkdir -p "$WINEPREFIX/drive_c/windows/system32"
"#;

fn prefix(folder: &Path, stopped: bool) -> Output {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let compiler = "touch \"$3\"";
    for (name, does) in [("wine", WINE), ("wineserver", ""), ("x86_64-w64-mingw32-gcc", compiler)] {
        let path = programs.join(name);
        executable::write(&path, format!("#!/bin/sh\n{does}\n").as_bytes());
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("there is one"));
    let mut command = Command::new("bash");
    command.arg(root().join("tests/windows/prefix.sh")).arg("wine").current_dir(folder);
    command.env("PATH", path).env("CALLS", folder.join("calls")).env_remove("STOPPED");
    command.envs(stopped.then_some(("STOPPED", "1"))).output().expect("there is a shell")
}

/// Returns the calls of wine since the last call of this function.
fn calls(folder: &Path) -> String {
    let calls = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    let _ = fs::remove_file(folder.join("calls"));
    calls
}

#[test]
fn a_half_made_folder_is_made_again_silently() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let wine = folder.join("wine");
    let stopped = prefix(folder, true);
    assert!(!stopped.status.success() && wine.join("dosdevices").exists(), "{stopped:?}");
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("noise"), "what wine said is told");
    fs::write(wine.join("left"), "").expect("a file");
    calls(folder);

    let made = prefix(folder, false);
    assert!(made.status.success() && made.stdout.is_empty() && made.stderr.is_empty(), "{made:?}");
    assert!(!wine.join("left").exists());
    assert!(wine.join("drive_c/windows/system32/bcryptprimitives.dll").exists());
    assert!(calls(folder).starts_with("wineboot --init\nreg add"));

    let again = prefix(folder, false);
    assert!(again.status.success() && again.stdout.is_empty() && again.stderr.is_empty());
    assert_eq!(calls(folder), "cmd /c exit\n", "all was there");
}

#[test]
fn a_folder_not_made_by_wine_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("wine/own");
    fs::create_dir_all(&own).expect("a folder");
    let refused = prefix(folder.path(), false);
    assert!(!refused.status.success() && own.exists(), "{refused:?}");
    assert_eq!(calls(folder.path()), "");
}
