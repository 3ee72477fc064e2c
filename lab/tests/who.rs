//! `pagewise record --stacks` and `pagewise who`: this test program, started again, allocates at
//! known sites, which must be found: function, line, bytes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "common/place.rs"]
mod place;

use std::hint::black_box;
use std::process::Command;

use place::Place;
use serde_json::Value;

/// Environment variable that selects the scenario of the restarted program.
const SCENARIO: &str = "PAGEWISE_TEST_WHO";

#[inline(never)]
fn keep(block: Vec<u8>) {
    std::mem::forget(black_box(block));
}

const LEAKY: u32 = line!() + 4;
#[inline(never)]
fn leaky() {
    for _ in 0..100 {
        keep(vec![1; black_box(3000)]);
    }
}

#[inline(never)]
fn fleeting() {
    for _ in 0..200 {
        black_box(vec![1_u8; black_box(5000)]);
    }
}

#[inline(never)]
fn at_the_peak() {
    let blocks: Vec<Vec<u8>> = (0..50).map(|_| vec![1; black_box(1 << 20)]).collect();
    black_box(&blocks);
}

#[inline(never)]
fn in_a_thread() {
    for _ in 0..50 {
        keep(vec![1; black_box(777)]);
    }
}

#[inline(never)]
fn in_the_child() {
    for _ in 0..10 {
        keep(vec![1; black_box(4321)]);
    }
}

#[inline(never)]
fn deep(depth: u32) -> u32 {
    if depth == 0 {
        keep(vec![1; black_box(2222)]);
        return 0;
    }
    black_box(deep(black_box(depth - 1)) + 1)
}

std::arch::global_asm!(
    // swaying(bytes, function, argument): calls the function with `bytes` more bytes on the stack.
    ".pushsection .text.pagewise_test_swaying,\"ax\",@progbits",
    ".type pagewise_test_swaying,@function",
    "pagewise_test_swaying:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size pagewise_test_swaying, . - pagewise_test_swaying",
    ".popsection",
);

unsafe extern "C" {
    fn pagewise_test_swaying(bytes: usize, function: extern "C" fn(&mut Path), path: &mut Path);
}

/// A path through `left`, `right` and `swaying`, encoded as the digits of `done` after a leading 1.
#[repr(C)]
struct Path {
    done: usize,
    random: u64,
}

/// Maximum number of calls of a path.
const LONGEST: u32 = 6;
/// Bytes allocated at the end of a path, in addition to its number.
const BYTES: usize = 3000;

impl Path {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Allocates here, or goes on, a few times.
    fn walk(&mut self) {
        for _ in 0..=self.random(3) {
            let done = self.done;
            let turn = if done >= 3_usize.pow(LONGEST) { 3 } else { self.random(4) };
            self.done = 3 * done + turn as usize % 3;
            match turn {
                0 => left(self),
                1 => right(self),
                2 => {
                    let bytes = 16 * self.random(40) as usize;
                    // SAFETY: the function is called with the path, and the stack stays aligned.
                    unsafe { pagewise_test_swaying(bytes, swaying, self) };
                }
                _ => keep(vec![1; black_box(BYTES + done)]),
            }
            self.done = done;
        }
    }
}

#[inline(never)]
fn left(path: &mut Path) {
    path.walk();
    black_box(path);
}

#[inline(never)]
fn right(path: &mut Path) {
    path.walk();
    black_box(path);
}

extern "C" fn swaying(path: &mut Path) {
    path.walk();
    black_box(path);
}

/// Allocates at the ends of many paths, in random order.
fn paths(seed: u64) {
    let mut path = Path { done: 1, random: seed };
    (0..400).for_each(|_| path.walk());
}

/// Plays the scenario from the environment, if there is one.
#[test]
fn scenarios() {
    match std::env::var(SCENARIO).as_deref() {
        Ok("places") => {
            leaky();
            fleeting();
            at_the_peak();
        }
        Ok("threads") => std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(in_a_thread);
            }
        }),
        Ok("fork") => {
            leaky();
            // SAFETY: the child only allocates, which the C library allows after a fork, and ends.
            match unsafe { libc::fork() } {
                0 => {
                    in_the_child();
                    // SAFETY: ends the child without running anything of the test program.
                    unsafe { libc::_exit(0) };
                }
                child => {
                    // SAFETY: waits for the child.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                }
            }
        }
        Ok("paths") => {
            paths(1);
            std::thread::scope(|scope| {
                (2..50).for_each(|seed| drop(scope.spawn(move || paths(seed))));
            });
        }
        Ok("deep") => drop(black_box(deep(100))),
        _ => {}
    }
}

