//! Tests that no static which every slow path reads shares a cache line with one that is written:
//! every static of the allocator must be in cache lines or OS pages of its own, or be listed here
//! as an exception.

use std::fs;
use std::path::Path;

use crate::global::native::base::apart::Apart;
use crate::global::native::memory::space::SPACE;

/// Exceptions that are written once, at the start, and that few code paths read, or that are far
/// longer than a line.
const WRITTEN_ONCE: &[&str] = &["DONE", "STANDARD_ERROR", "LEN"];

/// Exceptions that are never written; or only when the process ends or forks, or makes a background
/// thread; or that are thread-local.
const NEVER_WRITTEN: &[&str] = &[
    "EMPTY",
    "CLASS",
    "DEFAULT",
    "THREAD",
    "FORKED",
    "LISTS",
    "TABLE",
    "LOOKED",
    "ALLOCATE",
    "FREE",
    "REALLOCATE",
];

/// Calls `visit` with the name and type of each static in the Rust files of a folder, without those
/// in tests.
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
fn every_static_is_apart_or_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/global/native");
    let exceptions = [WRITTEN_ONCE, NEVER_WRITTEN].concat();
    let (mut apart, mut unmet) = (0, exceptions.clone());
    for_each_static(&folder, &mut |name, of| {
        let exempt = exceptions.contains(&name);
        unmet.retain(|exception| *exception != name);
        let is_apart = of.starts_with("Apart<") || of.starts_with("Sealed<");
        assert!(is_apart != exempt, "{name}: {of} is to be apart, or to be named here");
        apart += u32::from(is_apart);
    });
    assert!(apart > 10, "the statics are found: {apart}");
    assert_eq!(unmet, [""; 0], "these are no statics any more");
    assert_eq!((align_of::<Apart<u8>>(), size_of::<Apart<u8>>()), (128, 128));
    assert_eq!((&raw const SPACE).addr() % 128, 0);
}
