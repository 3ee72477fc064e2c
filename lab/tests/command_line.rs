//! The command line: help, errors in one line, and closed pipes.

mod common;
#[path = "common/interruptible.rs"]
mod interruptible;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Workbench, pagewise};
use interruptible::interruptible;

#[test]
fn help_teaches_by_examples() {
    for command in ["compare", "replay", "info", "record", "import", "generate", "strategies"] {
        let help = pagewise(&[command, "--help"]).succeeds();
        assert!(help.contains("Example"), "{command}: {help}");
    }
    let help = pagewise(&["--help"]).succeeds();
    assert!(help.contains("Examples:") && !help.contains("  system"), "{help}");
}

/// Asserts that no line is wider than a terminal.
fn fits_a_terminal(of: &[&str], text: &str) {
    assert!(!text.is_empty(), "{of:?}");
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{of:?}: {wide:#?}");
}

#[test]
fn the_usage_of_record_says_that_it_needs_a_command_or_a_process() {
    let help = pagewise(&["record", "--help"]).succeeds();
    let usage = "Usage: pagewise record [OPTIONS] [--] <COMMAND>...\n       \
                 pagewise record [OPTIONS] --pid <PID>\n";
    assert!(help.contains(usage), "{help}");
}

#[test]
fn every_help_fits_80_columns() {
    let help = pagewise(&["--help"]).succeeds();
    fits_a_terminal(&["--help"], &help);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // A description may continue on the line below its command.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(names.len() > 12, "{help}");
    for name in names {
        for option in ["-h", "--help"] {
            fits_a_terminal(&[name, option], &pagewise(&[name, option]).succeeds());
        }
    }
}

#[test]
fn output_of_commands_fits_80_columns() {
    let bench = Workbench::new();
    let (trace, tuned) = (bench.trace(), bench.path("tune.json"));
    let commands: [&[&str]; 9] = [
        &["strategies"],
        &["info", &trace],
        &["compare", &trace, "--strategy", "MRU,PAGEWISE,SYSTEM", "--repeat", "1"],
        &["compare", &trace, &trace, "--strategy", "MRU,BUDDY,SYSTEM", "--repeat", "1"],
        &["replay", &trace, "--strategy", "MRU"],
        &["replay", &trace, "--strategy", "MRU", "--audit"],
        &["simulate", &trace, "--working-set", "10%,25%,50%"],
        &["tables", "head-first", "--table", "2"],
        &["tune", &trace, "--for=memory", "--candidates=12", "--against=none", "-o", &tuned],
    ];
    for command in commands {
        let run = pagewise(command);
        if !run.stderr.is_empty() {
            fits_a_terminal(command, &run.stderr);
        }
        fits_a_terminal(command, &run.succeeds());
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_of_before_the_work() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let tune = ["tune", &trace, "--for", "memory", "--candidates", "8", "--against", "none"];
    let runs: [(&[&str], &str); 6] = [
        (&["compare", &trace, "--strategy", "MRU"], "--plot"),
        (&["simulate", &trace, "--strategy", "MRU"], "--plot"),
        (&["replay", &trace, "--strategy", "MRU"], "--plot"),
        (&tune, "--plot"),
        (&tune, "--output"),
        (&tune, "--emit"),
    ];
    for (command, file) in runs {
        let there = |name| pagewise(&[command, &[file, name]].concat());
        // Only the error: nothing was measured yet.
        there("/no/such/file").fails(1, "/no/such/file cannot be written: No such file");
        there("/").fails(1, "/ cannot be written: it is a directory");
    }
}

/// Regression: the input was replaced.
#[test]
fn an_output_that_is_the_input_is_refused() {
    use std::os::unix::fs::symlink;

    let bench = Workbench::new();
    let (trace, sizes) = (bench.trace(), bench.path("sizes.csv"));
    let (linked, same) = (bench.path("linked.pwt"), bench.path("same.pwt"));
    symlink(&trace, &linked).unwrap();
    std::fs::hard_link(&trace, &same).unwrap();
    let rep = bench.write("x.rep", "a 0 1\nf 0\n");
    let program = bench.write("program", "#!/bin/sh\n");
    let before = std::fs::read(&trace).unwrap();
    let tune = ["tune", &trace, "--for", "memory", "--candidates", "8", "--against", "none"];
    let cases: [(&[&str], &str, &str); 12] = [
        (&["import", &rep], "-o", &rep),
        (&["replay", &trace, "--strategy", "MRU"], "--plot", &trace),
        (&["compare", &trace, "--strategy", "MRU"], "--plot", &trace),
        (&["simulate", &linked, "--strategy", "MRU"], "--plot", &trace),
        (&["simulate", &trace, "--strategy", "MRU"], "--plot", &linked),
        (&["report", &trace], "-o", &same),
        (&["report", &trace, "--tune", &rep], "-o", &rep),
        (&["who", &trace], "--pprof", &trace),
        (&tune, "-o", &trace),
        (&tune, "--emit", &same),
        (&["generate", "--distribution", &sizes, "--seconds", "1"], "-o", &sizes),
        (&["record", &program], "-o", &program),
    ];
    for (command, option, output) in cases {
        let split = command.len() - usize::from(command[0] == "record");
        let all = [&command[..split], &[option, output], &command[split..]].concat();
        let part = if command.contains(&output) { "is both input and" } else { "is the same file" };
        pagewise(&all).fails(2, part);
    }
    // Two outputs, of which the second would replace the first.
    let twice = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args([&tune[..], &["--plot", "./new", "--emit", "new"]].concat())
        .current_dir(bench.directory())
        .output()
        .unwrap();
    let told = String::from_utf8(twice.stderr).unwrap();
    assert_eq!(told, "pagewise: ./new and new, two outputs, are the same file\n");
    assert_eq!(std::fs::read(&trace).unwrap(), before);
    // What is no file can be both.
    let input = File::open("/dev/null").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["import", "--format", "rep", "-", "-o", "/dev/null"])
        .stdin(input)
        .output()
        .unwrap();
    assert!(output.status.success());
}

/// Regression: it was replaced.
#[test]
fn a_file_that_is_no_report_is_not_replaced_under_a_default_name() {
    let bench = Workbench::new();
    let page = bench.write("small.html", "mine");
    let report = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.args(["report", "small.pwt", "--strategy", "MRU"]).current_dir(bench.directory());
        let output = command.output().expect("the binary runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let told = "pagewise: small.html is there already, and is not a report: name a file with -o\n";
    assert_eq!(report(), (Some(2), told.to_owned()));
    assert_eq!(std::fs::read(&page).unwrap(), b"mine");
    std::fs::remove_file(&page).unwrap();
    for _ in 0..2 {
        let (status, told) = report();
        assert_eq!(status, Some(0), "{told}");
    }
}

/// Regression: such a file could not be written, and that was found out after the work.
#[test]
fn a_file_may_have_the_longest_name() {
    let bench = Workbench::new();
    let rep = bench.write("x.rep", "a 0 1\nf 0\n");
    let name = |length: usize| bench.path(&"x".repeat(length));
    pagewise(&["import", &rep, "-o", &name(255)]).succeeds();
    let strategy = ["replay", &bench.trace(), "--strategy", "MRU", "--plot"];
    pagewise(&[&strategy[..], &[&name(256)]].concat()).fails(1, "cannot be written: File name too");
    // A folder that does not exist.
    let folder = format!("{}/", bench.path("new"));
    pagewise(&[&strategy[..], &[&folder]].concat()).fails(1, "cannot be written: it is a dir");
}

#[test]
fn a_file_name_stays_on_one_line() {
    pagewise(&["info", "a\nb.pwt"]).fails(1, r"pagewise: a\nb.pwt: No such file");
    let (bench, name) = (Workbench::new(), "/no\n/such");
    let plot = ["replay", &bench.trace(), "--strategy", "MRU", "--plot", name];
    pagewise(&plot).fails(1, r"pagewise: /no\n/such cannot be written: ");
}

#[test]
fn a_command_that_does_not_exist_is_refused() {
    pagewise(&["compere"]).fails(
        2,
        "subcommand 'compere'; tip: some similar subcommands exist: 'completions', 'compare'",
    );
    // The nearest is a command that only pagewise itself calls.
    pagewise(&["cut"]).fails(2, "unrecognized subcommand 'cut' (see `pagewise --help`)");
    // A trace, where the command was forgotten.
    let bench = Workbench::new();
    let trace = bench.trace();
    pagewise(&[&trace]).fails(2, &format!("a command is missing: `pagewise compare {trace}` "));
    pagewise(&["--frobnicate"]).fails(2, "--frobnicate");
    pagewise(&["replay"]).fails(2, "<TRACE>");
    pagewise(&["info"]).fails(2, "<TRACE>");
    pagewise(&["tables"]).fails(2, "a command is missing (see `pagewise tables --help`)");
}

#[test]
fn an_unknown_strategy_is_refused_with_the_nearest_and_a_way_to_list_all() {
    let bench = Workbench::new();
    let strategy = ["--strategy", "LEST-FREE"];
    for command in ["compare", "replay"] {
        let run = pagewise(&[command, &bench.trace(), strategy[0], strategy[1]]);
        run.fails(2, "unknown strategy 'LEST-FREE'; did you mean LEAST-FREE?");
    }
    pagewise(&["compare", &bench.trace(), "--strategy", "xyz"])
        .fails(2, "'xyz'; `pagewise strategies` lists all");
    let several = ["replay", &bench.trace(), "--strategy", "MRU,SYSTEM"];
    pagewise(&several).fails(2, "`pagewise compare TRACE --strategy MRU,SYSTEM` takes several");
}

/// Regression: it was said to be unknown.
#[test]
fn an_allocator_that_is_not_installed_is_said_to_be_that() {
    let bench = Workbench::new();
    for name in ["LIBPAGEWISE", "MIMALLOC", "jemalloc", "TCMALLOC"] {
        let run = pagewise(&["compare", &bench.trace(), "--strategy", name, "--repeat", "1"]);
        if run.status != 0 {
            run.fails(2, &format!("{name} is not installed: no lib"));
        }
    }
}

/// Regression: they were shown, and of options that exclude each other one was ignored.
#[test]
fn options_without_an_effect_are_hidden_or_refused() {
    for command in ["strategies", "man", "completions", "generate"] {
        let help = pagewise(&[command, "--help"]).succeeds();
        assert!(!help.contains("--memory") && !help.contains("Limits on"), "{command}: {help}");
    }
    for command in ["compare", "info", "record", "import", "who"] {
        let help = pagewise(&[command, "--help"]).succeeds();
        assert!(help.contains("Limits on traces:"), "{command}: {help}");
    }
    // They are taken everywhere.
    pagewise(&["strategies", "--memory", "1G", "--most-events", "5"]).succeeds();
    let bench = Workbench::new();
    let who = |more: &[&str]| {
        let run = pagewise(&[&["who", &bench.trace()], more].concat());
        run.fails(2, "cannot be used with");
    };
    who(&["--json", "--top", "3"]);
    who(&["--json", "--of", "leaked"]);
    who(&["--folded", "--by", "line"]);
    who(&["--folded", "--callers", "3"]);
    who(&["--raw", "--skip", "xmalloc"]);
}

#[test]
fn strategies_are_listed_by_family() {
    let list = pagewise(&["strategies"]).succeeds();
    let lines: Vec<_> = list.lines().collect();
    assert!(lines.contains(&"brent: Brent 1984"), "{list}");
    assert!(lines.iter().any(|line| line.starts_with("  LEAST-FREE  ")), "{list}");
    assert!(lines.iter().any(|line| line.starts_with("* PAGEWISE  ")), "{list}");
    assert!(lines.iter().any(|line| line.starts_with("* SYSTEM  ")), "{list}");
    let json = pagewise(&["strategies", "lazy", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["family"] == "lazy"), "{json}");
    pagewise(&["strategies", "lazi"]).fails(2, "did you mean lazy?");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let bench = Workbench::new();
    let wrong = |option: &str, value: &str, part: &str| {
        pagewise(&["compare", &bench.trace(), option, value]).fails(2, part);
    };
    wrong("--page-size", "1000", "power of two");
    wrong("--page-size", "12Q", "unknown suffix");
    wrong("--ffcrossover", "1M", "FFCROSSOVER");
    wrong("--freetol", "1M", "FREETOL");
    wrong("--sizemap", "cubic", "geometric[=RATIO]");
    wrong("--sizemap", "geometric=0.5", "ratio");
    wrong("--repeat", "0", "--repeat");
    let audit = ["replay", &bench.trace(), "--strategy", "SYSTEM", "--audit"];
    pagewise(&audit).fails(2, "--audit checks only pagewise's own strategies, not SYSTEM");
    let audit = ["replay", "--strategy", "MRU", "--audit", &bench.trace()];
    pagewise(&audit).fails(2, "; a trace goes before --audit (see `pagewise replay --help`)");
}

#[test]
fn a_closed_pipe_ends_the_run_quietly() {
    let bench = Workbench::new();
    // More rows than fit into a pipe.
    let traces = vec![bench.trace(); 400];
    let mut child = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .arg("info")
        .args(traces)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(stderr, "");
}

#[test]
fn a_full_device_is_reported_in_one_line() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let commands: [&[&str]; 8] = [
        &["--help"],
        &["compare", "--help"],
        &["strategies"],
        &["info", &trace],
        &["compare", &trace, "--strategy", "MRU", "--repeat", "1"],
        &["replay", &trace, "--strategy", "MRU", "--json"],
        &["tables", "head-first", "--table", "2"],
        &["simulate", &trace, "--strategy", "MRU", "--plot", "-"],
    ];
    for command in commands {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let output =
            Command::new(env!("CARGO_BIN_EXE_pagewise")).args(command).stdout(full).output();
        let output = output.expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let told = "pagewise: standard output cannot be written: No space left on device";
        let lines: Vec<_> = stderr.lines().filter(|line| line.starts_with("pagewise: ")).collect();
        assert!(matches!(lines[..], [line] if line.starts_with(told)), "{command:?}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(!stderr.contains("panicked"), "{command:?}: {stderr}");
    }
}

/// Regression: Rust's runtime opens `/dev/null` in place of a closed file, so the output seemed to
/// be written.
#[test]
#[cfg(target_os = "linux")]
fn a_closed_standard_output_is_reported_in_one_line() {
    let bench = Workbench::new();
    let trace = bench.trace();
    let commands: [&[&str]; 6] = [
        &["--help"],
        &["info", &trace],
        &["replay", &trace, "--strategy", "MRU", "--json"],
        &["simulate", &trace, "--strategy", "MRU", "--plot", "-"],
        &["generate", "--distribution", "cambridg-like", "--seconds", "1", "-o", "/dev/stdout"],
        &["record", "-o", "-", "--", "ls"],
    ];
    let run = |command: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_pagewise")]);
        let output = shell.args(command).output().expect("a shell");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    for command in commands {
        let (status, told) = run(command);
        let expected = "pagewise: standard output cannot be written: Bad file descriptor";
        assert!(told.starts_with(expected) && told.lines().count() == 1, "{command:?}: {told}");
        assert_eq!(status, Some(1), "{command:?}");
    }
    // What prints nothing there needs none.
    let new = bench.path("new.pwt");
    let made = ["generate", "--distribution", "cambridg-like", "--seconds", "1", "-o", &new];
    assert_eq!(run(&made).0, Some(0));
}

#[test]
fn an_interrupted_file_is_not_left_half_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let has_unnamed = File::options().write(true).custom_flags(libc::O_TMPFILE).open(&folder);
    for signal in [libc::SIGINT, libc::SIGKILL] {
        // A file with a name stays behind.
        if signal == libc::SIGKILL && has_unnamed.is_err() {
            eprintln!("skipped: the file system has no files without a name");
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.args(["generate", "--distribution", "cambridg-like", "--seconds", "100000000"]);
        command.arg("-o").arg(folder.path().join("out.pwt")).stderr(Stdio::null());
        let mut process = interruptible(&mut command).spawn().expect("the binary runs");
        // The file exists, empty, before a handler knows its name.
        while !writes_to(process.id(), folder.path()) {
            assert_eq!(process.try_wait().expect("a child"), None, "it is still writing");
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: sends a signal to our child.
        unsafe { libc::kill(process.id() as libc::pid_t, signal) };
        let status = process.wait().expect("it ends");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!((status.signal(), left), (Some(signal), 0));
    }
}

/// Returns whether a process has a file in this folder open that is not empty.
fn writes_to(process: u32, folder: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{process}/fd"));
    files.into_iter().flatten().flatten().any(|file| {
        let path = file.path();
        std::fs::read_link(&path).is_ok_and(|to| to.starts_with(folder))
            && path.metadata().is_ok_and(|of| of.len() > 0)
    })
}

/// Returns the state of a process and its parent: `R` and 4711.
#[cfg(target_os = "linux")]
fn state(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(target_os = "linux")]
#[test]
fn the_replays_of_a_command_that_is_killed_end_with_it() {
    let bench = Workbench::new();
    let child_of = |parent| {
        let names =
            std::fs::read_dir("/proc").expect("processes").map(|it| it.unwrap().file_name());
        let mut processes = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
        processes.find(|&process| {
            // Before it executes the program its arguments are its parent's.
            let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let replays = arguments.split(|&byte| byte == 0).any(|argument| argument == b"alone");
            replays && state(process).is_some_and(|(_, its)| its == parent)
        })
    };
    // Its replays take some tenths of a second each, long enough to be found.
    let (sizes, long) = (bench.path("sizes.csv"), bench.path("long.pwt"));
    let made = ["generate", "--distribution", &sizes, "--seconds", "500", "-o", &long];
    pagewise(&made).succeeds();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["compare", &long, "--strategy", "SYSTEM", "--repeat", "100"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let replay = loop {
        assert_eq!(command.try_wait().expect("a child"), None, "it is still measuring");
        let Some(child) = child_of(command.id()) else { continue };
        // A stopped replay would stay for ever.
        // SAFETY: sends a signal to a child of our child.
        unsafe { libc::kill(child as libc::pid_t, libc::SIGSTOP) };
        while matches!(state(child), Some((state, _)) if !"TZ".contains(state)) {}
        if matches!(state(child), Some(('T', _))) {
            break child;
        }
    };
    command.kill().and_then(|()| command.wait()).expect("it ends");
    let ends = || !matches!(state(replay), Some((state, _)) if state != 'Z');
    for _ in 0..200 {
        if ends() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: ends the stopped process, which nobody waits for.
    unsafe { libc::kill(replay as libc::pid_t, libc::SIGKILL) };
    panic!("process {replay} runs on");
}
