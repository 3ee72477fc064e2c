//! Who is to be measured, and with which parameters: the options that `compare` and `replay` share.

use std::path::Path;

use pagewise::catalogue::{self, Entry};
use pagewise::paged::Config;
use pagewise::sizemap::{SizeMap, optimise};

use crate::demand;
use crate::units::parse_bytes;
use crate::usage::Usage;

/// Address space a strategy may use, in bytes. It is reserved, and only what is touched takes
/// memory.
pub(crate) const CAPACITY: usize = 64 << 30;

/// Name under which the C library's allocator is listed.
pub(crate) const SYSTEM: &str = "SYSTEM";

/// Name under which Doug Lea's allocator is listed.
pub(crate) const LEA: &str = "LEA";

/// A strategy of the catalogue, or an allocator that is none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Competitor {
    Strategy(&'static Entry),
    /// Doug Lea's allocator, over memory of its own ([`Lea`](crate::lea::Lea)).
    Lea,
    /// The C library's allocator, in a process of its own.
    System,
}

impl Competitor {
    /// Every strategy of the catalogue, Lea's and the system's allocator.
    fn all() -> impl Iterator<Item = Self> {
        catalogue::all().map(Self::Strategy).chain([Self::Lea, Self::System])
    }

    /// Those that are compared unless others are asked for: the best known of each family, Lea's
    /// and the system's allocator.
    fn usual() -> impl Iterator<Item = Self> {
        let usual = catalogue::all().filter(|entry| entry.compared);
        usual.map(Self::Strategy).chain([Self::Lea, Self::System])
    }

    /// The competitors that a list of names asks for: of strategies, of families, or `all`; the
    /// usual ones if it is empty. Each comes once, where it is first named.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn choose(names: &[String]) -> Result<Vec<Self>, Usage> {
        let mut chosen: Vec<Self> = Vec::new();
        if names.is_empty() {
            chosen.extend(Self::usual());
        }
        for name in names {
            let family = catalogue::families().iter().find(|one| one.name == name.as_str());
            let named = match family {
                _ if name == "all" => Self::all().collect(),
                Some(family) => family.entries.iter().map(Self::Strategy).collect(),
                None => vec![Self::by_name(name).ok_or_else(|| {
                    let families = catalogue::families().iter().map(|one| one.name);
                    unknown(name, Self::all().map(|one| one.name()).chain(families))
                })?],
            };
            chosen.extend(named);
        }
        let mut seen = std::collections::HashSet::new();
        chosen.retain(|one| seen.insert(one.name()));
        Ok(chosen)
    }

    /// The competitor of this name; case does not matter.
    ///
    /// # Errors
    /// If there is none: the nearest names, and how to list all.
    pub(crate) fn find(name: &str) -> Result<Self, Usage> {
        Self::by_name(name).ok_or_else(|| unknown(name, Self::all().map(|one| one.name())))
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|one| one.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Strategy(entry) => entry.name,
            Self::Lea => LEA,
            Self::System => SYSTEM,
        }
    }
}

/// What is said of a name that is none of these: which are near, and how to list all.
fn unknown(asked: &str, names: impl Iterator<Item = &'static str>) -> Usage {
    let near = nearest(asked, names);
    let guess = match near.split_last() {
        None => String::new(),
        Some((last, [])) => format!("did you mean {last}? "),
        Some((last, others)) => format!("did you mean {} or {last}? ", others.join(", ")),
    };
    Usage(format!("no strategy '{asked}'; {guess}`pagewise strategies` lists all"))
}

/// The names most like the one that was asked for, if any is like it at all: three at the most, the
/// nearest first, none of them much less like it than that.
fn nearest(asked: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    const LIKE: f64 = 0.7;
    const MUCH: f64 = 0.05;
    let asked = asked.to_ascii_uppercase();
    let likeness = |name: &str| strsim::jaro_winkler(&asked, &name.to_ascii_uppercase());
    let mut near: Vec<_> = names.map(|name| (likeness(name), name)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let least = near.first().map_or(LIKE, |nearest| LIKE.max(nearest.0 - MUCH));
    let near = near.into_iter().take(3).take_while(|(likeness, _)| *likeness > least);
    near.map(|(_, name)| name).collect()
}

/// Parameters of the paged strategies.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Parameters of the strategies")]
pub(crate) struct ConfigArgs {
    /// p: size of a page, a power of two from 512 bytes to 1 MiB
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = parse_bytes)]
    page_size: usize,
    /// FFCROSSOVER: largest size served by pages; larger ones by FIRST-FIT [default: a quarter of
    /// the page size]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    ffcrossover: Option<usize>,
    /// FREETOL: bytes free in a page before it can become the current one; 1: any free block will
    /// do
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = parse_bytes)]
    freetol: usize,
    /// SIZEMAP: how sizes are rounded up to classes: linear, page-fitting, geometric[=RATIO], or
    /// optimal (for the trace, found by dynamic programming)
    #[arg(long, value_name = "MAP", default_value = "page-fitting", value_parser = parse_sizemap)]
    sizemap: Choice,
    /// Seed of the strategies that choose at random
    #[arg(long, value_name = "N", default_value_t = Config::new().seed)]
    seed: u64,
}

