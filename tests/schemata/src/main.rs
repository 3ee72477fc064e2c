//! Mutation testing with many mutants of an area in one build. An environment variable switches one
//! of them on, so each mutant costs a run of the tests, but no build.
//!
//! The mutants are those of cargo-mutants, except those in constants and of fields, which cannot be
//! switched, and those that do not compile.
//! ```sh
//! cargo run --release -- AREA [COUNT [SEED]]   # global, heaps, trace; number of random mutants
//! ```
//! A check with all mutants of an area shows which ones compile; the chosen ones are then built.
//! This needs a nightly compiler. Results are in `target/AREA`: the source with its mutants, and
//! `done.txt`, with a line for each mutant tried; later runs append to it. With `only FILE` instead
//! of a count, the mutants named in the file are tried, even if they were tried before. An
//! interrupted run continues when started with the same arguments. `JOBS=3` tries three at a time.
//! `TESTS=placements,arena` builds and runs only the test binaries whose names begin so: the other
//! binaries might catch mutants that these miss. `SLOWEST=60` uses tests of up to 60 seconds.
//! `FILES=src/arena/,src/tags/` has only the mutants of files whose paths begin so.
//! `LEVEL=1` optimises the package: some tests need it, and it takes longer to build. At the end,
//! the survivors are listed, and the rate of mutants caught with its confidence interval.

mod build;
mod mutants;
mod sources;
mod suite;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use build::Tree;
use mutants::Mutant;
use suite::{Suite, Verdict};

/// Where mutants are made, and the tests that should catch them.
pub(crate) struct Area {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) files: &'static [&'static str],
    /// Files in that folder that are not built here, because they are for other systems or
    /// features.
    pub(crate) elsewhere: &'static [&'static str],
    /// The packages to build; further packages that only checking the library needs; and each crate
    /// with a switch.
    pub(crate) build: &'static [&'static str],
    pub(crate) check: &'static [&'static str],
    pub(crate) crates: &'static [&'static str],
    /// Tests to leave out: they build something, or read the source.
    pub(crate) without: &'static [&'static str],
    /// Programs that are one test as a whole.
    pub(crate) whole: &'static [&'static str],
}

const AREAS: &[Area] = &[
    Area {
        name: "global",
        package: "pagewise",
        files: &["src/global/**"],
        elsewhere: &[
            "src/global/forwarding.rs",
            "src/global/wasm.rs",
            "src/global/native/unprofiled.rs",
            "src/global/profiler/unsupported.rs",
        ],
        build: &[
            "--features=guarded,trace",
            "--lib",
            "--test=global",
            "--test=hardened",
            "--test=guarded",
            "--test=regressions",
            "--test=nth_call",
            "--test=differential",
            "--test=profiler",
        ],
        check: &["--features=profiler"],
        crates: &["src/lib.rs"],
        without: &["pages_of_64_kib", "a_library_that_is_unloaded"],
        whole: &["nth_call-"],
    },
    Area {
        name: "heaps",
        package: "pagewise",
        files: &["src/pages/**", "src/fit/**", "src/tags/**", "src/arena/**"],
        elsewhere: &[],
        build: &[
            "--features=allocator-api2,lock_api,critical-section",
            "--lib",
            "--test=arena",
            "--test=arena_collections",
            "--test=schedules",
            "--test=small",
            "--test=misuse",
            "--test=regressions",
            "--test=properties",
            "--test=placements",
        ],
        check: &["--features=strategies"],
        crates: &["src/lib.rs"],
        without: &["a_library_that_is_unloaded", "nielsen::", "hasan::", "head-firsts::"],
        whole: &[],
    },
    Area {
        name: "trace",
        package: "pagewise-trace",
        files: &["trace/src/**"],
        elsewhere: &[],
        build: &["--lib", "--tests"],
        check: &[],
        crates: &["trace/src/lib.rs"],
        without: &[],
        whole: &[],
    },
];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let area = arguments.first().and_then(|name| AREAS.iter().find(|area| area.name == *name));
    let Some(area) = area else { bail!("which area: global, heaps, trace?") };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("a root")?;
    let out = root.join("target/schemata").join(area.name);
    fs::create_dir_all(&out)?;

    let all = mutants::list(root, area)?;
    let done = out.join("done.txt");
    let tree = Tree::make(root, &out, area, &all, |viable| {
        match (arguments.get(1).map(String::as_str), arguments.get(2)) {
            (Some("only"), Some(file)) => named(viable, &PathBuf::from(file)),
            (count, seed) => {
                let count = count.map_or(Ok(usize::MAX), str::parse)?;
                Ok(sample(viable, count, seed.map_or("", |seed| seed)))
            }
        }
    })?;
    println!("{} of them chosen", tree.chosen.len());
    let suite = Suite::measure(&tree, area)?;
    let again = arguments.get(1).is_some_and(|argument| argument == "only");
    try_all(&suite, &tree.chosen, &done, again)?;
    print!("{}", summary(&tree.chosen, &fs::read_to_string(done)?));
    Ok(ExitCode::SUCCESS)
}

