//! `pagewise record` on real programs: their output is unchanged, and their allocations are
//! recorded completely and in order.
#![cfg(target_os = "linux")]

#[path = "../../tests/executable/mod.rs"]
mod executable;
#[path = "common/interruptible.rs"]
mod interruptible;
#[path = "common/place.rs"]
mod place;
mod scenario;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use interruptible::interruptible;
use pagewise::trace::{self, Event, Header};
use place::Place;

impl Place {
    /// Returns `pagewise record`, run in this place.
    fn record(&self, options: &[&str]) -> Command {
        let mut command = self.pagewise(&["record"]);
        command.args(options).arg("--");
        command
    }

    /// Records a scenario of this test program; returns its trace.
    fn record_scenario(&self, name: &str) -> (Header, Vec<Event>, Output) {
        let mut command = self.record(&["-o", "trace.pwt"]);
        let output = scenario::start(&mut command, name).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let (header, events) = read(&self.path("trace.pwt"));
        (header, events, output)
    }

    /// Returns the names of the files here, except the cache; the temporary directory must be
    /// empty.
    fn files(&self) -> Vec<String> {
        let names = |path: &Path| {
            let entries = fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let left: Vec<String> = names(&self.path("tmp"));
        assert!(left.is_empty(), "{left:?}");
        let mut names: Vec<String> = names(self.root());
        names.retain(|name| !["cache", "tmp"].contains(&name.as_str()));
        names.sort();
        names
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn read(path: &Path) -> (Header, Vec<Event>) {
    let reader = trace::open(path).unwrap();
    let header = reader.header().clone();
    (header, reader.map(|event| event.unwrap()).collect())
}

/// Returns whether a program is installed.
fn present(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Not a test: plays the scenario it is started for.
#[test]
fn scenarios() {
    scenario::play();
}

/// Real programs and pipelines, each with the program it needs.
const COMMANDS: &[(&str, &str)] = &[
    ("sh", "echo one; echo two >&2; (exit 3) || echo $?; ls / | sort -r | head -3; exit 7"),
    (
        "perl",
        "perl -e 'my %h; $h{$_ % 997} .= $_ for 1..20000; print map { \"$_ $h{$_}\\n\" } sort keys %h; warn \"bye\\n\"; exit 5'",
    ),
    (
        "perl",
        "perl -e 'for my $i (1..5) { my $p = fork; if (!$p) { my @a = (1..1000); exit $i } waitpid $p, 0; print $? >> 8, \"\\n\" } print `echo sub`; exec \"echo\", \"end\"'",
    ),
    (
        "python3",
        "python3 -c 'import json, subprocess, threading; t = [threading.Thread(target=lambda: json.loads(json.dumps(list(range(20000))))) for _ in range(4)]; [x.start() for x in t]; [x.join() for x in t]; print(subprocess.run([\"echo\", \"hi\"], capture_output=True).stdout); import sys; sys.exit(4)'",
    ),
    (
        "tclsh",
        "echo 'for {set i 0} {$i < 20000} {incr i} { lappend l [expr {$i * $i}] }; puts [llength $l]; puts [exec echo sub]; exit 6' | tclsh",
    ),
    (
        "gawk",
        "ls -R /usr/share/doc 2>/dev/null | head -20000 | gawk '{ n[length($0)]++ } END { for (i = 0; i < 99; i++) print i, n[i] }'",
    ),
    ("jq", "echo '[1,2,{\"a\":[3,4]}]' | jq -c '[.. | numbers] | add'"),
    (
        "sqlite3",
        "sqlite3 :memory: 'create table t(x); insert into t values (1), (2); select sum(x) from t; select nosuch;' 2>&1",
    ),
];

#[test]
fn recording_does_not_change_a_programs_output() {
    for (program, line) in COMMANDS.iter().filter(|(program, _)| present(program)) {
        let place = Place::new();
        // Both outputs merged, so that pagewise's own messages are separate.
        let line = format!("exec 2>&1; {line}");
        let plain = Command::new("sh").args(["-c", &line]).output().unwrap();
        let recorded =
            place.record(&["-o", "trace.pwt"]).args(["sh", "-c", &line]).output().unwrap();
        let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text(&recorded), text(&plain), "{program}");
        assert_eq!(recorded.status.code(), plain.status.code(), "{program}");
        let (header, events) = read(&place.path("trace.pwt"));
        assert_eq!(header.events, events.len() as u64);
        assert!(!events.is_empty());
        assert_eq!(place.files(), ["trace.pwt"]);
    }
}

/// PHP opens its extensions with RTLD_DEEPBIND; their allocations and frees are recorded as well.
#[test]
fn a_library_bound_to_itself_is_recorded() {
    if !present("php") {
        return;
    }
    let place = Place::new();
    let script = r#"echo strlen(iconv("UTF-8", "UTF-16", str_repeat("pagewise", 1000)));"#;
    let recorded = place.record(&["-o", "trace.pwt"]).args(["php", "-r", script]).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert!(!stderr(&recorded).contains("missing frees"), "{}", stderr(&recorded));
}

#[test]
fn errors_and_files_of_a_program_stay_as_they_are() {
    let place = Place::new();
    let mut plain = Command::new("env");
    let plain = scenario::start(&mut plain, "seen").output().unwrap();
    let (_, _, recorded) = place.record_scenario("seen");
    assert!(plain.status.success());
    assert_eq!(
        scenario::said(&String::from_utf8_lossy(&recorded.stdout)),
        scenario::said(&String::from_utf8_lossy(&plain.stdout))
    );
}

#[test]
fn every_function_is_recorded() {
    let (_, events, _) = Place::new().record_scenario("functions");
    let mut live = std::collections::HashSet::new();
    let mut seen = Vec::new();
    for event in events {
        match event {
            Event::Allocate { slot, size, align } if scenario::is_odd(size) => {
                live.insert(slot);
                seen.push(format!("a {} {align}", size - scenario::ODD));
            }
            Event::Reallocate { slot, size } if live.contains(&slot) => {
                seen.push(format!("r {}", size - scenario::ODD));
            }
            Event::Free { slot } if live.remove(&slot) => seen.push("f".to_owned()),
            _ => {}
        }
    }
    assert_eq!(seen, scenario::FUNCTIONS);
}

#[test]
fn threads_that_pass_blocks_on_are_recorded_in_order() {
    let (header, events, output) = Place::new().record_scenario("storm");
    assert!(header.threads > scenario::THREADS, "{}", header.threads);
    assert!(events.len() > 100_000);
    // A free recorded after its address was reused would be reported.
    for wrong in ["missing", "unknown", "cut short", "without"] {
        assert!(!stderr(&output).contains(wrong), "{}", stderr(&output));
    }
}

#[test]
fn a_trace_tells_when_its_events_happened() {
    let place = Place::new();
    let begin = std::time::Instant::now();
    place.record_scenario("storm");
    let passed = begin.elapsed().as_nanos() as u64;
    let mut reader = trace::open(place.path("trace.pwt")).unwrap();
    let events = reader.by_ref().filter(Result::is_ok).count() as u64;
    let times = reader.take_times().expect("times");
    let samples = times.samples();
    assert!((100..=1024).contains(&samples.len()), "{} samples", samples.len());
    let last = samples[samples.len() - 1];
    assert!(events - last.event < events / 10, "{last:?} of {events} events");
    assert!((1..passed).contains(&last.nanoseconds), "{last:?} of {passed} ns");
    let info = place.pagewise(&["info", "trace.pwt", "--json"]).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info[0]["seconds"].as_f64(), Some(last.nanoseconds as f64 / 1e9));
}

#[test]
fn forked_and_executed_processes_are_recorded_apart() {
    let place = Place::new();
    let mut command = place.record(&["-o", "trace.pwt", "--all"]);
    let output = scenario::start(&mut command, "family").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let logs: Vec<Vec<u64>> = place
        .files()
        .iter()
        .map(|name| {
            let (_, events) = read(&place.path(name));
            let odd = events.iter().filter_map(|event| match event {
                Event::Allocate { size, .. } if scenario::is_odd(*size) => {
                    Some(size - scenario::ODD)
                }
                _ => None,
            });
            odd.collect()
        })
        .collect();
    // The parent, its forked child, and the program that the child executed; the scenario defines
    // the sizes that each requests.
    for expected in [&[0, 0, 9][..], &[1], &[2]] {
        assert_eq!(logs.iter().filter(|log| *log == expected).count(), 1, "{logs:?}");
    }
    let text = stderr(&output);
    assert!(text.contains("process  program"), "{text}");
    // The two blocks that the child inherited and freed.
    assert!(text.contains("2 frees of unknown blocks left out"), "{text}");
}

/// Regression: they had the name of the one that allocates most.
#[test]
fn the_traces_of_all_processes_have_the_command_s_name() {
    let place = Place::new();
    let line = "ls -lR /etc > /dev/null; :";
    let output = place.record(&["--all"]).args(["sh", "-c", line]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.files(), ["sh.1.pwt", "sh.2.pwt"], "{}", stderr(&output));
}

#[test]
fn a_recorded_replay_gives_the_replayed_trace() {
    let place = Place::new();
    let line =
        "my %h; $h{$_ % 1999} .= $_ for 1..30000; my @a = map { [1..$_ % 30] } 1..2000; @a = ();";
    let program: &[&str] =
        if present("perl") { &["perl", "-e", line] } else { &["ls", "-lR", "/etc"] };
    assert!(place.record(&["-o", "first.pwt"]).args(program).output().is_ok());
    let (header, first) = read(&place.path("first.pwt"));
    assert_eq!(header.threads, 1);

    // The parent reads the trace; its forked child performs it and does nothing else, so the
    // child's log contains only that.
    // (Regression: `.2026`, taken for an ending, was lost.)
    let mut command = place.record(&["-o", "second.2026", "--all"]);
    command.env(scenario::TRACE, place.path("first.pwt"));
    let output = scenario::start(&mut command, "perform").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let found = place.files().iter().any(|name| {
        let again = read(&place.path(name)).1 == first;
        again && name.starts_with("second.2026.") && name.ends_with(".pwt")
    });
    assert!(found, "{}", stderr(&output));
}

#[test]
fn a_log_that_cannot_grow_leaves_the_program_alone() {
    let place = Place::new();
    // A limit on the size of files, in blocks of 512 bytes; and one on open files.
    for (limit, name) in [("ulimit -f 1200", "storm"), (":", "starved")] {
        // The limit is for the program, not for pagewise.
        let line = format!("{limit}; exec \"$0\" \"$@\"");
        let mut command = place.record(&["-o", "trace.pwt"]);
        command.args(["sh", "-c", &line]);
        let output = scenario::start(&mut command, name).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("storm is over"), "{name}");
        // The program succeeds, the recording does not.
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("the log could not grow: "), "{}", stderr(&output));
        let (header, _) = read(&place.path("trace.pwt"));
        assert!(header.events > 1000);
        assert_eq!(header.recorded_events, Header::UNKNOWN);
        assert!(header.origin.note.starts_with("cut short: the log could not grow: "));
        let info = Command::new(env!("CARGO_BIN_EXE_pagewise"))
            .arg("info")
            .arg(place.path("trace.pwt"))
            .output()
            .unwrap();
        let info = String::from_utf8(info.stdout).unwrap();
        assert!(info.contains("cut short") && info.contains("unknown number"), "{info}");
    }
}

