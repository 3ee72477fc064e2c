//! Traces made to harm their readers: small files with huge numbers of events or blocks, false
//! headers, and texts with terminal control sequences. Each is refused in one line, quickly, and
//! with little memory.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Workbench, pagewise};
use pagewise::trace::stacks::{Frame, Line, Node};
use pagewise::trace::{Event, Origin, Stacks, Writer};

/// An allocation of 16 bytes, and the free of the previous block, as encoded.
const ALLOCATE: u8 = 16 << 2 | 2;
const FREE: u8 = 1;

/// Texts of the header: program, note, one argument.
const PLAIN: [&str; 3] = ["evil", "", "-x"];

/// Makes a trace of `frames` frames, each with a mebibyte of this content, whose header claims
/// these numbers of events, live blocks and live bytes.
fn forge(content: &[u8], frames: usize, figures: [u64; 3], texts: [&str; 3]) -> Vec<u8> {
    let [events, blocks, bytes] = figures;
    let mut file = b"\x89PWT\r\n\x1a\n\x01\x00\x40\x00\0\0\0\0".to_vec();
    for figure in [events, events, blocks, bytes] {
        file.extend(figure.to_le_bytes());
    }
    file.extend([1_u32, 1].map(u32::to_le_bytes).concat());
    file.extend(0_u64.to_le_bytes());
    for text in texts {
        file.extend((text.len() as u32).to_le_bytes());
        file.extend(text.as_bytes());
    }
    let length = file.len() as u32 + 4;
    file[12..16].copy_from_slice(&length.to_le_bytes());
    file.extend(crc32fast::hash(&file).to_le_bytes());

    let content = content.repeat((1 << 20) / content.len());
    let mut stream = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    stream.write_all(&content).unwrap();
    let stream = stream.finish().unwrap();
    let mut frame = (stream.len() as u32).to_le_bytes().to_vec();
    frame.extend((content.len() as u32).to_le_bytes());
    frame.extend(stream);
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    file.extend(frame.repeat(frames));
    file
}

