//! The command line.

use super::list::{PROGRAMS, Program};
use super::preloaded::Library;

pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) programs: Vec<&'static Program>,
    /// The first one stands for runs without a library.
    pub(crate) libraries: Vec<Library>,
}

impl Options {
    /// # Errors
    /// An unknown option, program or library, or an invalid value.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            programs: PROGRAMS.iter().collect(),
            libraries: vec![Library::default()],
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds = rounds.ok_or("--rounds needs a number from 1")?;
                }
                "--only" => options.programs = programs(&value()?)?,
                // Cargo passes this to every bench.
                "--bench" => {}
                other if other.starts_with("--") => {
                    return Err(format!("unknown option {other}; see --help"));
                }
                path => {
                    let library = Library::parse(path);
                    let unknown = || format!("unknown library {path}; see --help");
                    options.libraries.push(library.ok_or_else(unknown)?);
                }
            }
        }
        Ok(options)
    }
}

/// Returns the programs of these names, separated by commas, in the order of [`PROGRAMS`].
fn programs(names: &str) -> Result<Vec<&'static Program>, String> {
    let names: Vec<&str> = names.split(',').collect();
    if let Some(unknown) = names.iter().find(|one| PROGRAMS.iter().all(|it| it.name != **one)) {
        let all: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        return Err(format!("unknown program {unknown:?}; available: {}", all.join(", ")));
    }
    Ok(PROGRAMS.iter().filter(|program| names.contains(&program.name)).collect())
}
