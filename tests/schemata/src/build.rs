//! A copy of the source with the mutants in it, built without those that do not compile.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::Area;
use crate::mutants::Mutant;
use crate::sources::{self, Spots};

pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) viable: Vec<Mutant>,
    /// The test binaries, with the folder that each runs in.
    pub(crate) tests: Vec<PathBuf>,
}

impl Tree {
    pub(crate) fn make(root: &Path, out: &Path, area: &Area, all: &[Mutant]) -> Result<Self> {
        let tree = out.join("tree");
        copy(root, &tree, area, all)?;
        let unviable = out.join("unviable.txt");
        let known = fs::read_to_string(&unviable).unwrap_or_default();
        let mut dropped: HashSet<String> = known.lines().map(str::to_owned).collect();
        loop {
            let viable: Vec<Mutant> =
                all.iter().filter(|mutant| !dropped.contains(&mutant.name)).cloned().collect();
            let (built_in, places) = write(root, &tree, area, all, &viable)?;
            let viable: Vec<Mutant> =
                viable.into_iter().filter(|mutant| built_in.contains(&mutant.number)).collect();
            match build(&tree, area)? {
                Built::Tests(tests) => return Ok(Self { root: tree, viable, tests }),
                Built::Errors(errors) => {
                    let before = dropped.len();
                    for (file, line) in &errors {
                        let culprits = places
                            .get(file)
                            .into_iter()
                            .flatten()
                            .filter(|(_, lines)| lines.0 <= *line && *line <= lines.1);
                        let numbers: HashSet<usize> = culprits.map(|(&number, _)| number).collect();
                        let found = all.iter().filter(|mutant| numbers.contains(&mutant.number));
                        dropped.extend(found.map(|mutant| mutant.name.clone()));
                    }
                    println!(
                        "{} errors, {} mutants do not compile: {:?}",
                        errors.len(),
                        dropped.len(),
                        errors.first()
                    );
                    ensure!(dropped.len() > before, "no mutant stands where {errors:?}");
                    let names: Vec<&str> = dropped.iter().map(String::as_str).collect();
                    fs::write(&unviable, names.join("\n"))?;
                }
            }
        }
    }
}

/// The files of the repository, as they stand, but for those that are written with mutants.
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

/// Writes the files with their mutants: which are in, and where.
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

/// Writes a file unless it holds that already: what did not change need not be built.
fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).unwrap_or_default() != text {
        fs::write(path, text)?;
    }
    Ok(())
}

enum Built {
    Tests(Vec<PathBuf>),
    /// Files and lines.
    Errors(Vec<(String, usize)>),
}

fn build(tree: &Path, area: &Area) -> Result<Built> {
    let mut command = Command::new("cargo");
    command.args([
        "+nightly",
        "test",
        "--no-run",
        "--message-format=json",
        "-j1",
        "-p",
        area.package,
    ]);
    command.args(area.build).current_dir(tree);
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command.env("CARGO_TARGET_DIR", tree.with_file_name("built"));
    command.env("RUSTFLAGS", "--cap-lints=warn");
    let output = command.output()?;
    let messages = String::from_utf8(output.stdout)?;
    let messages: Vec<Value> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if output.status.success() {
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        return Ok(Built::Tests(
            tests.filter_map(|message| Some(message["executable"].as_str()?.into())).collect(),
        ));
    }
    let mut errors = Vec::new();
    for message in &messages {
        if message["message"]["level"] == "error" {
            for span in message["message"]["spans"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|span| span["is_primary"] == true)
            {
                let lines = span["line_start"].as_u64().zip(span["line_end"].as_u64());
                if let (Some(file), Some((first, last))) = (span["file_name"].as_str(), lines) {
                    errors.extend(
                        (first..=last.min(first + 3)).map(|line| (file.to_owned(), line as usize)),
                    );
                }
            }
        }
    }
    if errors.is_empty() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Built::Errors(errors))
}
