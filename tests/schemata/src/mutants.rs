//! The mutants, as cargo-mutants lists them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Area;

/// Position of a mutant: line from 1, column from 0.
pub(crate) type Place = (usize, usize);

#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Switches the mutant on; not 0.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) start: Place,
    pub(crate) replacement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genre {
    Function,
    Binary,
    Unary,
    Arm,
    Guard,
}

pub(crate) fn list(root: &Path, area: &Area) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "-p", area.package]).current_dir(root);
    for files in area.files {
        command.args(["-f", files]);
    }
    for files in area.elsewhere {
        command.args(["-e", files]);
    }
    let output = command.output().context("cargo-mutants runs")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let mutants = listed.iter().enumerate().filter_map(|(index, listed)| read(index + 1, listed));
    let files = std::env::var("FILES").unwrap_or_default();
    let is_wanted = |file: &str| files.split(',').any(|start| file.starts_with(start));
    // The list includes unit tests that are not run under Miri.
    Ok(mutants.filter(|mutant| is_wanted(&mutant.file) && !mutant.is_in_a_test()).collect())
}

/// Returns a listed mutant; `None` if it cannot be switched.
fn read(number: usize, listed: &Value) -> Option<Mutant> {
    let genre = match listed["genre"].as_str()? {
        "FnValue" => Genre::Function,
        "BinaryOperator" => Genre::Binary,
        "UnaryOperator" => Genre::Unary,
        "MatchArm" => Genre::Arm,
        "MatchArmGuard" => Genre::Guard,
        _ => return None,
    };
    let place = &listed["span"]["start"];
    let text = |field: &str| Some(listed[field].as_str()?.to_owned());
    let start = (place["line"].as_u64()? as usize, place["column"].as_u64()? as usize - 1);
    // `None` if it is in a constant. A function that returns an `impl Iterator` must return one
    // type.
    let returned = listed["function"].as_object()?["return_type"].as_str()?;
    if genre == Genre::Function && returned.starts_with("-> impl") {
        return None;
    }
    let (name, file, replacement) = (text("name")?, text("file")?, text("replacement")?);
    Some(Mutant { number, name, file, genre, start, replacement })
}

/// FNV-1a, mixed twice: an order independent of the names.
pub(crate) fn hash(name: &str) -> u64 {
    let fnv = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (fnv ^ fnv >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

impl Mutant {
    /// Returns whether it is in a unit test.
    fn is_in_a_test(&self) -> bool {
        let is_of_tests = self.file.ends_with("tests.rs") || self.file.contains("/tests/");
        is_of_tests || self.name.contains("tests::")
    }
}