impl Place {
    /// Records a scenario to `trace.pwt`.
    fn record(&self, scenario: &str, options: &[&str]) {
        let output = self
            .pagewise(&["record", "-o", "trace.pwt"])
            .args(options)
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "scenarios", "--nocapture", "--test-threads", "1"])
            .env(SCENARIO, scenario)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn said(&self, args: &[&str]) -> String {
        let output = self.pagewise(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the JSON output of `who`.
    fn who(&self, trace: &str, options: &[&str]) -> Value {
        let args = [&["who", trace, "--json"], options].concat();
        serde_json::from_str(&self.said(&args)).unwrap()
    }
}

/// Returns the group of this test program's function whose name ends with `name`.
fn group<'v>(told: &'v Value, name: &str) -> Option<&'v Value> {
    told["groups"].as_array().unwrap().iter().find(|group| {
        let function = group["function"].as_str().unwrap();
        function.rsplit("::").next() == Some(name)
    })
}

#[test]
fn functions_lines_and_bytes_are_shown() {
    let place = Place::new();
    place.record("places", &["--stacks"]);
    let told = place.who("trace.pwt", &["--by", "line"]);

    let leaky = group(&told, "leaky").unwrap();
    assert_eq!(leaky["line"], LEAKY, "{leaky}");
    assert!(leaky["file"].as_str().unwrap().ends_with("tests/who.rs"), "{leaky}");
    assert_eq!(leaky["leaked_bytes"], 300_000);
    assert_eq!(leaky["leaked_blocks"], 100);
    assert_eq!(leaky["live_blocks"], 100);
    assert_eq!(leaky["temporary"], 0);
    assert_eq!(leaky["leaked_sizes"], serde_json::json!([[3000, 100]]));

    let fleeting = group(&told, "fleeting").unwrap();
    assert_eq!(fleeting["allocations"], 200);
    assert_eq!(fleeting["allocated_bytes"], 1_000_000);
    assert_eq!(fleeting["temporary"], 200);
    assert_eq!(fleeting["short_lived"], 200);
    assert_eq!(fleeting["leaked_bytes"], 0);

    // The function's closure.
    let by_function = place.who("trace.pwt", &[]);
    let groups = by_function["groups"].as_array().unwrap();
    let most = &groups[0];
    assert!(most["function"].as_str().unwrap().contains("at_the_peak"), "{most}");
    assert_eq!(most["live_bytes"].as_u64().unwrap() >> 20, 50);
    let at_end = place.who("trace.pwt", &["--at", "end"]);
    assert_eq!(at_end["total"]["live_bytes"], at_end["total"]["leaked_bytes"]);
    assert!(at_end["total"]["live_bytes"].as_u64() < most["live_bytes"].as_u64());

    // The output for other tools and for people.
    let folded = place.said(&["who", "trace.pwt", "--folded", "--of", "leaked"]);
    let line = folded.lines().find(|line| line.contains("leaky;")).unwrap();
    assert!(line.ends_with(" 300000"), "{line}");
    place.said(&["who", "trace.pwt", "--pprof", "trace.pb.gz"]);
    let mut profile = Vec::new();
    let file = std::fs::File::open(place.path("trace.pb.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut profile).unwrap();
    let has = |name: &[u8]| profile.windows(name.len()).any(|part| part == name);
    assert!(has(b"leaky") && has(b"inuse_space") && has(b"tests/who.rs"));
    let piped = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["who", "trace.pwt", "--pprof", "-", "--json"])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert!(piped.stdout == std::fs::read(place.path("trace.pb.gz")).unwrap(), "only the profile");
    assert!(String::from_utf8(piped.stderr).unwrap().contains("\"groups\""));
    let text = place.said(&["who", "trace.pwt", "--callers", "5"]);
    assert!(text.contains("leaky") && text.contains("100 × 2.9 KiB"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn threads_and_children_are_distinguished() {
    let place = Place::new();
    place.record("threads", &["--stacks"]);
    let told = place.who("trace.pwt", &[]);
    let group =
        |told: &Value, name: &str| group(told, name).map(|group| group["leaked_blocks"].clone());
    assert_eq!(group(&told, "in_a_thread"), Some(200.into()));

    place.record("fork", &["--stacks", "--all"]);
    let (parent, child) = (place.who("trace.1.pwt", &[]), place.who("trace.2.pwt", &[]));
    assert_eq!(group(&parent, "leaky"), Some(100.into()));
    assert_eq!(group(&parent, "in_the_child"), None);
    assert_eq!(group(&child, "in_the_child"), Some(10.into()));
    assert_eq!(group(&child, "leaky"), None);
}

#[test]
fn a_stack_has_the_requested_depth() {
    let place = Place::new();
    let stack = |options: &[&str]| {
        place.record("deep", options);
        let told = place.who("trace.pwt", &[]);
        let deep = group(&told, "deep").unwrap();
        assert_eq!(deep["leaked_bytes"], 2222);
        let frames = deep["stack"].as_array().unwrap().clone();
        let calls = frames.iter().filter(|frame| frame.as_str().unwrap().contains("::deep at"));
        (calls.count(), frames.last().unwrap().as_str().unwrap().to_owned())
    };
    let (calls, outermost) = stack(&["--stacks=256"]);
    assert_eq!(calls, 101);
    assert_ne!(outermost, "[deeper than recorded]");
    let (calls, outermost) = stack(&["--stacks=8"]);
    assert!((4..=8).contains(&calls), "{calls}");
    assert_eq!(outermost, "[deeper than recorded]");
}

/// Each stack is recorded exactly, although it shares most of its frames with the one before,
/// whatever that was: a block's size encodes its path.
#[test]
fn every_call_path_is_recorded_exactly() {
    let place = Place::new();
    place.record("paths", &["--stacks=128"]);
    let folded = place.said(&["who", "trace.pwt", "--raw", "--folded", "--of", "leaked"]);
    let (mut paths, mut blocks) = (0, 0);
    for line in folded.lines().filter(|line| line.contains("who::paths")) {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        let mut path = 1;
        for frame in stack.split(';') {
            match frame {
                "who::left" => path *= 3,
                "who::right" => path = path * 3 + 1,
                "who::swaying" => path = path * 3 + 2,
                _ => {}
            }
        }
        let bytes: usize = bytes.parse().unwrap();
        if !stack.contains("who::keep") && !stack.contains("who::Path") {
            continue;
        }
        assert_eq!(bytes % (BYTES + path), 0, "{line}");
        paths += 1;
        blocks += bytes / (BYTES + path);
    }
    assert!(paths > 500 && blocks > 10_000, "{paths} paths, {blocks} blocks");
    let lost = folded.lines().filter(|line| line.contains("[caller unknown]")).count();
    assert_eq!(lost, 0, "{folded}");
    // No kept block is missing.
    let kept = place.who("trace.pwt", &["--by", "stack"]);
    let leaked = |group: &Value| group["leaked_blocks"].as_u64().unwrap() as usize;
    let groups = kept["groups"].as_array().unwrap().iter();
    let of_paths = groups.filter(|group| group["stack"].to_string().contains("who::paths"));
    assert!(of_paths.map(leaked).sum::<usize>() >= blocks);
}

/// A program whose segments are not adjacent, as large programs that should use huge pages are
/// linked (such as node). The loader then reports each segment as a file of its own, and no stack
/// began in it.
#[test]
fn segments_may_lie_apart() {
    let place = Place::new();
    let source = r#"
        #[inline(never)]
        fn leaks() -> &'static mut [u8] {
            std::hint::black_box(vec![1; 3210]).leak()
        }
        fn main() {
            (0..100).for_each(|_| drop(std::hint::black_box(leaks())));
        }"#;
    std::fs::write(place.path("apart.rs"), source).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let apart = "link-arg=-Wl,-z,max-page-size=0x200000,-z,separate-code";
    let built = Command::new(rustc)
        .args([
            "--edition",
            "2021",
            "-C",
            "opt-level=1",
            "-C",
            "debuginfo=1",
            "-C",
            apart,
            "apart.rs",
        ])
        .current_dir(place.root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let recorded = place
        .pagewise(&["record", "--stacks", "-o", "trace.pwt", "--", "./apart"])
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let folded = place.said(&["who", "trace.pwt", "--folded", "--of", "leaked"]);
    let line = folded.lines().find(|line| line.ends_with(" 321000")).expect(&folded);
    assert!(line.starts_with("_start;") && line.contains("apart::leaks"), "{line}");
}

#[test]
fn unsuitable_traces_and_options_are_refused() {
    let place = Place::new();
    place.record("places", &[]);
    let fails = |args: &[&str], part: &str| {
        let output = place.pagewise(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(stderr.contains(part), "{stderr}");
    };
    fails(&["who", "trace.pwt"], "has no call stacks: `pagewise record --stacks` records them");
    fails(&["who", "trace.pwt", "--at", "noon"], "expected `peak`, `end` or the number");
    fails(&["record", "--stacks=0", "--", "true"], "0 is not in 1..=256");
    fails(&["record", "--stacks=257", "--", "true"], "257 is not in 1..=256");
    place.record("places", &["--stacks"]);
    fails(&["who", "trace.pwt", "--at", "99999999"], "there is no event 99,999,999");
    // The other commands can read such a trace as well, and all of them refuse a truncated one.
    place.said(&["info", "trace.pwt"]);
    let whole = std::fs::read(place.path("trace.pwt")).unwrap();
    std::fs::write(place.path("cut.pwt"), &whole[..whole.len() - 9]).unwrap();
    fails(&["who", "cut.pwt"], "the file ends too early");
    fails(&["info", "cut.pwt"], "the file ends too early");
}

/// A block live where the recording was cut is not a leak.
#[test]
fn a_cut_recording_says_that_never_freed_means_until_then() {
    let place = Place::new();
    let cut = "the recording was cut: blocks not freed by then count as never freed";
    place.record("places", &["--stacks"]);
    assert!(!place.said(&["who", "trace.pwt"]).contains(cut));
    place.record("places", &["--stacks", "--max-events", "300"]);
    let text = place.said(&["who", "trace.pwt"]);
    assert!(text.contains(&format!(" temporary\n  {cut}\n")), "{text}");
    place.said(&["report", "trace.pwt", "-o", "cut.html", "--strategy", "MRU"]);
    let page = std::fs::read_to_string(place.path("cut.html")).unwrap();
    assert!(page.contains(&format!("; {cut}.")), "no note in the report");
}

#[test]
fn memory_taken_is_shown_for_each_function() {
    let place = Place::new();
    place.record("places", &["--stacks"]);
    let told = place.who("trace.pwt", &["--waste=MRU,SYSTEM"]);
    let groups = told["groups"].as_array().unwrap();
    for name in ["MRU", "SYSTEM"] {
        for group in groups {
            let live = group["live_bytes"].as_u64().unwrap();
            let taken = group["taken"][name]["bytes"].as_u64();
            assert_eq!(taken.is_some(), live > 0 || group["live_blocks"] != 0, "{group}");
            assert!(taken.unwrap_or(0) >= live, "{group}");
        }
    }
    // The C library's blocks have sizes that are multiples of 16, less 8, so 3,000 fits exactly.
    let leaky = group(&told, "leaky").unwrap();
    if cfg!(target_env = "gnu") {
        assert_eq!(leaky["taken"]["SYSTEM"]["bytes"], leaky["live_bytes"]);
    }
    let text = place.said(&["who", "trace.pwt", "--waste", "--of", "live"]);
    let table = text.split("Bytes that blocks live at the peak take").nth(1).expect("a table");
    assert!(table.contains("PAGEWISE      SYSTEM function"), "{table}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let many = "MRU,LRU,SYSTEM,PAGEWISE,BUDDY";
    let output =
        place.pagewise(&["who", "trace.pwt", &format!("--waste={many}")]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
