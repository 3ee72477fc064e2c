//! The tests, each with the mutants that it reaches.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::Area;
use crate::build::Tree;
use crate::mutants::Mutant;

/// Maximum number of mutants in an area.
const MOST: usize = 1 << 16;

/// Seconds that a test may take without mutants to be used, unless the environment overrides it.
const SLOWEST: u64 = 25;

/// Extra time beyond five times the usual, with a mutant: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

struct Test {
    binary: PathBuf,
    name: String,
    time: Duration,
    reached: Vec<u8>,
}

pub(crate) struct Suite {
    folder: PathBuf,
    /// Fastest first.
    tests: Vec<Test>,
}

pub(crate) enum Verdict {
    Failed(String),
    TimedOut(String),
    /// Number of tests that reach it.
    Survived {
        tests: usize,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(test) => write!(f, "caught by {test}"),
            Self::TimedOut(test) => write!(f, "caught by {test}, which hung"),
            Self::Survived { tests } => write!(f, "SURVIVED {tests} tests"),
        }
    }
}

/// Returns whether to run a test binary: all, or only those whose names begin with a prefix from
/// the environment.
pub(crate) fn wants(binary: &str) -> bool {
    let wanted = std::env::var("TESTS").unwrap_or_default();
    wanted.is_empty() || wanted.split(',').any(|name| binary.starts_with(name))
}

impl Suite {
    /// Runs each test once, without mutants.
    pub(crate) fn measure(tree: &Tree, area: &Area) -> Result<Self> {
        let folder =
            if area.package == "pagewise" { tree.root.clone() } else { tree.root.join(area.name) };
        let notes = tree.root.with_file_name("reached");
        fs::create_dir_all(&notes)?;
        let slowest = std::env::var("SLOWEST").ok().and_then(|text| text.parse().ok());
        let slowest = Duration::from_secs(slowest.unwrap_or(SLOWEST));
        let mut suite = Self { folder, tests: Vec::new() };
        for binary in &tree.tests {
            let file = binary.file_name().unwrap_or_default().to_string_lossy();
            if !wants(&file) {
                continue;
            }
            // A program without a list of tests is a single test.
            let whole = area.whole.iter().any(|name| file.contains(name));
            let names = if whole { vec![String::new()] } else { names(binary, &suite.folder)? };
            let built = binary.metadata()?.modified()?;
            for name in names {
                if area.without.iter().any(|part| name.contains(part)) {
                    continue;
                }
                let kept = notes.join(format!("{file} {}", name.replace('/', " ")));
                let known =
                    kept.metadata().and_then(|kept| kept.modified()).is_ok_and(|at| at > built);
                if !known {
                    fs::write(&kept, vec![0; MOST])?;
                    let start = Instant::now();
                    let mut child = suite.start(binary, &name, 0, Some(&kept))?;
                    let passed = wait(&mut child, slowest)?;
                    let took = start.elapsed().as_millis().to_string();
                    let mut reached = fs::read(&kept)?;
                    if passed == Some(true) {
                        reached.extend(took.bytes());
                    } else {
                        println!("left out, since it fails or is slow: {file} {name}");
                    }
                    fs::write(&kept, reached)?;
                }
                let mut reached = fs::read(&kept)?;
                let took = String::from_utf8(reached.split_off(MOST))?;
                if let (Ok(took), true) = (took.parse(), reached.contains(&1)) {
                    let time = Duration::from_millis(took);
                    suite.tests.push(Test { binary: binary.clone(), name, time, reached });
                }
            }
        }
        suite.tests.sort_by_key(|test| test.time);
        println!("{} tests", suite.tests.len());
        Ok(suite)
    }

    fn start(
        &self,
        binary: &Path,
        name: &str,
        mutant: usize,
        notes: Option<&Path>,
    ) -> Result<Child> {
        let mut command = Command::new(binary);
        if !name.is_empty() {
            command.args(["--exact", name]);
        }
        command.current_dir(&self.folder).env("SCHEMATA_MUTANT", mutant.to_string());
        command.env("PROPTEST_CASES", "6").env("CARGO_MANIFEST_DIR", &self.folder);
        if let Some(notes) = notes {
            command.env("SCHEMATA_REACHED", notes);
        }
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().with_context(|| name.to_owned())
    }

    /// Returns the test that catches a mutant. The test must fail twice, so that a flaky one does
    /// not count; or hang where it passes without mutants, so that a busy machine does not count.
    pub(crate) fn verdict(&self, mutant: &Mutant) -> Result<Verdict> {
        let mut tests = 0;
        for test in self.tests.iter().filter(|test| test.reached[mutant.number] == 1) {
            let bound = 5 * test.time + PATIENCE;
            let run = |number, bound| {
                wait(&mut self.start(&test.binary, &test.name, number, None)?, bound)
            };
            match run(mutant.number, bound)? {
                Some(false) if run(mutant.number, bound)? != Some(true) => {
                    return Ok(Verdict::Failed(test.label()));
                }
                None if run(0, bound / 4)? == Some(true) => {
                    return Ok(Verdict::TimedOut(test.label()));
                }
                _ => tests += 1,
            }
        }
        Ok(Verdict::Survived { tests })
    }
}

impl Test {
    fn label(&self) -> String {
        let file = self.binary.file_name().unwrap_or_default().to_string_lossy();
        format!("{}::{}", file.rsplit_once('-').map_or("", |(name, _)| name), self.name)
    }
}

/// Returns the tests of a binary, except ignored ones.
fn names(binary: &Path, folder: &Path) -> Result<Vec<String>> {
    let listed = Command::new(binary).arg("--list").current_dir(folder).output()?;
    let ignored =
        Command::new(binary).args(["--list", "--ignored"]).current_dir(folder).output()?;
    let (listed, ignored) = (String::from_utf8(listed.stdout)?, String::from_utf8(ignored.stdout)?);
    let names = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect()
    };
    let (all, without) = (names(&listed), names(&ignored));
    Ok(all.into_iter().filter(|name| !without.contains(name)).collect())
}

/// Returns whether a process succeeded; `None` if it did not end in time, and was killed.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > end {
            // Also kills its descendants, which have process groups of their own.
            let ended = descendants(child.id())?;
            Command::new("kill").arg("-KILL").args(ended.iter().map(u32::to_string)).status()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(Duration::from_millis(5));
    }
}

/// Returns a process and all its descendants.
fn descendants(of: u32) -> Result<Vec<u32>> {
    let listed = Command::new("ps").args(["-eo", "pid=,ppid="]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let all: Vec<_> = listed
        .lines()
        .filter_map(|line| {
            let mut parts = line.split_whitespace();
            number(parts.next()).zip(number(parts.next()))
        })
        .collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(process, _)| process));
        at += 1;
    }
    Ok(found)
}
