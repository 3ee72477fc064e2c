//! `pagewise import`: malloc lab files and raw logs become traces; anything else is refused in one
//! line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pagewise::trace::{self, Event};

fn import(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .current_dir(directory)
        .arg("import")
        .args(arguments)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_malloc_lab_file_becomes_a_trace() {
    let place = tempfile::tempdir().unwrap();
    let text = "20000\r\n2\r\n9\r\n1\r\na 0 512\r\na 1 128\r\nr 0 640\r\nf -1\r\nf 1\r\n";
    fs::write(place.path().join("short1.rep"), text).unwrap();
    let output = import(place.path(), &["short1.rep", "-o", "short1.pwt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("its header claims 9 operations, but it has 5"));
    let reader = trace::open(place.path().join("short1.pwt")).unwrap();
    assert_eq!(reader.header().origin.program, "short1");
    let events: Vec<Event> = reader.map(|event| event.unwrap()).collect();
    let expected = [
        Event::Allocate { slot: 0, size: 512, align: 16 },
        Event::Allocate { slot: 1, size: 128, align: 16 },
        Event::Reallocate { slot: 0, size: 640 },
        Event::Free { slot: 1 },
    ];
    assert_eq!(events, expected);
}

/// (Regression: whatever the file's name, the note had `.rep` instead of its ending.)
#[test]
fn the_note_names_the_file_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("short.txt"), "a 0 512\nf 0\n").unwrap();
    let note = || trace::open(place.path().join("out.pwt")).unwrap().header().origin.note.clone();
    let output = import(place.path(), &["short.txt", "-o", "out.pwt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(note(), "imported from the malloc lab file short.txt");
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .current_dir(place.path())
        .args(["import", "-", "-o", "out.pwt"])
        .stdin(fs::File::open(place.path().join("short.txt")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(note(), "imported from a malloc lab file");
}

#[test]
fn invalid_imports_are_refused_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(place.path().join(name), content).unwrap();
    write("twice.rep", b"1\n2\na 0 1\na 0 1\n");
    write("huge.rep", b"a 0 18446744073709551615\n");
    write("binary", &[0, 1, 2, 200, 7]);
    write("empty", b"");
    write("sum.rep", b"a 0 9223372036854775807\na 1 1\n");
    // The first word of a log's head, its version, and the rest of it, or a part.
    let head = |version: u32, len: usize| {
        let mut head = vec![0; len];
        let magic = u64::from_be_bytes(*b"PWLOG\r\n\x1a");
        head[..8].copy_from_slice(&magic.to_ne_bytes());
        head[8..12].copy_from_slice(&version.to_ne_bytes());
        head
    };
    write("newer", &head(99, 1 << 16));
    write("short", &head(4, 1000));
    write("width", &head(4, 1 << 16));
    let size = "more than 2^63 - 1 bytes would be live with a block of";
    for (arguments, message) in [
        (&["twice.rep"][..], "twice.rep:4: block 0 is already allocated"),
        (&["huge.rep"], &format!("huge.rep:1: event 0: {size} 18446744073709551615 B")),
        (&["sum.rep"], &format!("sum.rep:2: event 1: {size} 1 B")),
        (&["newer"], "newer: bad header: the log is of another version of pagewise"),
        (&["short"], "short: the file ends too early"),
        (&["width"], "width: bad header: pointers have neither 32 nor 64 bits"),
        (&["binary"], "binary: neither a malloc lab file nor a raw log"),
        (&["empty"], "empty: neither a malloc lab file nor a raw log"),
        (&["nosuch"], "nosuch: No such file or directory"),
        (&["--format", "raw", "twice.rep"], "twice.rep: not a raw log"),
        (&["--format", "rep", "binary"], "binary:1: not a line of a malloc lab file"),
    ] {
        let output = import(place.path(), &[arguments, &["-o", "out.pwt"]].concat());
        let text = stderr(&output);
        assert!(text.starts_with(&format!("pagewise: {message}")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(output.status.code(), Some(1));
    }
    // Found before the input is read.
    let output = import(place.path(), &["nosuch", "-o", "/no/such/out.pwt"]);
    assert!(stderr(&output).starts_with("pagewise: /no/such/out.pwt cannot be written: "));
    // No files other than the test's own.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 8);
}

/// Regression: they were copied, up to the limit on memory, before they were looked at.
#[test]
fn an_endless_input_is_refused_by_its_start() {
    let place = tempfile::tempdir().unwrap();
    for (options, message) in [
        (&[][..], "neither a malloc lab file nor a raw log"),
        (&["--format", "raw"], "not a raw log"),
        (&["--format", "rep"], "not a line of a malloc lab file"),
    ] {
        let arguments = [&["/dev/zero", "-o", "out.pwt", "--memory", "64M"], options].concat();
        let output = import(place.path(), &arguments);
        let told = stderr(&output);
        assert!(told.starts_with("pagewise: /dev/zero:") && told.contains(message), "{told}");
        assert_eq!(output.status.code(), Some(1));
    }
    // `yes` writes without end; the second line has a fault.
    let mut yes = Command::new("yes").arg("a 0 1").stdout(Stdio::piped()).spawn().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .current_dir(place.path())
        .args(["import", "-", "-o", "out.pwt", "--memory", "64M"])
        .stdin(yes.stdout.take().unwrap())
        .output()
        .unwrap();
    yes.kill().and_then(|()| yes.wait()).unwrap();
    let told = stderr(&output);
    assert!(told.starts_with("pagewise: standard input:2: block 0 is already alloc"), "{told}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

/// A program's raw log, as a recorder without `pagewise record` leaves it.
#[cfg(target_os = "linux")]
#[test]
fn a_raw_log_becomes_a_trace() {
    let place = tempfile::tempdir().unwrap();
    let logs = place.path().join("logs");
    fs::create_dir(&logs).unwrap();
    // `pagewise record` is the easiest way to get the recorder.
    let cache = place.path().join("cache");
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .current_dir(place.path())
        .args(["record", "-o", "first.pwt", "--", "ls"])
        .env("XDG_CACHE_HOME", &cache)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let recorder = fs::read_dir(cache.join("pagewise")).unwrap().next().unwrap().unwrap().path();
    let status = Command::new("ls")
        .arg("/")
        .env("LD_PRELOAD", recorder)
        .env("PAGEWISE_RECORD_DIR", &logs)
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let log = fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let log = log.to_str().unwrap();
    let output = import(place.path(), &[log, "-o", "ls.pwt", "--note", "the root"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let reader = trace::open(place.path().join("ls.pwt")).unwrap();
    let origin = reader.header().origin.clone();
    assert_eq!((origin.program.as_str(), origin.note.as_str()), ("ls", "the root"));
    assert_eq!(origin.arguments, ["/"]);
    assert!(reader.collect::<Result<Vec<_>, _>>().unwrap().len() > 10);

    // A sparse file of a terabyte takes no space; reading it to its end took minutes.
    fs::copy(log, place.path().join("sparse")).unwrap();
    let sparse = fs::File::options().write(true).open(place.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let output = import(place.path(), &["sparse", "-o", "sparse.pwt"]);
    let told = stderr(&output);
    assert!(output.status.success() && told.contains("64 MiB of the log were never"), "{told}");
    let header = trace::open(place.path().join("sparse.pwt")).unwrap().header().clone();
    assert!(header.events > 10 && header.recorded_events == trace::Header::UNKNOWN);

    let bytes = fs::read(log).unwrap();
    fs::write(place.path().join("cut"), &bytes[..1000]).unwrap();
    let output = import(place.path(), &["--format", "raw", "cut", "-o", "out.pwt"]);
    assert!(stderr(&output).contains("cut: the file ends too early"), "{}", stderr(&output));
}