#[test]
fn a_kept_prefix_is_reported() {
    let place = Place::new();
    let mut command = place.record(&["-o", "trace.pwt", "--max-events", "1000", "--note", "hello"]);
    let output = scenario::start(&mut command, "storm").output().unwrap();
    assert!(output.status.success());
    let (header, events) = read(&place.path("trace.pwt"));
    assert_eq!((events.len(), header.events), (1000, 1000));
    // The log also ended before the program did.
    assert_eq!(header.recorded_events, Header::UNKNOWN);
    assert!(header.is_prefix());
    assert_eq!(header.origin.note, "hello; cut short: the log reached its limit");

    let mut command = place.record(&["-o", "trace.pwt", "--max-bytes", "20K"]);
    let output = scenario::start(&mut command, "storm").output().unwrap();
    assert!(output.status.success());
    let (header, _) = read(&place.path("trace.pwt"));
    assert!(header.is_prefix());
    let length = fs::metadata(place.path("trace.pwt")).unwrap().len();
    assert!((10_000..=20_480).contains(&length), "{length}");
    assert_eq!(place.files(), ["trace.pwt"]);

    // It wrote a longer trace, without an event.
    let note = "x".repeat(5000);
    let mut command = place.record(&["-o", "short.pwt", "--max-bytes", "4K", "--note", &note]);
    let output = scenario::start(&mut command, "storm").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let why = "a trace with its first event takes more than the 4.0 KiB of --max-bytes; the recording \
               is kept: ";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    assert!(!place.path("short.pwt").exists());
}

