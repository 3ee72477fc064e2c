//! Whole programs under `libpagewise.so` and other allocators, preloaded.
//!
//! ```text
//! cargo build --release -p pagewise-preload      in the workspace above
//! cargo bench --bench programs -- --rounds 7 LIBRARY…
//! ```
//! Libraries are given by path, `libpagewise.so` among them; a run without any is always there, and
//! is what is measured against. Behind a path and a colon may stand settings:
//! `libpagewise.so:PAGEWISE_HARDENED=1`. Programs that are not installed are left out. CPU time (user and
//! system) and peak resident set are those of the shell's children; medians over interleaved rounds.
//!
//! Of `cargo build`, rustc brings an allocator of its own, which a preloaded library does not replace:
//! what differs is cargo and the linker.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fmt, fs};

/// A program: what it is called, what it needs, and shell scripts, run in a folder of their own:
/// what is measured, and before it, once and without a library, what gets things ready.
struct Program {
    name: &'static str,
    needs: &'static str,
    prepare: &'static str,
    script: &'static str,
}

/// A program that needs nothing but itself.
const fn program(name: &'static str, script: &'static str) -> Program {
    Program { name, needs: name, prepare: "", script }
}

/// Threads that pass strings of many sizes to each other and keep maps of them.
const THREADS: &str = r#"
use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::thread;
fn main() {
    let mut ends = Vec::new();
    for seed in 1..5usize {
        let (sender, receiver) = sync_channel::<Vec<String>>(16);
        ends.push(thread::spawn(move || {
            for round in 0..400 {
                let strings = (0..500).map(|n| "x".repeat(n * seed * 7 % 400) + &(round * n).to_string());
                sender.send(strings.collect()).expect("the other thread lives");
            }
            0
        }));
        ends.push(thread::spawn(move || {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for strings in receiver {
                for string in strings { *counts.entry(string).or_default() += 1; }
                if counts.len() > 40_000 { counts.clear(); }
            }
            counts.values().sum()
        }));
    }
    let total: usize = ends.into_iter().map(|end| end.join().expect("it ends")).sum();
    println!("{total}");
}
"#;

const PROGRAMS: &[Program] = &[
    program(
        "gawk",
        "gawk 'BEGIN { for (i = 0; i < 400000; i++) a[i % 50000] = a[i % 50000] i; print length(a[7]) }'",
    ),
    program(
        "perl",
        "perl -e 'my %h; $h{$_ % 70001} .= \"x$_\" for 1..900000; print length($h{9})'",
    ),
    program(
        "python3",
        "python3 -c 'import json; d = {str(i): [i, str(i)] * 4 for i in range(150000)}; print(len(json.loads(json.dumps(d))))'",
    ),
    program("git", "git -C \"$WORKSPACE\" log --stat -n 40"),
    program(
        "sqlite3",
        "sqlite3 :memory: 'create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n where x < 300000) insert into t select x, hex(x * 7) from n; create index i on t(b); select count(*), max(b) from t;'",
    ),
    program(
        "gs",
        "printf '%%!PS\n/Times-Roman findfont 20 scalefont setfont 1 1 80 { 9 mul 72 exch moveto (pagewise) show } for showpage\n' | gs -q -dNOPAUSE -dBATCH -sDEVICE=ppmraw -r300 -sOutputFile=- -",
    ),
    program(
        "g++",
        "printf '#include <map>\n#include <regex>\n#include <iostream>\nint main() { std::map<std::string, int> m; std::cout << std::regex_match(\"ab\", std::regex(\"a.\")) << m.size(); }' | g++ -O1 -c -x c++ -o /dev/null -",
    ),
    program("sort", "seq 300000 | sort -R --random-source=/dev/zero"),
    Program {
        name: "300 starts",
        needs: "true",
        prepare: "",
        script: "n=0; while [ $n -lt 300 ]; do env true; n=$((n + 1)); done",
    },
    Program {
        name: "redis",
        needs: "redis-benchmark",
        prepare: "",
        script: "redis-server --port 0 --unixsocket r.sock --save '' --dir . >/dev/null & server=$!; until redis-cli -s r.sock ping >/dev/null 2>&1; do kill -0 $server || exit 1; sleep 0.05; done; redis-benchmark -s r.sock -q -c 20 -n 60000 -r 50000 -d 200 -t set,get,incr,lpush,sadd,hset,zadd,lrange_100; redis-cli -s r.sock shutdown nosave; wait $server",
    },
    Program {
        name: "cargo build",
        needs: "cargo",
        prepare: "mkdir -p crate/src && printf '[package]\nname = \"a\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n' > crate/Cargo.toml && printf '%s' \"$THREADS\" > crate/src/main.rs",
        script: "cd crate && rm -rf built && cargo build -q --offline --target-dir built && built/debug/a",
    },
    Program {
        name: "threads (Rust)",
        needs: "rustc",
        prepare: "printf '%s' \"$THREADS\" > threads.rs && rustc -O threads.rs -o threads",
        script: "./threads",
    },
];

