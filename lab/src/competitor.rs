//! Competitors and their parameters: the options that `compare` and `replay` share.

use std::iter;
use std::path::Path;

use pagewise::catalogue::{self, Entry};
use pagewise::global::Tuning;
use pagewise::hybrid;
use pagewise::pages::Config;
use pagewise::sizemap::{SizeMap, optimise};
use pagewise_replay::units::parse_bytes;
use pagewise_replay::usage::Usage;

use crate::demand;
use crate::hc;
use crate::served::Server;
use crate::system::library::Library;

/// Name under which the C library's allocator is listed.
pub(crate) const SYSTEM: &str = "SYSTEM";

/// Name under which Doug Lea's allocator is listed.
pub(crate) const LEA: &str = "LEA";

/// Name under which the tunable hybrid with the settings of `--hc` is listed.
pub(crate) const HC: &str = "HC";

/// Name under which pagewise's global allocator is listed.
pub(crate) const GLOBAL: &str = "GLOBAL";

/// Name under which `libpagewise.so` is listed: the global allocator for programs not written in
/// Rust.
pub(crate) const LIBPAGEWISE: &str = "LIBPAGEWISE";

/// The libraries compared by default.
const LIBRARIES: [&str; 4] = [LIBPAGEWISE, "MIMALLOC", "JEMALLOC", "TCMALLOC"];

/// A strategy of the catalogue, or another allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Competitor {
    /// pagewise's global allocator, in its own process.
    Global,
    Strategy(&'static Entry),
    /// The tunable hybrid with the settings of `--hc`.
    Hybrid,
    /// Doug Lea's allocator, over its own memory ([`Lea`](pagewise_replay::lea::Lea)).
    Lea,
    /// The C library's allocator, in its own process.
    System,
    /// A library's `malloc` instead of the C library's, in its own process.
    Library(&'static Library),
}

impl Competitor {
    /// Returns all competitors.
    fn all() -> impl Iterator<Item = Self> {
        catalogue::all().map(Self::Strategy).chain([Self::Global]).chain(Self::beside())
    }

    /// Returns the competitors that are not strategies of this project.
    fn beside() -> impl Iterator<Item = Self> {
        [Self::Lea, Self::System]
            .into_iter()
            .chain(Library::all_installed().iter().map(Self::Library))
    }

    /// Returns the allocators that a user would choose among: the global allocator, strategies for
    /// an arena, and rivals.
    pub(crate) fn choices() -> Vec<Self> {
        let strategies = catalogue::all().filter(|entry| entry.chosen).map(Self::Strategy);
        let beside = [Self::Lea, Self::System].into_iter().chain(Self::libraries());
        iter::once(Self::Global).chain(strategies).chain(beside).collect()
    }

    /// Returns the installed libraries that are compared by default.
    pub(crate) fn libraries() -> impl Iterator<Item = Self> {
        let installed = Library::all_installed().iter();
        installed.filter(|one| LIBRARIES.contains(&one.short_name())).map(Self::Library)
    }

    /// Returns the best-known strategies of each family, Lea's allocator and the system's.
    pub(crate) fn usual() -> Vec<Self> {
        let usual = catalogue::all().filter(|entry| entry.compared);
        usual.map(Self::Strategy).chain([Self::Lea, Self::System]).collect()
    }

    /// Returns the competitors that a list of names selects: names of strategies, of families, or
    /// `all`. Each appears once, where it is first selected.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn choose(names: &[String]) -> Result<Vec<Self>, Usage> {
        let mut chosen: Vec<Self> = Vec::new();
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

    /// Returns the competitor of this name, ignoring case.
    ///
    /// # Errors
    /// If there is none: names similar ones, and explains how to list all.
    pub(crate) fn find(name: &str) -> Result<Self, Usage> {
        let is_family = catalogue::families().iter().any(|one| one.name == name);
        if name == "all" || is_family || name.contains(',') {
            return Err(Usage(format!(
                "'{name}' is not one strategy; `pagewise compare TRACE --strategy {name}` takes \
                 several"
            )));
        }
        Self::by_name(name).ok_or_else(|| unknown(name, Self::all().map(|one| one.name())))
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::all().chain([Self::Hybrid]).find(|one| one.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Strategy(entry) => entry.name,
            Self::Hybrid => HC,
            Self::Global => GLOBAL,
            Self::Lea => LEA,
            Self::System => SYSTEM,
            Self::Library(library) => library.short_name(),
        }
    }

    /// Returns the server of a replay in a child process.
    pub(crate) fn server(&self, parameters: &Parameters) -> Server {
        match self {
            Self::Strategy(entry) => {
                Server::Strategy { name: entry.name.to_owned(), config: parameters.of(entry) }
            }
            Self::Hybrid => Server::Hybrid(parameters.hc),
            Self::Global => Server::Global(Tuning::new()),
            Self::Lea => Server::Lea,
            Self::System | Self::Library(_) => Server::Malloc,
        }
    }

    /// Returns the library to preload into that process.
    pub(crate) fn library(&self) -> Option<&'static Library> {
        match self {
            Self::Library(library) => Some(library),
            _ => None,
        }
    }
}

