//! Executable files that a test writes and runs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file that everybody may run.
///
/// The kernel refuses to run a file that some process has open for writing (`ETXTBSY`), and a child
/// that another test starts inherits every open file until it executes its own program. So a
/// process of its own writes the file; this one never has it open.
pub(crate) fn write(path: &Path, contents: &[u8]) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = command.spawn().expect("there is a shell");
    let mut input = writer.stdin.take().expect("it is piped");
    input.write_all(contents).expect("the writer reads everything");
    drop(input);
    assert!(writer.wait().expect("it is our child").success(), "{}", path.display());
}