/// Runs shell lines with folders `large` (4 MiB), `small` (600 KiB), `tiny` (40 KiB) and `full`
/// (4 KiB) on file systems of their own; `None` where that is not allowed.
fn with_small_disks(place: &Place, lines: &str) -> Option<Output> {
    let mount = "for d in large:4m small:600k tiny:40k full:4k; do mkdir -p ${d%:*} && \
                 mount -t tmpfs -o size=${d#*:} tmpfs ${d%:*} || exit 99; done; ";
    fs::create_dir_all(place.path("tmp")).unwrap();
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", &format!("{mount}{lines}"), env!("CARGO_BIN_EXE_pagewise")])
        .current_dir(place.root())
        .env("XDG_CACHE_HOME", place.path("cache"))
        .env("TMPDIR", place.path("tmp"))
        .output()
        .ok()?;
    let allowed = output.status.code() != Some(99) && !stderr(&output).contains("unshare: ");
    allowed.then_some(output)
}

/// A program that allocates tens of thousands of blocks.
const HUNGRY: &str = "gawk 'BEGIN { for (i = 0; i < 60000; i++) n[i] = i \"x\" }'";

#[test]
fn a_full_disk_for_the_log_is_named() {
    let place = Place::new();
    let lines =
        "TMPDIR=$PWD/tiny \"$0\" record -o trace.pwt -- ls / > list; echo $?; cat list | wc -l";
    let Some(output) = with_small_disks(&place, lines) else { return };
    let text = stderr(&output);
    assert!(
        text.starts_with("pagewise: ls left no recording (exited with status 0): no log could")
    );
    assert!(text.contains("/tiny/pagewise-record-") && text.contains("No space left"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.starts_with(b"1\n"));
}

#[test]
fn a_full_disk_truncates_the_log_and_is_reported() {
    let place = Place::new();
    if !present("gawk") {
        return;
    }
    let lines = format!("TMPDIR=$PWD/small \"$0\" record -o trace.pwt -- {HUNGRY}; echo $?");
    let Some(output) = with_small_disks(&place, &lines) else { return };
    assert_eq!(output.stdout, b"1\n");
    assert!(stderr(&output).contains("could not grow: No space left"), "{}", stderr(&output));
    let (header, events) = read(&place.path("trace.pwt"));
    assert!(events.len() > 10_000 && header.recorded_events == Header::UNKNOWN);
}

/// Regression: a program that ran for ever filled the disk.
#[test]
fn without_a_limit_half_of_the_disk_stays_free() {
    let place = Place::new();
    if !present("gawk") {
        return;
    }
    let lines = format!(
        "export TMPDIR=$PWD/large; \"$0\" record -o trace.pwt -- {HUNGRY}; echo $?; ls -A large; \
         \"$0\" record -o whole.pwt --max-log 1G -- {HUNGRY}; echo $?"
    );
    let Some(output) = with_small_disks(&place, &lines) else { return };
    let told = stderr(&output);
    assert_eq!(output.stdout, b"1\n0\n", "{told}");
    let stopped = "pagewise: recording stopped at 2.0 MiB of logs, the default limit; --max-log \
                   BYTES sets another one\n";
    assert!(told.starts_with(stopped) && told.matches(stopped).count() == 1, "{told}");
    let [cut, whole] = ["trace.pwt", "whole.pwt"].map(|name| read(&place.path(name)).0);
    assert!((200_000..whole.events).contains(&cut.events), "{} {}", cut.events, whole.events);
}

#[test]
fn an_output_folder_without_room_loses_nothing() {
    let place = Place::new();
    if !present("gawk") {
        return;
    }
    let lines = format!(
        "\"$0\" record -o full/trace.pwt -- {HUNGRY} 2> told; echo $?; cat told >&2; ls -A full; \
         kept=$(sed -n 's/.*`pagewise import \\(.*\\) -o FILE.pwt`.*/\\1/p' told); \
         \"$0\" import $kept -o trace.pwt && rm -r $(dirname $kept)"
    );
    let Some(output) = with_small_disks(&place, &lines) else { return };
    // Exit status 1, and the folder is empty.
    assert_eq!(output.stdout, b"1\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("full/trace.pwt cannot be written: No space left"));
    assert!(stderr(&output).contains("; the recording is kept: `pagewise import "));
    assert!(read(&place.path("trace.pwt")).0.events > 100_000, "{}", stderr(&output));
}

/// Regression: of a short log the last part of the draft did not fit, and the conversion failed
/// without a word about where there was no space.
#[test]
fn a_full_temporary_folder_is_done_without_or_named() {
    let place = Place::new();
    if !present("gawk") {
        return;
    }
    let fill = "head -c 4096 /dev/zero > full/filled; ";
    let lines = format!(
        "{fill} \"$0\" record -o full/trace.pwt -- gawk 'BEGIN {{ for (;i < 4000; i++) n[i] = i }}' \
         2> told; kept=$(sed -n 's/.*`pagewise import \\(.*\\) -o FILE.pwt`.*/\\1/p' told); \
         export TMPDIR=$PWD/full; \"$0\" import $kept -o trace.pwt; echo $?; \
         rm -r $(dirname $kept); \
         \"$0\" generate --distribution cambridg-like --seconds 9 -o - | cat; ls -A full"
    );
    let Some(output) = with_small_disks(&place, &lines) else { return };
    let told = stderr(&output);
    assert_eq!(output.stdout, b"0\nfilled\n", "{told}");
    assert!(read(&place.path("trace.pwt")).0.events > 4000, "{told}");
    let unspaced = "pagewise: a temporary file for the output cannot be written: No space left";
    assert!(told.lines().nth(1).is_some_and(|line| line.starts_with(unspaced)), "{told}");
}

/// Regression: SIGPIPE ended pagewise, which left the folder of the recording behind and said
/// nothing.
#[test]
fn a_trace_that_nobody_reads_is_not_lost() {
    let place = Place::new();
    let mut command = place.record(&["-o", "-"]);
    let mut child =
        command.arg("ls").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let told = told.lines().last().unwrap_or_default();
    let why = "pagewise: standard output cannot be written: Broken pipe (os error 32); the \
               recording is kept: `pagewise import ";
    let kept = told.strip_prefix(why).and_then(|rest| rest.split(' ').next()).unwrap_or(told);
    assert!(Path::new(kept).is_file(), "{told}");
    fs::remove_dir_all(Path::new(kept).parent().unwrap()).unwrap();
}

#[test]
fn a_recording_stops_at_the_log_s_limit_or_after_a_time() {
    let place = Place::new();
    let record = |options: &[&str]| {
        let mut command = place.record(&[&["-o", "trace.pwt"], options].concat());
        let output = scenario::start(&mut command, "storm").output().unwrap();
        // The program runs to its end.
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("storm is over"));
        (read(&place.path("trace.pwt")).0, stderr(&output))
    };
    let (whole, _) = record(&[]);
    let (cut, told) = record(&["--max-log", "300K"]);
    assert!(told.contains("the log reached its limit: the rest of the run is missing"), "{told}");
    assert!((5_000..30_000).contains(&cut.events), "{}", cut.events);
    assert!(cut.events < whole.events && cut.recorded_events == Header::UNKNOWN);

    let mut command = place.record(&["-o", "trace.pwt", "--duration", "500ms"]);
    let line = "i=0; while [ $i -lt 15 ]; do sleep 0.1; i=$((i + 1)); done; echo over";
    let output = command.args(["sh", "-c", line]).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"over\n"[..]));
    let header = read(&place.path("trace.pwt")).0;
    assert_eq!(header.origin.note, "cut short: the recording was stopped");
    assert_eq!(place.files(), ["trace.pwt"]);
}