/// The choice of a SIZEMAP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    Given(SizeMap),
    /// The best for each trace.
    Optimal,
}

impl ConfigArgs {
    /// Checks the parameters, and gives them on one line, as they head a report.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub(crate) fn check(&self) -> Result<String, Usage> {
        let config = self.config(SizeMap::PageFitting);
        config.check().map_err(|error| Usage(error.to_string()))?;
        let sizemap = match self.sizemap {
            Choice::Given(SizeMap::Linear) => "linear".to_owned(),
            Choice::Given(SizeMap::PageFitting) => "page-fitting".to_owned(),
            Choice::Given(SizeMap::Geometric { ratio }) => format!("geometric={ratio:.3}"),
            Choice::Given(SizeMap::Classes(classes)) => format!("{} classes", classes.len()),
            Choice::Optimal => "optimal for each trace".to_owned(),
        };
        Ok(format!(
            "page size {}, FFCROSSOVER {}, FREETOL {}, SIZEMAP {sizemap}, seed {}",
            config.page_size, config.ffcrossover, config.freetol, config.seed
        ))
    }

    /// These parameters with pages of so many bytes.
    pub(crate) fn with_page_size(&self, page_size: usize) -> Self {
        Self { page_size, ..self.clone() }
    }

    /// The parameters for one trace.
    ///
    /// # Errors
    /// If the trace has to be read and cannot be.
    pub(crate) fn for_trace(&self, path: &Path) -> anyhow::Result<Config> {
        let sizemap = match self.sizemap {
            Choice::Given(sizemap) => sizemap,
            Choice::Optimal => {
                let config = self.config(SizeMap::PageFitting);
                let demand = demand::of_trace(path)?;
                let classes = optimise(&demand, config.unit, config.ffcrossover, config.page_size);
                // A few hundred bytes per trace, which a parameter of the type `SizeMap` must
                // outlive the program with.
                SizeMap::Classes(classes.leak())
            }
        };
        Ok(self.config(sizemap))
    }

    fn config(&self, sizemap: SizeMap) -> Config {
        let paged = Config::with_page_size(self.page_size);
        Config {
            ffcrossover: self.ffcrossover.unwrap_or(paged.ffcrossover),
            freetol: self.freetol,
            sizemap,
            seed: self.seed,
            ..paged
        }
    }
}

fn parse_sizemap(text: &str) -> Result<Choice, String> {
    let geometric = |ratio| Choice::Given(SizeMap::Geometric { ratio });
    match text.split_once('=') {
        None if text == "linear" => Ok(Choice::Given(SizeMap::Linear)),
        None if text == "page-fitting" => Ok(Choice::Given(SizeMap::PageFitting)),
        None if text == "optimal" => Ok(Choice::Optimal),
        // The ratio with the best worst-case bound (Brent §6.1).
        None if text == "geometric" => Ok(geometric(std::f64::consts::E)),
        Some(("geometric", ratio)) => match ratio.parse() {
            Ok(ratio) if ratio > 1.0 && ratio <= 1024.0 => Ok(geometric(ratio)),
            _ => Err("the ratio must be a number above 1, at most 1024".to_owned()),
        },
        _ => Err("there are linear, page-fitting, geometric[=RATIO] and optimal".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_nearly() {
        assert!(matches!(Competitor::find("system"), Ok(Competitor::System)));
        let error = Competitor::find("SYSTEN").unwrap_err().to_string();
        assert!(error.contains("did you mean SYSTEM?"), "{error}");
        let error = Competitor::find("zzzzzz").unwrap_err().to_string();
        assert_eq!(error, "no strategy 'zzzzzz'; `pagewise strategies` lists all");
        let error = Competitor::choose(&["niels".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("did you mean nielsen?"), "{error}");
        let error = Competitor::find("HC").unwrap_err().to_string();
        assert!(error.contains("did you mean HCGEN, HCMEM or HCPERF?"), "{error}");
    }

    #[test]
    fn families_and_names_are_chosen_once() {
        let names = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
            let chosen = Competitor::choose(&list).expect("known names");
            chosen.iter().map(Competitor::name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["mru", "system", "MRU"]), ["MRU", SYSTEM]);
        let brent = names(&["LEAST-FREE", "brent"]);
        assert_eq!(brent[0], "LEAST-FREE");
        assert_eq!(brent.iter().filter(|&&name| name == "LEAST-FREE").count(), 1);
        assert!(brent.contains(&"FIRST-FIT") && !brent.contains(&"BUDDY"));
        let (usual, all) = (names(&[]), names(&["all"]));
        assert!(usual.contains(&SYSTEM) && usual.iter().all(|name| all.contains(name)));
    }

    #[test]
    fn sizemaps_are_read() {
        assert_eq!(parse_sizemap("linear"), Ok(Choice::Given(SizeMap::Linear)));
        assert_eq!(parse_sizemap("optimal"), Ok(Choice::Optimal));
        let geometric = SizeMap::Geometric { ratio: 1.25 };
        assert_eq!(parse_sizemap("geometric=1.25"), Ok(Choice::Given(geometric)));
        for wrong in ["", "geometric=1", "geometric=x", "linear=2", "cubic"] {
            assert!(parse_sizemap(wrong).is_err(), "{wrong}");
        }
    }
}