/// Returns the survivors among the chosen mutants, and the rate of those caught with its confidence
/// interval (Wilson, 95 %). The last verdict on a mutant counts.
fn summary(chosen: &[Mutant], done: &str) -> String {
    let verdicts: HashMap<&str, &str> = done
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(verdict, name)| (name, verdict))
        .collect();
    let tried = chosen.iter().filter_map(|mutant| verdicts.get_key_value(&*mutant.name));
    let (survivors, caught): (Vec<_>, Vec<_>) =
        tried.partition(|(_, verdict)| verdict.starts_with("SURVIVED"));
    let mut text: String =
        survivors.iter().map(|(name, verdict)| format!("{verdict}: {name}\n")).collect();
    let hung = caught.iter().filter(|(_, verdict)| verdict.ends_with("which hung")).count();
    let (caught, all) = (caught.len(), caught.len() + survivors.len());
    let [rate, from, to] = wilson(caught, all).map(|share| 100.0 * share);
    text += &format!(
        "{caught} of {all} caught, {hung} of them hung: {rate:.1} % ({from:.1} to {to:.1} %)\n"
    );
    text
}

/// Returns a rate, and the ends of its 95 % confidence interval.
fn wilson(caught: usize, all: usize) -> [f64; 3] {
    const Z: f64 = 1.96;
    let all = all.max(1) as f64;
    let rate = caught as f64 / all;
    let middle = rate + Z * Z / (2.0 * all);
    let half = Z * (rate * (1.0 - rate) / all + Z * Z / (4.0 * all * all)).sqrt();
    let scale = 1.0 + Z * Z / all;
    [rate, (middle - half) / scale, (middle + half) / scale]
}

/// Returns `count` random mutants, determined by the seed.
fn sample(viable: &[Mutant], count: usize, seed: &str) -> Vec<Mutant> {
    let mut order: Vec<&Mutant> = viable.iter().collect();
    order.sort_by_key(|mutant| mutants::hash(&format!("{seed}{}", mutant.name)));
    order.into_iter().take(count).cloned().collect()
}

/// Returns the mutants that a file names, in its order.
fn named(viable: &[Mutant], file: &Path) -> Result<Vec<Mutant>> {
    let viable: HashMap<&str, &Mutant> =
        viable.iter().map(|mutant| (&*mutant.name, mutant)).collect();
    let mut seen = HashSet::new();
    let names = fs::read_to_string(file)?;
    let named = names.lines().filter(|&name| seen.insert(name)).filter_map(|name| viable.get(name));
    Ok(named.map(|&mutant| mutant.clone()).collect())
}

/// Tries the mutants not tried before (all if `again`), several at a time (`JOBS`), since many
/// tests mostly wait.
fn try_all(suite: &Suite, chosen: &[Mutant], done: &Path, again: bool) -> Result<()> {
    let tried = if again { String::new() } else { fs::read_to_string(done).unwrap_or_default() };
    let tried: HashSet<&str> =
        tried.lines().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    let left = chosen.iter().filter(|mutant| !tried.contains(&*mutant.name));
    let (left, log) = (Mutex::new(left), File::options().create(true).append(true).open(done)?);
    let state = Mutex::new((log, 0, 0));
    let work = || -> Result<()> {
        loop {
            let Some(mutant) = left.lock().expect("nobody panics").next() else { return Ok(()) };
            let verdict = suite.verdict(mutant)?;
            let (log, caught, all) = &mut *state.lock().expect("nobody panics");
            *caught += usize::from(!matches!(verdict, Verdict::Survived { .. }));
            *all += 1;
            writeln!(log, "{verdict}\t{}", mutant.name)?;
            println!("{caught} of {all}: {verdict}: {}", mutant.name);
        }
    };
    let jobs = std::env::var("JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}