#[test]
fn a_trace_on_standard_output_is_not_mixed_with_what_the_command_prints() {
    let place = Place::new();
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let output = place.record(&["-o", name]).args(["sh", "-c", "echo said"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("said\n"), "{}", stderr(&output));
        let reader = trace::Reader::new(&output.stdout[..]).unwrap();
        assert!(reader.header().events > 0);
        assert!(reader.into_iter().all(|event| event.is_ok()));
    }
    refused(
        &place,
        place.record(&["-o", "-", "--all"]).arg("ls"),
        "pagewise: --all writes several files",
    );
    let output = place.record(&["-o", "/dev/full"]).arg("ls").output().unwrap();
    let text = stderr(&output);
    assert!(text.starts_with("pagewise: /dev/full cannot be written: No space left"), "{text}");
    assert!(text.contains("the recording is kept") && text.lines().count() == 1, "{text}");
    fs::remove_dir_all(place.path("tmp")).unwrap();
    fs::create_dir(place.path("tmp")).unwrap();
    assert!(place.files().is_empty());
}

/// `sh` starts two other programs under names that it chooses; the second allocates most.
#[test]
fn another_process_than_the_command_s_is_explained() {
    let place = Place::new();
    let script = "#!/bin/sh\nls / | sort > /dev/null\nls -lR /etc > /dev/null\n";
    executable::write(&place.path("wrapper"), script.as_bytes());
    let line = ["sh", "wrapper"];
    let output = place.record(&["-o", "trace.pwt"]).args(line).output().unwrap();
    let last = |output: &Output| stderr(output).lines().last().unwrap().to_owned();
    let told = last(&output);
    assert!(told.starts_with("pagewise: ls has the most events of "), "{told}");
    let choice = " process images; `--program NAME` writes another one, `--all` all";
    assert!(told.ends_with(choice), "{told}");
    // A script has the name of `sh`.
    let output = place.record(&["-o", "trace.pwt"]).arg("./wrapper").output().unwrap();
    let none = format!("{choice}. None is called wrapper: a script has its interpreter's name, ");
    assert!(last(&output).contains(&none), "{}", stderr(&output));
    // Nothing needs to be explained if the user chose, or if there is no choice.
    for options in [&["--program", "sort"][..], &["--all"]] {
        let output = place.record(&[options, &["-o", "trace.pwt"]].concat()).args(line).output();
        assert!(!stderr(&output.unwrap()).contains("most events"));
    }
    let output = place.record(&["-o", "trace.pwt"]).args(["ls", "/"]).output().unwrap();
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

/// Regression: it was replaced.
#[test]
fn a_file_that_is_no_trace_is_not_replaced_under_a_default_name() {
    let place = Place::new();
    fs::write(place.path("sh.pwt"), "mine").unwrap();
    let begins = "pagewise: sh.pwt is there already, and is not a trace: name a file with -o";
    let refused = |command: &mut Command, begins: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(begins), "{}", stderr(&output));
        stderr(&output)
    };
    let told = refused(place.record(&[]).args(["sh", "-c", "echo run"]), begins);
    assert_eq!(told.lines().count(), 1, "{told}");
    // Which process is written may be known only when it is over.
    fs::write(place.path("ls.pwt"), "mine").unwrap();
    let told = refused(place.record(&[]).args(["env", "ls", "-lR", "/etc"]), "ls.pwt is there");
    assert!(told.contains("; the recording is kept: `pagewise import "), "{told}");
    assert_eq!(fs::read(place.path("ls.pwt")).unwrap(), b"mine");
    fs::remove_dir_all(place.path("tmp")).unwrap();
    fs::create_dir(place.path("tmp")).unwrap();
    // An earlier trace is replaced.
    ["sh.pwt", "ls.pwt"].iter().for_each(|name| fs::remove_file(place.path(name)).unwrap());
    for _ in 0..2 {
        let output = place.record(&["--program", "sh"]).args(["sh", "-c", "ls"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(place.files(), ["sh.pwt"]);
}

/// A program chooses its name, from which that of the trace is made.
#[test]
fn a_name_of_several_lines_is_shown_on_one() {
    let place = Place::new();
    let ls = Command::new("sh").args(["-c", "command -v ls"]).output().unwrap().stdout;
    let name = "x\npagewise: y";
    std::os::unix::fs::symlink(String::from_utf8(ls).unwrap().trim(), place.path(name)).unwrap();
    let output = place.record(&[]).args([&format!("./{name}"), "/nosuch"]).output().unwrap();
    let text = stderr(&output);
    // After what `ls` says itself.
    let told: Vec<_> = text.lines().rev().take(2).collect();
    assert!(told[1].contains(r" to x\npagewise: y.pwt, at most "), "{text}");
    assert_eq!(told[0], r"pagewise: ./x\npagewise: y exited with status 2");
}

/// Reading a pipe waited for its writer, and nothing was run.
#[test]
fn a_control_file_that_is_a_pipe_is_refused() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    let begins = "pagewise: pipe is not a file: --control needs one";
    refused(&place, place.record(&["--control", "pipe"]).arg("ls"), begins);
}

#[test]
fn limits_that_leave_no_event_are_named() {
    let place = Place::new();
    // (Regression: the command was run first, and its recording lost.)
    let run = ["sh", "-c", "echo run"];
    for few in ["0", "64K", "65584"] {
        let begins = format!(
            "pagewise: invalid value '{few}' for '--max-log <BYTES>': a log with an event takes at \
             least 65,585 bytes"
        );
        refused(&place, place.record(&["--max-log", few]).args(run), &begins);
    }
    let begins = "pagewise: invalid value '4095' for '--max-bytes <BYTES>': a trace may need 4 KiB";
    refused(&place, place.record(&["--max-bytes", "4095"]).args(run), begins);
    // (Regression: it recorded for ever.)
    let own = std::process::id().to_string();
    let begins = "pagewise: --max-bytes does not end the recording of a process: add --duration, ";
    refused(&place, &mut place.pagewise(&["record", "--pid", &own, "--max-bytes", "2M"]), begins);
    let begins = "pagewise: invalid value '0' for '--max-events <N>'";
    refused(&place, place.record(&["--max-events", "0"]).arg("ls"), begins);
}

#[test]
fn a_program_is_chosen_by_name() {
    let place = Place::new();
    let line = ["sh", "-c", "ls / | sort > /dev/null"];
    let output = place.record(&["--program", "sort"]).args(line).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(read(&place.path("sort.pwt")).0.origin.program, "sort");
    // (Regression: the recording was lost.)
    let folder = tempfile::tempdir().unwrap();
    let mut command = place.record(&["--program", "nosuch"]);
    let output = command.args(line).env("TMPDIR", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("pagewise: no process called 'nosuch' was recorded, only "), "{text}");
    let log = last.split("`pagewise import ").nth(1).and_then(|rest| rest.split(' ').next());
    let log = log.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(place.files(), ["sort.pwt"]);
    assert!(place.pagewise(&["import", log, "-o", "kept.pwt"]).status().unwrap().success());
    assert!(!read(&place.path("kept.pwt")).1.is_empty());
}

/// Runs `command` and expects a failure with one line on stderr that begins so, and no file.
fn refused(place: &Place, command: &mut Command, begins: &str) {
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert!(text.starts_with(begins), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!output.status.success());
    assert!(place.files().iter().all(|name| !name.ends_with(".pwt")));
}

#[test]
fn unsuitable_programs_are_refused_in_one_line() {
    let place = Place::new();
    refused(
        &place,
        place.record(&[]).arg("nosuch-program"),
        "pagewise: cannot run nosuch-program: ",
    );
    refused(&place, place.record(&[]).arg("/"), "pagewise: cannot run /: ");
    // As shells and `env` have it. (Regression: 1, which may be the program's own.)
    for (program, status) in [("nosuch-program", 127), ("/", 126), ("/dev/null", 126)] {
        let output = place.record(&[]).arg(program).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{program}");
    }
    let unwritable = "pagewise: /no/such/trace.pwt cannot be written: ";
    refused(&place, place.record(&["-o", "/no/such/trace.pwt"]).arg("ls"), unwritable);
    refused(&place, place.record(&["-o", "/"]).arg("ls"), "pagewise: / cannot be written: ");
    refused(&place, &mut place.record(&[]), "pagewise: the following required arguments");
}

#[test]
fn a_static_program_leaves_no_recording() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let place = Place::new();
    executable::write(&place.path("static"), &scenario::static_program());
    let mut command = place.record(&[]);
    command.arg("./static");
    refused(&place, &mut command, "pagewise: ./static left no recording (exited with status 7)");
}

