//! That no static which is read on every slow path lies in a cache line with one that is written: of every static
//! of the allocator, that it lies apart or in OS pages of its own, or why it need not.

use std::fs;
use std::path::Path;

use super::apart::Apart;
use super::space::SPACE;

/// Statics that are not apart. Written once, at the start, and read by few or far longer than a line:
const WRITTEN_ONCE: &[&str] = &["KEY", "DONE", "STOPS", "STANDARD_ERROR", "LEN"];

/// … never written, or when the process ends or forks, or when a thread of the allocator's own is made; or each
/// thread has its own:
const NEVER_WRITTEN: &[&str] = &[
    "EMPTY",
    "CLASS",
    "DEFAULT",
    "CLOSE",
    "BEFORE",
    "INSTALLED",
    "HANDLING",
    "THREAD",
    "FORKED",
    "LISTS",
    "TABLE",
    "LOOKED",
];

/// Calls `visit` with the name and the type of each static that the Rust files of a folder declare.
fn for_each_static(folder: &Path, visit: &mut dyn FnMut(&str, &str)) {
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            for_each_static(&path, visit);
            continue;
        }
        let text = fs::read_to_string(&path).expect("the file is text");
        let text = text.split("\nmod tests {").next().unwrap_or_default();
        for line in
            text.lines().map(str::trim_start).filter(|line| line.ends_with([';', '{', '=', '(']))
        {
            let words: Vec<&str> = line.splitn(4, "static ").collect();
            if let [before, declared] = words[..]
                && (before.is_empty() || before.starts_with("pub"))
                && let Some((name, of)) = declared.split_once(": ")
                && of.contains(" =")
            {
                visit(name, of);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads the sources")]
fn what_is_written_lies_apart_from_what_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/global/native");
    let mut apart = 0;
    for_each_static(&folder, &mut |name, of| {
        let exempt = [WRITTEN_ONCE, NEVER_WRITTEN].concat().contains(&name);
        let is_apart = of.starts_with("Apart<") || of.starts_with("Sealed<");
        assert!(is_apart != exempt, "{name}: {of} is to be apart, or to be named here");
        apart += u32::from(is_apart);
    });
    assert!(apart > 10, "the statics are found: {apart}");
    assert_eq!((align_of::<Apart<u8>>(), size_of::<Apart<u8>>()), (128, 128));
    assert_eq!((&raw const SPACE).addr() % 128, 0);
}
