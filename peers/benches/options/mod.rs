//! The command line, and the allocators that it can name.

/// A row of the comparison: its name, the feature it is built with, its environment.
pub(crate) type Peer = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

pub(crate) const PEERS: &[Peer] = &[
    ("pagewise", "pagewise", &[]),
    ("pagewise-again", "pagewise", &[]),
    ("pagewise-small-pages", "pagewise", &[("PAGEWISE_HUGE_PAGES", "0")]),
    ("pagewise-huge", "pagewise", &[("PAGEWISE_HUGE_PAGES", "1")]),
    ("pagewise-many-heaps", "many-heaps", &[]),
    ("mimalloc3", "mimalloc3", &[]),
    ("mimalloc3-small-pages", "mimalloc3", &[("MIMALLOC_ALLOW_THP", "0")]),
    ("mimalloc2", "mimalloc2", &[]),
    ("mimalloc-crate", "mimalloc-crate", &[]),
    ("jemalloc", "jemalloc", &[]),
    ("snmalloc", "snmalloc", &[]),
    ("rpmalloc", "rpmalloc", &[]),
    ("smmalloc", "smmalloc", &[]),
    ("rusty_alloc", "rusty_alloc", &[]),
    ("system", "", &[]),
];

pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) only: Option<Vec<String>>,
    /// At least one.
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) instructions: bool,
    pub(crate) json: bool,
    pub(crate) wine: bool,
}

impl Options {
    /// # Errors
    /// An unknown option or allocator, or an invalid value.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            only: None,
            peers: PEERS.iter().collect(),
            instructions: false,
            json: false,
            wine: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds = rounds.ok_or("--rounds needs a number from 1")?;
                }
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--allocators" => options.peers = peers(&value()?)?,
                "--instructions" => options.instructions = true,
                "--json" => options.json = true,
                "--wine" => options.wine = true,
                // Cargo passes this to every bench.
                "--bench" => {}
                other => return Err(format!("unknown option {other}; see --help")),
            }
        }
        if options.instructions {
            options.rounds = 1;
        }
        Ok(options)
    }
}

/// Returns the allocators of these names, separated by commas, in the order of [`PEERS`].
fn peers(names: &str) -> Result<Vec<&'static Peer>, String> {
    let names: Vec<&str> = names.split(',').collect();
    let all = || PEERS.iter().map(|(name, ..)| *name);
    if let Some(unknown) = names.iter().find(|one| all().all(|name| name != **one)) {
        let all: Vec<_> = all().collect();
        return Err(format!("unknown allocator {unknown:?}; available: {}", all.join(", ")));
    }
    Ok(PEERS.iter().filter(|(name, ..)| names.contains(name)).collect())
}