#[test]
fn signals_reach_the_program_and_the_recording_is_kept() {
    let place = Place::new();
    let output = place
        .record(&["-o", "trace.pwt"])
        .args(["sh", "-c", "kill -TERM $PPID; sleep 10 >/dev/null 2>&1; echo late"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("was ended by signal 15"));
    read(&place.path("trace.pwt"));
    assert_eq!(place.files(), ["trace.pwt"]);
}

/// Regression: SIGINT was left to the terminal, which sends it to the command as well; another
/// process, such as `timeout -s INT`, does not.
#[test]
fn a_signal_that_a_process_sends_to_pagewise_alone_reaches_the_program() {
    for (name, status) in [("INT", 130), ("QUIT", 131), ("HUP", 129)] {
        let place = Place::new();
        let line = format!("ulimit -c 0; kill -{name} $PPID; exec sleep 20");
        let mut command = place.record(&["-o", "trace.pwt"]);
        let output = interruptible(&mut command).args(["sh", "-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{name}: {}", stderr(&output));
        read(&place.path("trace.pwt"));
        assert_eq!(place.files(), ["trace.pwt"]);
    }
}

/// Regression: the recording was lost, and the status was that of any error.
#[test]
fn a_conversion_that_is_interrupted_keeps_the_recording() {
    if !present("gawk") {
        return;
    }
    let place = Place::new();
    let mut command = place.record(&["-o", "trace.pwt"]);
    let line = "BEGIN { for (; i < 900000; i++) n[i] = i \"x\"; print PROCINFO[\"pid\"] }";
    let command = interruptible(&mut command).args(["gawk", line]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut gawk = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut gawk).unwrap();
    // Until pagewise has waited for it, the signal would be the command's.
    while Path::new("/proc").join(gawk.trim()).exists() {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(20));
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{told}");
    let kept = told.strip_prefix("pagewise: interrupted; the recording is kept: `pagewise import ");
    let kept = kept.and_then(|rest| rest.split(' ').next()).unwrap_or(&told);
    assert!(Path::new(kept).is_file(), "{told}");
}

/// Regression: no signal but SIGKILL ended pagewise.
#[test]
fn a_second_signal_ends_a_wait_for_a_reader() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let mut command = place.record(&["-o", "pipe"]);
    let mut child = interruptible(&mut command).arg("ls").spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    while child.try_wait().unwrap().is_none() {
        signal(&child, libc::SIGINT);
        thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
}

fn signal(child: &std::process::Child, signal: i32) {
    // SAFETY: sends a signal to our child, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// A service of systemd has SIGPIPE ignored, a command under `nohup` SIGHUP.
#[test]
fn signals_that_are_ignored_or_blocked_stay_so() {
    let place = Place::new();
    let seen = |command: &mut Command| {
        command.args(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        let set = || {
            // SAFETY: the calls may be made between `fork` and `exec`, and the set is initialised
            // before it is used.
            unsafe {
                for signal in [libc::SIGPIPE, libc::SIGHUP, libc::SIGUSR1] {
                    libc::signal(signal, libc::SIG_IGN);
                }
                let mut blocked = std::mem::zeroed();
                libc::sigemptyset(&mut blocked);
                libc::sigaddset(&mut blocked, libc::SIGWINCH);
                libc::sigprocmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut());
            }
            Ok(())
        };
        // SAFETY: the closure does not allocate or take a lock.
        let output = unsafe { command.pre_exec(set) }.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let plain = seen(&mut Command::new("env"));
    assert!(plain.contains("SigBlk:\t0000000008000000"), "{plain}");
    assert_eq!(seen(&mut place.record(&["-o", "trace.pwt"])), plain);
}

/// Beyond the end of the stack the recorder would overwrite the program's memory.
#[test]
fn an_allocation_fits_the_stack_of_a_signal_handler() {
    let place = Place::new();
    for stacks in ["--stacks", "--stacks=256"] {
        let mut command = place.record(&["-o", "trace.pwt", stacks]);
        let output = scenario::start(&mut command, "handler").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let used: usize = scenario::said(&text)[0].parse().unwrap();
        assert!(used < scenario::OF_A_HANDLER, "{used} bytes");
    }
}

/// Processes that outlive the command continue, and create logs while the logs are being removed.
#[test]
fn nothing_is_left_when_processes_outlive_the_command() {
    for _ in 0..4 {
        let place = Place::new();
        let output = place
            .record(&["-o", "trace.pwt"])
            .args(["sh", "-c", "for i in $(seq 300); do sleep 0; done & kill -TERM $PPID; wait"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
        assert_eq!(place.files(), ["trace.pwt"]);
    }
}

#[test]
fn other_preloaded_libraries_are_kept() {
    let place = Place::new();
    let output = place
        .record(&["-o", "trace.pwt"])
        .args(["sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", "libc.so.6")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.trim().ends_with(".so:libc.so.6"), "{text}");
}

#[test]
fn without_a_cache_the_recorder_comes_from_the_temporary_directory() {
    let place = Place::new();
    let output = place
        .record(&["-o", "trace.pwt"])
        .args(["sh", "-c", "echo $LD_PRELOAD"])
        .env("XDG_CACHE_HOME", "/proc/no such")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("pagewise-record-"));
    assert_eq!(place.files(), ["trace.pwt"]);
}