/// A library that is preloaded, none if it has no path, and what its runs find in their environment.
#[derive(Default)]
struct Library {
    path: String,
    settings: Vec<(String, String)>,
}

impl Library {
    /// Of an argument: a path, and settings behind colons. `None` if there is no such file.
    fn parse(argument: &str) -> Option<Self> {
        let mut parts = argument.split(':');
        let path = fs::canonicalize(parts.next()?).ok()?.display().to_string();
        let setting = |part: &str| {
            let (name, value) = part.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Some(Self { path, settings: parts.map(setting).collect::<Option<_>>()? })
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path.rsplit('/').next().unwrap_or(&self.path))?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))
    }
}

#[derive(Clone, Copy)]
struct Figures {
    seconds: f64,
    peak: f64,
}

/// This file's head, for `--help`.
fn about() -> impl Iterator<Item = &'static str> {
    include_str!("programs.rs").lines().map_while(|line| line.strip_prefix("//!"))
}

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--help") {
        about().filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let mut rounds = 5;
    let mut libraries = vec![Library::default()];
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            rounds = arguments.next().and_then(|value| value.parse().ok()).unwrap_or(rounds);
        } else if let Some(library) = Library::parse(&argument) {
            libraries.push(library);
        } else {
            eprintln!("there is no library {argument}; --help tells what may be given");
            return ExitCode::FAILURE;
        }
    }
    let mut logarithms = vec![(0.0, 0.0); libraries.len()];
    let mut measured = 0.0;
    println!("CPU time and peak memory; without a library = 1\n");
    print!("| program |");
    libraries.iter().skip(1).for_each(|library| print!(" {library} |"));
    print!("\n|---|");
    libraries.iter().skip(1).for_each(|_| print!("---:|"));
    println!();
    let folder = env::temp_dir().join(format!("pagewise-programs-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&folder) {
        eprintln!("{} cannot be made: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let run = |script: &str, library: &Library| run(script, library, &folder);
    for Program { name, needs, prepare, script } in PROGRAMS {
        if run(&format!("command -v {needs} && {{ :\n{prepare}\n}}"), &libraries[0]).is_none() {
            continue;
        }
        let mut runs = vec![Vec::new(); libraries.len()];
        for _ in 0..rounds {
            for (library, runs) in libraries.iter().zip(&mut runs) {
                let Some(figures) = run(script, library) else {
                    eprintln!("{name} failed under “{library}”; what it left is in {folder:?}");
                    return ExitCode::FAILURE;
                };
                runs.push(figures);
            }
        }
        let medians: Vec<Figures> = runs.iter().map(|runs| median(runs)).collect();
        print!("| {name} |");
        for (one, logarithm) in medians.iter().zip(&mut logarithms).skip(1) {
            let (time, peak) = (one.seconds / medians[0].seconds, one.peak / medians[0].peak);
            logarithm.0 += time.ln();
            logarithm.1 += peak.ln();
            print!(" {time:.2} / {peak:.2} |");
        }
        println!();
        measured += 1.0;
    }
    print!("| **geometric mean** |");
    for (time, peak) in logarithms.iter().skip(1) {
        print!(" **{:.2}** / **{:.2}** |", f64::exp(time / measured), f64::exp(peak / measured));
    }
    println!();
    // Whatever is left lies among temporary files.
    let _ = fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
}

/// Runs a script in a folder with a library preloaded; `None` if it fails.
fn run(script: &str, library: &Library, folder: &Path) -> Option<Figures> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
    command
        .current_dir(folder)
        .env("WORKSPACE", env!("CARGO_MANIFEST_DIR"))
        .env("THREADS", THREADS);
    if !library.path.is_empty() {
        command.env("LD_PRELOAD", &library.path);
    }
    command.envs(library.settings.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().ok()?;
    let mut status = 0;
    // SAFETY: all bits zero is a value; the child is ours and waited for once, here.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let waited = libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        (waited >= 0 && status == 0).then_some(usage)?
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(Figures {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak: usage.ru_maxrss as f64,
    })
}

fn median(runs: &[Figures]) -> Figures {
    let middle = |of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figures { seconds: middle(|f| f.seconds), peak: middle(|f| f.peak) }
}