/// Every command that reads a trace refuses this one in one line, within a few seconds and 1 GiB.
#[track_caller]
fn refused(path: &str, options: &[&str], part: &str) {
    let commands: [&[&str]; 6] = [
        &["info"],
        &["compare", "--json", "--strategy", "MRU"],
        &["replay", "--strategy", "MRU"],
        &["simulate", "--json", "--strategy", "MRU"],
        &["report", "--json", "--strategy", "MRU"],
        &["tune", "--for", "speed", "--against", "none", "--candidates", "8", "--json"],
    ];
    for command in commands {
        // `ulimit -v`, in KiB, makes a command that takes more memory fail with another message;
        // `-t` kills one that takes more seconds of processor time.
        let output = Command::new("sh")
            .args([
                "-c",
                "ulimit -v 80000000; ulimit -t 60; exec \"$0\" \"$@\"",
                env!("CARGO_BIN_EXE_pagewise"),
            ])
            .args(command)
            .args(options)
            .arg(path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{command:?}: {text}");
        assert!(text.starts_with("pagewise: ") && text.contains(part), "{command:?}: {text}");
        assert!(text.contains(path), "{command:?}: {text}");
    }
}

#[test]
fn more_live_blocks_than_memory_allows() {
    // 280 KB; following it once took 13 GiB and a minute.
    let bench = Workbench::new();
    let events = 256 << 20;
    let file = forge(&[ALLOCATE], 256, [events, events, 16 * events], PLAIN);
    assert!(file.len() < 300_000);
    let path = bench.write("blocks.pwt", file);
    refused(
        &path,
        &["--memory", "4G"],
        "268,435,456 live blocks would take 40.0 GiB, but --memory",
    );
}

#[test]
fn more_events_than_the_limit() {
    let bench = Workbench::new();
    let events = 8 << 20;
    let file = forge(&[ALLOCATE, FREE], 8, [events, 1, 16], PLAIN);
    let path = bench.write("events.pwt", file);
    refused(&path, &["--most-events", "1000000"], "8,388,608 events, but --most-events allows");
}

#[test]
fn false_claims_are_detected() {
    let bench = Workbench::new();
    // Claims fewer live blocks than there are: detected at the second event, not at the end.
    let few = forge(&[ALLOCATE], 2, [2 << 20, 1, 16], PLAIN);
    refused(
        &bench.write("few.pwt", few),
        &[],
        "claims 1 live blocks at most, but the events have 2",
    );
    let many = forge(&[ALLOCATE], 1, [1 << 40, 1, 16], PLAIN);
    refused(&bench.write("many.pwt", many), &[], "more events than the file can hold");
    let odd = forge(&[ALLOCATE], 1, [1 << 20, 1 << 28, 16], PLAIN);
    refused(&bench.write("odd.pwt", odd), &[], "more live blocks than its events can make");
}

#[test]
fn more_bytes_than_memory_allows_are_not_replayed() {
    let bench = Workbench::new();
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    for _ in 0..1000 {
        writer.write(Event::Allocate { slot: 0, size: 1 << 40, align: 16 }).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
    }
    writer.finish().unwrap();
    let path = bench.write("bytes.pwt", file.into_inner());
    for command in ["replay", "compare", "simulate"] {
        let run = pagewise(&[command, &path, "--strategy", "MRU"]);
        assert_eq!(run.status, 1, "{command}: {}", run.stderr);
        assert!(run.stderr.contains("a replay would take 1.0 TiB, but --memory"), "{}", run.stderr);
    }
    // A lower limit on the command line is enforced.
    pagewise(&["info", &path, "--most-events", "10000000"]).fails(1, "is too much work");
}

/// NOFREE needs memory for every block of the trace, not only for those live at one time.
#[test]
fn a_strategy_that_reuses_no_blocks_gets_no_more_than_memory_allows() {
    let bench = Workbench::new();
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    for _ in 0..100_000 {
        writer.write(Event::Allocate { slot: 0, size: 1000, align: 16 }).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
    }
    writer.finish().unwrap();
    let path = bench.write("again.pwt", file.into_inner());
    let replay =
        |strategy, memory| pagewise(&["replay", &path, "--strategy", strategy, "--memory", memory]);
    replay("NOFREE", "16M").fails(1, "block of 1000 bytes); it gets no more than --memory");
    replay("NOFREE", "1G").succeeds();
    replay("QUICK", "16M").succeeds();
    replay("MRU", "16M").succeeds();
    // The others have results.
    let row = ["compare", &path, "--json", "--repeat", "1", "--strategy", "NOFREE,MRU"];
    let rows = pagewise(&[&row[..], &["--memory", "16M"]].concat()).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    let stopped: Vec<_> = rows.iter().filter(|row| !row["stopped"].is_null()).collect();
    assert!(rows.len() > 1 && stopped.len() == 1, "{rows:?}");
    assert_eq!(stopped[0]["strategy"], "NOFREE");
}

#[test]
fn distinct_sizes_count_as_memory() {
    let bench = Workbench::new();
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file, Origin::default()).unwrap();
    for size in 0..40_000 {
        writer.write(Event::Allocate { slot: 0, size: 8 * size, align: 16 }).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
    }
    writer.finish().unwrap();
    let path = bench.write("sizes.pwt", file.into_inner());
    pagewise(&["info", &path, "--memory", "1M"]).fails(1, "distinct sizes would take 1.0 MiB");
    pagewise(&["info", &path, "--memory", "16M"]).succeeds();
}

/// Returns a trace with a chain of callers of this depth. Each of them allocates a block.
fn chain(depth: u32, name: &str) -> Vec<u8> {
    chain_of_blocks(depth, name, 8)
}

fn chain_of_blocks(depth: u32, name: &str, size: u64) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::with_stacks(&mut file, Origin::default()).unwrap();
    for site in 1..=depth {
        writer.write_at(Event::Allocate { slot: 0, size, align: 16 }, site).unwrap();
        writer.write(Event::Free { slot: 0 }).unwrap();
    }
    let line = Line { function: 0, file: None, line: 0 };
    let stacks = Stacks {
        names: vec![name.to_owned()],
        frames: vec![Frame { module: None, address: 7, lines: vec![line] }],
        nodes: (0..depth).map(|parent| Node { parent, frame: 0 }).collect(),
        ..Stacks::default()
    };
    writer.finish_with(0, &stacks).unwrap();
    file.into_inner()
}

