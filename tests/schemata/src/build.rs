//! Copies the source with the mutants in it, and builds it without those that do not compile.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::Area;
use crate::mutants::Mutant;
use crate::sources::{self, Spots};
use crate::suite;

pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// The chosen mutants that are built in.
    pub(crate) chosen: Vec<Mutant>,
    /// The test binaries, each with its working directory.
    pub(crate) tests: Vec<PathBuf>,
}

impl Tree {
    /// Finds out which mutants compile, and builds the tests with those that `choose` selects.
    pub(crate) fn make(
        root: &Path,
        out: &Path,
        area: &Area,
        all: &[Mutant],
        choose: impl FnOnce(&[Mutant]) -> Result<Vec<Mutant>>,
    ) -> Result<Self> {
        let tree = out.join("tree");
        copy(root, &tree, area, all)?;
        let mut unviable = Unviable::read(out.join("unviable.txt"));
        let attempt = |unviable: &mut Unviable, mutants: &mut Vec<Mutant>, builds| loop {
            mutants.retain(|mutant| !unviable.names.contains(&mutant.name));
            let (built_in, places) = write(root, &tree, area, all, mutants)?;
            mutants.retain(|mutant| built_in.contains(&mutant.number));
            match run(&tree, area, builds)? {
                Outcome::Done(tests) => return anyhow::Ok(tests),
                Outcome::Errors(errors) => unviable.drop(mutants, &errors, &places)?,
            }
        };
        let mut viable = all.to_vec();
        attempt(&mut unviable, &mut viable, false)?;
        println!("{} mutants, {} of them compile", all.len(), viable.len());
        let mut chosen = choose(&viable)?;
        let tests = attempt(&mut unviable, &mut chosen, true)?;
        Ok(Self { root: tree, chosen, tests })
    }
}

/// The names of the mutants that do not compile, saved in a file.
struct Unviable {
    file: PathBuf,
    names: HashSet<String>,
}

impl Unviable {
    fn read(file: PathBuf) -> Self {
        let known = fs::read_to_string(&file).unwrap_or_default();
        Self { file, names: known.lines().map(str::to_owned).collect() }
    }

    /// Drops the mutants that these errors are about: those of all errors at once, since each round
    /// of compiling takes long.
    fn drop(&mut self, mutants: &[Mutant], errors: &[Error], places: &Places) -> Result<()> {
        let numbers: HashSet<usize> =
            errors.iter().flat_map(|error| error.mutants_of_error(places)).collect();
        let culprits = mutants.iter().filter(|mutant| numbers.contains(&mutant.number));
        let before = self.names.len();
        self.names.extend(culprits.map(|mutant| mutant.name.clone()));
        println!("{} errors, {} mutants do not compile", errors.len(), self.names.len());
        ensure!(self.names.len() > before, "no mutant stands where {errors:?}");
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        Ok(fs::write(&self.file, names.join("\n"))?)
    }
}

