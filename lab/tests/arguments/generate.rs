//! Generates command lines: a command, some of its options, values of the right kind or not, and
//! misplaced words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::grammar::{Command, Opt};
use crate::random::Random;

/// The files in the folder where a command runs, besides an empty folder: two kinds of traces (one
/// truncated), a file of sizes, a malloc lab file, an empty file and a file of random bytes.
pub(crate) const FILES: [&str; 6] =
    ["small.pwt", "cut.pwt", "sizes.csv", "lab.rep", "empty", "noise"];

/// Creates the files, with a run of `pagewise`.
pub(crate) fn make_files(folder: &Path, pagewise: impl Fn(&[&str])) {
    let write = |name: &str, content: &[u8]| {
        fs::write(folder.join(name), content).expect("the folder can be written to");
    };
    write("sizes.csv", b"size,rate,live\n24,100,20\n1000,20,5\n100000,2,1\n");
    write("lab.rep", b"20000\n2\n4\n1\na 0 100\na 1 5000\nr 0 200\nf 1\n");
    write("empty", b"");
    write("noise", &(0..4000_u32).map(|at| ((at * at) >> 3) as u8).collect::<Vec<_>>());
    pagewise(&["generate", "--distribution", "sizes.csv", "--seconds", "3", "-o", "small.pwt"]);
    let whole = fs::read(folder.join("small.pwt")).expect("the trace is there");
    write("cut.pwt", &whole[..whole.len() / 2]);
}

/// Returns plausible values for a value name.
fn sensible(name: &str) -> &'static [&'static str] {
    match name {
        "TRACE" => &["small.pwt", "small.pwt", "small.pwt", "cut.pwt", "-"],
        "FILE" => &["small.pwt", "lab.rep", "new", "folder/new", "-", "cut.pwt"],
        "OUT.pwt" => &["new.pwt", "-", "small.pwt"],
        "FILE|NAME" => &["sizes.csv", "cambridg-like", "yktvmv-like"],
        "DIR" => &["folder", "new"],
        "NAME" => &["MRU", "LEAST-FREE,BUDDY", "SYSTEM", "GLOBAL", "fits", "brent", "none", "LEA"],
        "LIB" => &["none", "nothing.so", "mimalloc"],
        "BYTES" => &["512", "4K", "64K", "1M", "1G", "100"],
        "N|N%" => &["1", "100", "50%", "100%"],
        "N" => &["1", "2", "9", "100", "4096"],
        "R" => &["1", "1.25", "3"],
        "MAP" => &["linear", "page-fitting", "geometric", "geometric=1.25", "optimal"],
        "NUMBER" => &["1", "2", "3.1", "3.4", "7", "7.2", "IV"],
        "TIME" => &["1s", "200ms", "5min"],
        "TEXT" => &["a note", "é"],
        "COMMAND" | "PROGRAM" => &["ls", "ls", "false"],
        "VARIABLE" => &["A=1", "A=", "=", "A"],
        _ => &["1"],
    }
}

/// Values that are wrong everywhere, or at least for some options.
const HOSTILE: [&str; 56] = [
    "",
    " ",
    "-",
    "--",
    "---",
    "0",
    "-0",
    "-1",
    "+1",
    "1e400",
    "1e-400",
    "NaN",
    "inf",
    "-inf",
    "0.1",
    "1e18",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551615K",
    "17179869184G",
    "16777216T",
    "99999999999999999999G",
    "1_000",
    "0x10",
    "1K1",
    "KK",
    "%",
    "-5%",
    "1000%",
    "18446744073709551615%",
    "٣",
    "é",
    "\u{1f9ea}",
    "a\nb",
    "\u{1b}[31m",
    "\r",
    "\u{202e}",
    ",",
    "a,,b",
    ",MRU",
    "MRU,MRU",
    "geometric=",
    "geometric=1",
    "geometric=1.0000001",
    "geometric=inf",
    "linear=2",
    "folder",
    "missing",
    "missing/x",
    "empty",
    "noise",
    "1s1s1s",
];