#[test]
fn stacks_without_end() {
    let bench = Workbench::new();
    // The sites have five thousand million callers together.
    let file = chain(100_000, "f");
    assert!(file.len() < 4_000, "{}", file.len());
    let deep = bench.write("deep.pwt", file);
    let wide = bench.write("wide.pwt", chain(3_000, &"f".repeat(1 << 20)));
    let uses: [&[&str]; 5] = [
        &["who"],
        &["who", "--by", "stack"],
        &["who", "--folded"],
        &["who", "--pprof", "/dev/null"],
        &["report", "--json", "--strategy", "MRU"],
    ];
    for command in uses {
        let told = [command, &[&*deep][..]].concat();
        pagewise(&told).fails(1, "naming the callers of 100,000 sites is too much work");
        let told = [command, &["--memory", "1G", &*wide][..]].concat();
        let run = pagewise(&told);
        assert_eq!((run.status, run.stderr.lines().count()), (1, 1), "{command:?}: {}", run.stderr);
    }
    // As deep as is recorded.
    pagewise(&["who", &bench.write("fair.pwt", chain(257, "f"))]).succeeds();
    let some = bench.write("some.pwt", chain(2_000, "f"));
    pagewise(&["who", "--by", "stack", "--memory", "100M", &some])
        .fails(1, "the call stacks would take");
    pagewise(&["who", "--folded", "--of", "allocated", "--memory", "1M", &some])
        .fails(1, "the call stacks would take");
}

#[test]
fn more_bytes_in_all_than_a_number_holds() {
    let bench = Workbench::new();
    let path = bench.write("sum.pwt", chain_of_blocks(3, "f", i64::MAX as u64));
    let json = pagewise(&["who", "--json", &path]).succeeds();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["total"]["allocated_bytes"], u64::MAX);
    assert_eq!(json["groups"][0]["allocated_bytes"], u64::MAX);
    let folded = pagewise(&["who", "--folded", "--of", "allocated", &path]).succeeds();
    assert_eq!(folded.lines().last(), Some("f;f;f 9223372036854775807"));
    // Sites of the same names are one line.
    let same = bench.write("same.pwt", chain_of_blocks(3, "", i64::MAX as u64));
    pagewise(&["who", "--by", "stack", "--of", "allocated", &same]).succeeds();
    pagewise(&["who", &path]).succeeds();
}

/// Returns whether a text contains control characters other than line ends.
fn has_control_characters(text: &str) -> bool {
    text.chars().any(|c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c))
}

#[test]
fn control_characters_are_escaped() {
    let texts =
        ["\u{1b}]0;owned\u{7}\0prog", "note\u{202e}txt\u{9b}31m\r\n| a | <b>", "\u{1b}[2J\t\n"];
    let file = forge(&[ALLOCATE, FREE], 1, [1 << 20, 1, 16], texts);
    let bench = Workbench::new();
    let path = bench.write("a\u{202e}\u{1b}[31m|b\u{7}.pwt", file);
    for options in [&[][..], &["--json"], &["--markdown"]] {
        let text = pagewise(&[&["info", &path], options].concat()).succeeds();
        assert!(!has_control_characters(&text), "{text:?}");
    }
    let text = pagewise(&["info", &path]).succeeds();
    assert!(text.contains(r"\u{1b}]0;owned\u{7}\u{0}prog"), "{text}");
    let json = pagewise(&["info", &path, "--json"]).succeeds();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["program"], texts[0]);
    assert_eq!(json[0]["note"], texts[1]);

    let strategy = ["--strategy", "MRU"];
    let text = pagewise(&[
        "compare",
        &path,
        "--repeat",
        "1",
        "--plot",
        &bench.path("p.svg"),
        strategy[0],
        strategy[1],
    ]);
    assert!(!has_control_characters(&text.succeeds()));
    pagewise(&["report", &path, "-o", &bench.path("r.html"), strategy[0], strategy[1]]).succeeds();
    for file in ["p.svg", "r.html"] {
        assert!(!has_control_characters(&fs::read_to_string(bench.path(file)).unwrap()), "{file}");
    }
    // An error shows the file name, escaped.
    let error = pagewise(&["info", &bench.path("\u{1b}[31m\n.pwt")]);
    assert_eq!(error.stderr.lines().count(), 1);
    assert!(!has_control_characters(&error.stderr), "{:?}", error.stderr);
}