/// Copies the repository's files as they are, except those that are written with mutants.
fn copy(root: &Path, tree: &Path, area: &Area, all: &[Mutant]) -> Result<()> {
    let mut written: HashSet<&str> = all.iter().map(|mutant| &*mutant.file).collect();
    written.extend(area.crates);
    let listed = Command::new("git")
        .args(["ls-files", "-z", "-co", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        if !written.contains(name)
            && from.is_file()
            && fs::read(&from)? != fs::read(&to).unwrap_or_default()
        {
            fs::create_dir_all(to.parent().context("a folder")?)?;
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

type Places = BTreeMap<String, Spots>;

/// Writes the files with their mutants; returns which ones are in, and where.
fn write(
    root: &Path,
    tree: &Path,
    area: &Area,
    all: &[Mutant],
    viable: &[Mutant],
) -> Result<(HashSet<usize>, Places)> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> =
        all.iter().map(|mutant| (&*mutant.file, Vec::new())).collect();
    viable.iter().for_each(|mutant| files.entry(&mutant.file).or_default().push(mutant));
    let (mut built_in, mut everywhere) = (HashSet::new(), Places::new());
    for (file, mutants) in files {
        let text = fs::read_to_string(root.join(file))?;
        let (text, places) = sources::switched(&text, &mutants).with_context(|| file.to_owned())?;
        built_in.extend(places.keys().copied());
        everywhere.insert(file.to_owned(), places);
        fs::create_dir_all(tree.join(file).parent().context("a folder")?)?;
        put(&tree.join(file), &text)?;
    }
    for name in area.crates {
        let text = fs::read_to_string(root.join(name))?;
        let features = "#![feature(core_intrinsics, const_eval_select)]";
        let text = format!("#![allow(internal_features, warnings)]\n{features}\n{text}");
        put(&tree.join(name), &format!("{text}\nmod mutant;\n"))?;
        put(&tree.join(name).with_file_name("mutant.rs"), include_str!("mutant.rs"))?;
    }
    Ok((built_in, everywhere))
}

/// Writes a file unless its content is unchanged, so that it need not be rebuilt.
fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).unwrap_or_default() != text {
        fs::write(path, text)?;
    }
    Ok(())
}

/// A compiler error: the first and last line that it names in each file.
#[derive(Debug)]
struct Error {
    primary: Vec<(String, usize, usize)>,
    others: Vec<(String, usize, usize)>,
}

impl Error {
    fn read(message: &Value) -> Option<Self> {
        if message["level"] != "error" {
            return None;
        }
        let (mut primary, mut others) = (Vec::new(), Vec::new());
        let children = message["children"].as_array().into_iter().flatten();
        for (depth, part) in std::iter::once((0, message)).chain(children.map(|part| (1, part))) {
            for span in part["spans"].as_array().into_iter().flatten() {
                let line = |name: &str| Some(span[name].as_u64()? as usize);
                let lines = line("line_start").zip(line("line_end"));
                if let (Some(file), Some((first, last))) = (span["file_name"].as_str(), lines) {
                    let is_primary = depth == 0 && span["is_primary"] == true;
                    let spans = if is_primary { &mut primary } else { &mut others };
                    spans.push((file.to_owned(), first, last));
                }
            }
        }
        Some(Self { primary, others })
    }

    /// Returns the mutants that the error is about: those at its primary place, or else those of
    /// the smallest part with mutants at the other places that it names.
    fn mutants_of_error(&self, places: &Places) -> Vec<usize> {
        let within = |(file, first, last): &(String, usize, usize)| -> Vec<usize> {
            let spots = places.get(file).into_iter().flatten();
            let at_first = |lines: &(usize, usize)| lines.0 <= *first && *first <= lines.1;
            let inside = |lines: &(usize, usize)| *first <= lines.0 && lines.1 <= *last;
            let mut found: Vec<usize> = spots
                .clone()
                .filter(|(_, lines)| at_first(lines))
                .map(|(&number, _)| number)
                .collect();
            if found.is_empty() {
                found =
                    spots.filter(|(_, lines)| inside(lines)).map(|(&number, _)| number).collect();
            }
            found
        };
        let found: Vec<usize> = self.primary.iter().flat_map(within).collect();
        if !found.is_empty() {
            return found;
        }
        let parts = self.others.iter().map(within).filter(|found| !found.is_empty());
        parts.min_by_key(Vec::len).unwrap_or_default()
    }
}

enum Outcome {
    /// The test binaries, once built.
    Done(Vec<PathBuf>),
    Errors(Vec<Error>),
}

/// Returns whether an argument names a test binary to run, or none at all; the library's binary is
/// named after the package.
fn is_wanted(argument: &str) -> bool {
    match argument.strip_prefix("--test=").or((argument == "--lib").then_some("pagewise")) {
        Some(binary) => suite::wants(binary),
        None => true,
    }
}

/// Builds the tests, or only checks the library, which is faster and reports most errors at once.
fn run(tree: &Path, area: &Area, builds: bool) -> Result<Outcome> {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(if builds {
        &["test", "--no-run"][..]
    } else {
        &["check", "--lib"]
    });
    command.args(["--message-format=json", "-j2", "-p", area.package]);
    let features = area.build.iter().filter(|argument| argument.starts_with("--features"));
    if builds {
        command.args(area.build.iter().filter(|argument| is_wanted(argument)));
        // Compiling at level 0 takes a third as long as at level 1; the tests take little longer.
        let level = std::env::var("LEVEL").unwrap_or_else(|_| "0".to_owned());
        let setting = format!("profile.dev.package.{}.opt-level={level}", area.package);
        command.args(["--config", &setting]);
    } else {
        command.args(features).args(area.check);
    }
    command.current_dir(tree);
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    // Another sample changes every file, so incremental builds would gain nothing.
    command.env("CARGO_INCREMENTAL", "0");
    command.env("CARGO_TARGET_DIR", tree.with_file_name("built"));
    command.env("RUSTFLAGS", "--cap-lints=warn");
    let output = command.output()?;
    let messages = String::from_utf8(output.stdout)?;
    let messages: Vec<Value> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if output.status.success() {
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        return Ok(Outcome::Done(
            tests.filter_map(|message| Some(message["executable"].as_str()?.into())).collect(),
        ));
    }
    let errors: Vec<Error> =
        messages.iter().filter_map(|message| Error::read(&message["message"])).collect();
    if errors.is_empty() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Outcome::Errors(errors))
}