/// Returns these, and some that are too long or not valid text.
fn all_hostile() -> impl Iterator<Item = OsString> {
    let bytes = [vec![b'x'; 70_000], vec![0xff, 0xfe, b'a'], vec![b'9'; 400]];
    HOSTILE.into_iter().map(OsString::from).chain(bytes.map(OsString::from_vec))
}

fn hostile(random: &mut Random) -> OsString {
    all_hostile().nth(random.below(HOSTILE.len() + 3)).expect("one of them")
}

/// Returns a value, usually one of the kind that `name` means.
fn value(name: &str, choices: &[String], random: &mut Random) -> OsString {
    let sensible = sensible(name);
    match random.below(8) {
        0 => hostile(random),
        _ if !choices.is_empty() => OsString::from(&choices[random.below(choices.len())]),
        _ => sensible[random.below(sensible.len())].into(),
    }
}

fn append_option(option: &Opt, random: &mut Random, words: &mut Vec<OsString>) {
    let mut word = OsString::from(&option.name);
    let Some(name) = &option.value else {
        return words.push(word);
    };
    let value = value(name, &option.choices, random);
    match random.below(16) {
        // Given twice; without its value.
        0 => words.extend([word.clone(), value.clone(), word, value]),
        1 => words.push(word),
        2..=5 => {
            word.push("=");
            word.push(value);
            words.push(word);
        }
        _ => words.extend([word, value]),
    }
}

/// Returns command lines that pass each hostile value, for each kind of value, to one option and to
/// another of that kind, and for each kind of argument. Values that may read another file are left
/// out.
pub(crate) fn hostile_values(commands: &[Command]) -> Vec<Vec<OsString>> {
    let mut takers: BTreeMap<&str, Vec<(&Command, &str)>> = BTreeMap::new();
    let mut arguments = BTreeMap::new();
    for command in commands.iter().filter(|command| !command.arguments.is_empty()) {
        for option in &command.options {
            if let Some(value) = &option.value {
                takers.entry(value).or_default().push((command, &option.name));
            }
        }
        arguments.insert(&command.arguments[0], command);
    }
    let words = |command: &Command| command.path.iter().map(OsString::from).collect::<Vec<_>>();
    let of_option = |(value, &(command, option)): (OsString, &(&Command, &str))| {
        let mut word = OsString::from(option);
        word.push("=");
        word.push(value);
        let missing = command.arguments.iter().map(|_| "missing".into());
        words(command).into_iter().chain([word]).chain(missing).collect()
    };
    let of_argument = |value: OsString, command: &Command| {
        let mut words = words(command);
        for name in &command.needed {
            words.extend([name.into(), "MRU".into()]);
        }
        words.extend(["--".into(), value]);
        words
    };
    let options = takers.values().flat_map(|takers| all_hostile().zip(takers.iter().cycle()));
    let arguments = arguments.values();
    let arguments =
        arguments.flat_map(|command| all_hostile().map(|value| of_argument(value, command)));
    options.map(of_option).chain(arguments).collect()
}

/// Returns a random command line.
pub(crate) fn arguments(commands: &[Command], random: &mut Random) -> Vec<OsString> {
    let command = &commands[random.below(commands.len())];
    let mut words: Vec<OsString> = command.path.iter().map(OsString::from).collect();
    // Help and version are tested elsewhere; compiling takes too long.
    let options: Vec<&Opt> = command
        .options
        .iter()
        .filter(|option| !["--help", "--version", "--verify"].contains(&&*option.name))
        .collect();
    for option in options.iter().filter(|option| command.needed.contains(&option.name)) {
        if random.below(8) > 0 {
            append_option(option, random, &mut words);
        }
    }
    let first = random.below(options.len());
    for at in 0..options.len() {
        let option = options[(first + at) % options.len()];
        if !command.needed.contains(&option.name) && random.below(options.len()) < 2 {
            append_option(option, random, &mut words);
        }
    }
    for name in &command.arguments {
        if name == "PROGRAM" && random.below(4) > 0 {
            words.push("--".into());
        }
        for _ in 0..[1, 1, 1, 1, 2, 0][random.below(6)] {
            words.push(value(name, &[], random));
        }
    }
    if random.below(10) == 0 {
        let at = random.below(words.len() + 1);
        words.insert(at, hostile(random));
    }
    words
}