#[test]
fn a_trace_comes_from_standard_input_or_a_pipe() {
    let bench = Workbench::new();
    let whole =
        pagewise(&["info", &bench.trace(), "--json"]).succeeds().replace("\"small\",", "NAME,");
    let piped = |line: &str| {
        let output = Command::new("sh")
            .args(["-c", line, env!("CARGO_BIN_EXE_pagewise"), &bench.trace()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for line in ["cat \"$1\" | \"$0\" info --json -", "\"$0\" info --json - < \"$1\""] {
        assert_eq!(piped(line).replace("\"standard input\",", "NAME,"), whole);
    }
    // These read the trace repeatedly, also in child processes.
    let rows = piped("cat \"$1\" | \"$0\" compare --json --repeat 1 --strategy MRU,SYSTEM -");
    assert_eq!(rows.matches("\"trace\": \"standard input\"").count(), 2, "{rows}");
    let page = piped("cat \"$1\" | \"$0\" report --strategy MRU,SYSTEM -o - -");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    let bad = piped("echo nothing | \"$0\" info - 2>&1 || true");
    assert!(bad.starts_with("pagewise: standard input: not a pagewise trace"), "{bad}");
    let endless = pagewise(&["info", "/dev/zero"]);
    endless.fails(1, "/dev/zero: not a pagewise trace");
}

#[test]
fn files_go_to_standard_output() {
    let bench = Workbench::new();
    let made = |output: &str, to: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_pagewise"))
            .args(["generate", "--distribution", &bench.path("sizes.csv"), "--seconds", "5", "-o"])
            .arg(output)
            .stdout(to)
            .output()
            .unwrap()
    };
    let whole = fs::read(bench.trace()).unwrap();
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert_eq!(made(name, Stdio::piped()).stdout.len(), whole.len(), "{name}");
        // If stdout is a file, it is written to, not replaced.
        let file = fs::File::create(bench.path("sent.pwt")).unwrap();
        assert!(made(name, file.into()).status.success());
        assert_eq!(fs::read(bench.path("sent.pwt")).unwrap().len(), whole.len(), "{name}");
    }
    let plot =
        pagewise(&["compare", &bench.trace(), "--repeat", "1", "--strategy", "MRU", "--plot", "-"]);
    assert!(plot.stderr.contains("MRU"), "{}", plot.stderr);
    assert!(plot.succeeds().starts_with("<svg"));
    let both = ["tune", &bench.trace(), "--for", "speed", "-o", "-", "--plot", "/dev/stdout"];
    pagewise(&both).fails(2, "only one file can be standard output");
}

#[test]
fn an_output_that_fails_is_one_line() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let commands: [&[&str]; 7] = [
        &["info", &trace],
        &["info", &trace, "--json"],
        &["strategies"],
        &["--help"],
        &["replay", "--strategy", "MRU", &trace],
        &["compare", "--repeat", "1", "--strategy", "MRU", &trace],
        &["generate", "--distribution", "cambridg-like", "--seconds", "1", "-o", "-"],
    ];
    for command in commands {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_pagewise")).args(command).stdout(full).output();
        let run = run.unwrap();
        let text = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{command:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{command:?}: {text}");
        assert!(text.contains("standard output cannot be written: No space left"), "{text}");
    }
    // If writing to stderr fails as well, there is no panic, and the status is the same.
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    let status = command.args(["info", &trace]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