/// Returns the error for an unknown name: it lists similar names, and explains how to list all; or
/// names the library that is not installed.
fn unknown(asked: &str, names: impl Iterator<Item = &'static str>) -> Usage {
    if let Ok(Err(missing)) = Library::installed(asked) {
        return Usage(missing);
    }
    let near = nearest(asked, names);
    let guess = match near.split_last() {
        None => String::new(),
        Some((last, [])) => format!("did you mean {last}? "),
        Some((last, others)) => format!("did you mean {} or {last}? ", others.join(", ")),
    };
    Usage(format!("unknown strategy '{asked}'; {guess}`pagewise strategies` lists all"))
}

/// Returns up to three similar names, most similar first; none that is far less similar than the
/// first, and nothing if no name is similar.
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

/// Parameters of the paged strategies. If none is given, each strategy keeps its defaults.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Parameters of the strategies")]
pub(crate) struct ConfigArgs {
    /// p: size of a page, a power of two from 512 bytes to 1 MiB. Without this and the next three
    /// options, PAGEWISE has an arena's defaults: pages of 16 KiB, FFCROSSOVER 1 KiB [default: 64K]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    page_size: Option<usize>,
    /// FFCROSSOVER: largest size that pages serve; FIRST-FIT serves larger ones [default: a quarter
    /// of the page size]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    ffcrossover: Option<usize>,
    /// FREETOL: bytes that must be free in a page before it can become the current one; 1: one free
    /// block suffices [default: 1]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    freetol: Option<usize>,
    /// SIZEMAP: rule that rounds sizes up to classes: linear, page-fitting, geometric[=RATIO], or
    /// optimal (for the trace, found by dynamic programming) [default: page-fitting]
    #[arg(long, value_name = "MAP", value_parser = parse_sizemap)]
    sizemap: Option<Choice>,
    /// Parameters of HC, the tunable hybrid: NAME=VALUE, separated by commas, for example
    /// QL_HIGH=144,SPLIT=off. They change those of HCGEN, or of HCMEM or HCPERF if the list begins
    /// with that name. `compare` and `replay` list the hybrid as HC [default: HCGEN]
    #[arg(long, value_name = "SETTINGS", value_parser = hc::parse)]
    hc: Option<hybrid::Settings>,
    /// Seed of the strategies that choose at random
    #[arg(long, value_name = "N", default_value_t = Config::new().seed)]
    seed: u64,
}

/// A choice of SIZEMAP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    Given(SizeMap),
    /// The optimum for each trace.
    Optimal,
}

/// The parameters of the strategies for one trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// The same for all strategies; `None` if each keeps its defaults.
    given: Option<Config>,
    /// Parameters of HC.
    pub(crate) hc: hybrid::Settings,
    seed: u64,
}

impl Parameters {
    /// Returns the parameters of one strategy.
    pub(crate) fn of(&self, entry: &Entry) -> Config {
        self.given.unwrap_or(entry.config.seed(self.seed))
    }
}

impl ConfigArgs {
    /// Checks the parameters, and returns them on one line, as a report's head shows them.
    ///
    /// # Errors
    /// The first one out of range.
    pub(crate) fn check(&self) -> Result<String, Usage> {
        let config = self.config(SizeMap::PageFitting);
        config.check().map_err(|error| Usage(error.to_string()))?;
        let hc = self.hc.as_ref().map_or(String::new(), |hc| format!(", HC {}", hc::formatted(hc)));
        if !self.is_given() {
            return Ok(format!("default parameters, seed {}{hc}", self.seed));
        }
        let sizemap = match self.sizemap {
            Some(Choice::Given(SizeMap::Linear)) => "linear".to_owned(),
            None | Some(Choice::Given(SizeMap::PageFitting)) => "page-fitting".to_owned(),
            Some(Choice::Given(SizeMap::Geometric { ratio })) => format!("geometric={ratio:.3}"),
            Some(Choice::Given(SizeMap::Classes(classes))) => format!("{} classes", classes.len()),
            Some(Choice::Optimal) => "optimal for each trace".to_owned(),
        };
        Ok(format!(
            "page size {}, FFCROSSOVER {}, FREETOL {}, SIZEMAP {sizemap}, seed {}{hc}",
            config.page_size, config.ffcrossover, config.freetol, config.seed
        ))
    }

    /// Like [`check`](Self::check); returns the parameters that one competitor can have.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn check_for(&self, competitor: Competitor) -> Result<String, Usage> {
        self.check()?;
        let is_paged = matches!(competitor, Competitor::Strategy(_));
        let is_hybrid = matches!(competitor, Competitor::Hybrid);
        let its = Self {
            page_size: self.page_size.filter(|_| is_paged),
            ffcrossover: self.ffcrossover.filter(|_| is_paged),
            freetol: self.freetol.filter(|_| is_paged),
            sizemap: self.sizemap.filter(|_| is_paged),
            hc: self.hc.filter(|_| is_hybrid),
            seed: self.seed,
        };
        its.check()
    }

    /// Adds HC to the competitors if it has settings and is not listed.
    pub(crate) fn add_hc(&self, competitors: &mut Vec<Competitor>) {
        if self.hc.is_some() && competitors.iter().all(|one| one.name() != HC) {
            competitors.push(Competitor::Hybrid);
        }
    }

    /// Returns these parameters with pages of `page_size` bytes.
    pub(crate) fn with_page_size(&self, page_size: usize) -> Self {
        Self { page_size: Some(page_size), ..self.clone() }
    }

    /// Returns the parameters for one trace.
    ///
    /// # Errors
    /// If the trace must be read and cannot be.
    pub(crate) fn for_trace(&self, path: &Path) -> anyhow::Result<Parameters> {
        let sizemap = match self.sizemap {
            None => SizeMap::PageFitting,
            Some(Choice::Given(sizemap)) => sizemap,
            Some(Choice::Optimal) => {
                let config = self.config(SizeMap::PageFitting);
                let demand = demand::of_trace(path)?;
                let classes = optimise(&demand, config.unit, config.ffcrossover, config.page_size);
                // Leaks a few hundred bytes per trace, since a `SizeMap` needs static classes.
                SizeMap::Classes(classes.leak())
            }
        };
        let given = self.is_given().then(|| self.config(sizemap));
        Ok(Parameters { given, hc: self.hc.unwrap_or_default(), seed: self.seed })
    }

    /// Returns whether a parameter other than the seed was given.
    fn is_given(&self) -> bool {
        let sizes = [self.page_size, self.ffcrossover, self.freetol];
        sizes.iter().any(Option::is_some) || self.sizemap.is_some()
    }

    fn config(&self, sizemap: SizeMap) -> Config {
        let paged = self.page_size.map_or_else(Config::new, Config::with_page_size);
        paged
            .ffcrossover(self.ffcrossover.unwrap_or(paged.ffcrossover))
            .freetol(self.freetol.unwrap_or(paged.freetol))
            .sizemap(sizemap)
            .seed(self.seed)
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
            _ => Err("the ratio must be above 1 and at most 1024".to_owned()),
        },
        _ => Err("expected linear, page-fitting, geometric[=RATIO] or optimal".to_owned()),
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
        for several in ["MRU,SYSTEM", "all", "fits"] {
            let error = Competitor::find(several).unwrap_err().to_string();
            let way_out = format!("`pagewise compare TRACE --strategy {several}` takes several");
            assert_eq!(error, format!("'{several}' is not one strategy; {way_out}"));
        }
        let error = Competitor::find("zzzzzz").unwrap_err().to_string();
        assert_eq!(error, "unknown strategy 'zzzzzz'; `pagewise strategies` lists all");
        let error = Competitor::choose(&["niels".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("did you mean nielsen?"), "{error}");
        assert!(matches!(Competitor::find("hc"), Ok(Competitor::Hybrid)));
        let error = Competitor::find("HCG").unwrap_err().to_string();
        assert!(error.contains("HCGEN"), "{error}");
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
        let all = names(&["all"]);
        for default in [Competitor::choices(), Competitor::usual()] {
            let default: Vec<_> = default.iter().map(Competitor::name).collect();
            assert!(default.contains(&SYSTEM) && default.contains(&"PAGEWISE"), "{default:?}");
            assert!(default.iter().all(|name| all.contains(name)), "{default:?}");
        }
    }

    #[test]
    fn defaults_apply_unless_a_parameter_is_given() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            config: ConfigArgs,
        }
        let of = |line: &[&str], name: &str| {
            let line = <Line as clap::Parser>::parse_from([&["pagewise"], line].concat());
            let parameters = line.config.for_trace(Path::new("none")).expect("not read");
            parameters.of(catalogue::find(name).expect("in the catalogue"))
        };
        let seeded = |config: Config| config.seed(7);
        assert_eq!(of(&["--seed=7"], "PAGEWISE"), seeded(Config::arena()));
        assert_eq!(of(&["--seed=7"], "MRU"), seeded(Config::new()));
        let small = Config::with_page_size(8192);
        assert_eq!(of(&["--page-size=8K"], "PAGEWISE"), small);
        assert_eq!(of(&["--page-size=8K"], "MRU"), small);
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
